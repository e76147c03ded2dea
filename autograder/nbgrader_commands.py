"""nbgrader's own commands for one student at a time, in this process.

Starting nbgrader costs two seconds and recording a submission a tenth of one, so a
class is recorded by one process; a student whose submission nbgrader cannot take does
not stop the others. Nothing that a student wrote is alive while the gradebook is open.
"""

import functools
import glob
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import NbGraderAPI
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder import course
from autograder.jobs import Receipt
from autograder.rebuild import OURS
from autograder.receipts import verdict_id

STAMP = "timestamp.txt"
"""Where the exchange and zip_collect write when a submission came."""
EXAMPLE = "2026-02-15 23:59:00 UTC"


@functools.cache
def config() -> Config:
    """Return what nbgrader_config.py says."""
    return PyFileConfigLoader(str(course.CONFIG)).load_config()


@functools.cache
def _api() -> NbGraderAPI:
    receipts_only = Config({"SubmittedNotebook": {"check": False}})
    return NbGraderAPI(config=Config(config(), **receipts_only))


def gradebook() -> Gradebook:
    """Return the gradebook, to be closed (it is a context manager)."""
    where = config().CourseDirectory
    return Gradebook(where.db_url, where.course_id)


def submission(book: Gradebook, assignment: str, student: str) -> Any:
    """Return what the gradebook holds of a submission; None if nothing."""
    try:
        return book.find_submission(assignment, student)
    except MissingEntry:
        return None


def marks(submission: Any) -> list[Any]:
    """Return the marks of a submission, by cell; none where nothing is recorded."""
    notebooks = submission.notebooks if submission else []
    return [grade for notebook in notebooks for grade in notebook.grades]


def score(submission: Any) -> float:
    """Return the points of a submission without what being late costs."""
    return max(0.0, submission.score - (submission.late_submission_penalty or 0.0))


def require(assignment: str) -> None:
    """Raise CourseError where the gradebook does not know the assignment."""
    with gradebook() as book:
        try:
            book.find_assignment(assignment)
        except MissingEntry:
            raise course.CourseError(
                f"the gradebook has no {assignment}: run `nbgrader generate_assignment "
                f"{assignment} --force` in {course.HERE.name}/ first"
            ) from None


def is_recorded(receipt: Receipt, points: dict[str, float]) -> bool:
    """Return whether the gradebook holds this verdict for the submission as it lies
    there.

    points: of each graded cell as it is released now; a verdict is recorded under them.
    """
    where = (receipt["student"], receipt["assignment"])
    path = course.AUTOGRADED.joinpath(*where, f"{receipt['assignment']}.ipynb")
    try:
        metadata = json.loads(path.read_text())["metadata"][OURS]
    except (OSError, ValueError, KeyError):
        return False
    times = [place.joinpath(*where) for place in (course.SUBMITTED, course.AUTOGRADED)]
    is_this = metadata.get("verdict") == verdict_id(receipt)
    return (
        is_this
        and metadata.get("points") == points
        and len(set(map(_time, times))) == 1
    )


def _time(folder: Path) -> str:
    path = folder / STAMP
    return path.read_text(errors="replace") if path.exists() else ""


def moment(text: str) -> datetime | None:
    """Return a time as nbgrader reads it; None where it cannot, and would stop."""
    try:
        return parse_utc(text)
    except (ValueError, OverflowError, TypeError):
        return None


def record(assignment: str, student: str) -> str | None:
    """Have nbgrader record a student's verdicts; says why not where it could not."""
    if problem := _no_time(course.SUBMITTED / student / assignment):
        return problem
    settled = _settled(assignment, student)
    problem = _reason_of(_api().autograde(assignment, glob.escape(student)))
    if settled and not problem:
        _settle(assignment, student, settled)
    return problem


def _settled(assignment: str, student: str) -> set[str]:
    """Return the marks that a person has given to the submission that is recorded
    again.

    nbgrader asks for all of them anew, as it does where there is another submission.
    """
    places = (course.SUBMITTED, course.AUTOGRADED)
    times = {_time(place / student / assignment) for place in places}
    if len(times) > 1 or times == {""}:
        return set()
    with gradebook() as book:
        return {
            grade.name
            for grade in marks(submission(book, assignment, student))
            if grade.manual_score is not None and not grade.needs_manual_grade
        }


def _settle(assignment: str, student: str, names: set[str]) -> None:
    """Keep marks that a person gave, except those above the most that there is now."""
    with gradebook() as book:
        for grade in marks(submission(book, assignment, student)):
            if grade.name in names and grade.manual_score <= grade.max_score:
                grade.needs_manual_grade = False
        book.db.commit()


def _no_time(folder: Path) -> str | None:
    """Return why nbgrader cannot tell when a submission came.

    It would not name the file.
    """
    text = _time(folder).strip()
    if not text or moment(text):
        return None
    place = (folder / STAMP).relative_to(course.HERE)
    return f"{place} holds no time: {text[:40]!r}; write one as {EXAMPLE!r}"


def feedback(assignment: str, student: str) -> str | None:
    """Have nbgrader write a student's feedback; says why not where it could not."""
    return _reason_of(_api().generate_feedback(assignment, glob.escape(student)))


def renew_penalties(assignment: str) -> None:
    """Set what late work costs by the due date, the rule and the marks of now.

    nbgrader does so only when it records a submission.
    """
    with gradebook() as book:
        students = [
            late.student_id
            for late in book.assignment_submissions(assignment)
            if late.total_seconds_late > 0 or late.late_submission_penalty
        ]
    for student in students:
        about = {"student": student, "assignment": assignment, "notebook": assignment}
        resources = {"nbgrader": about | {"db_url": config().CourseDirectory.db_url}}
        AssignLatePenalties(config=config()).preprocess(new_notebook(), resources)


def _reason_of(result: dict[str, Any]) -> str | None:
    if result["success"]:
        return None
    reason = result.get("error") or result.get("log") or "no reason"
    return f"nbgrader: {reason.strip().splitlines()[-1]}"

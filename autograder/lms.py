"""An assignment's marks as CSV in the form that Canvas, Moodle or Gradescope has.

Canvas and Moodle get only marks that are final; a student without one is left out,
so that an import changes nothing there. Gradescope's form has a row for everybody.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

from nbgrader.api import Student

from autograder import grades, nbgrader_commands
from autograder.grades import Row

Table = Iterator[Sequence[object]]
NAMELESS = Student(id="", first_name=None, last_name=None, email=None)


def table(form: str, rows: Sequence[Row], column: str) -> Table:
    """Yield the rows of the CSV, its header first."""
    with nbgrader_commands.gradebook() as book:
        people = {student.id: student for student in book.students}
        yield from FORMS[form](rows, people, column)


def final(rows: Iterable[Row]) -> list[Row]:
    """Return the rows whose marks nothing waits for."""
    return [row for row in rows if row.status == grades.GRADED]


def _canvas(rows: Sequence[Row], people: dict[str, Student], column: str) -> Table:
    yield "Student", "ID", "SIS User ID", "SIS Login ID", "Section", column
    most = next((row.max_score for row in rows if row.max_score), "")
    yield "    Points Possible", "", "", "", "", most
    for row in final(rows):
        person = people.get(row.student_id, NAMELESS)
        names = ", ".join(filter(None, (person.last_name, person.first_name)))
        ids = (person.lms_user_id or "", "", row.student_id)
        yield names or row.student_id, *ids, "", row.score


def _moodle(rows: Sequence[Row], people: dict[str, Student], column: str) -> Table:
    yield "ID number", "Email address", column
    for row in final(rows):
        person = people.get(row.student_id, NAMELESS)
        yield row.student_id, person.email or "", row.score


def _gradescope(rows: Sequence[Row], people: dict[str, Student], _: str) -> Table:
    yield (
        *("First Name", "Last Name", "SID", "Email", "Sections", "Total Score"),
        *("Max Points", "Status", "Submission ID", "Submission Time"),
        "Lateness (H:M:S)",
    )
    for row in rows:
        person = people.get(row.student_id, NAMELESS)
        status = STATUS.get(row.status, "Ungraded")
        score = row.score if status == "Graded" else ""
        time = f"{row.timestamp} +0000" if row.timestamp else ""
        names = (person.first_name or "", person.last_name or "")
        yield (
            *(*names, row.student_id, person.email or "", "", score),
            *(row.max_score, status, "", time, _lateness(row)),
        )


def _lateness(row: Row) -> str:
    """Write hours, which have no end, minutes and seconds."""
    with nbgrader_commands.gradebook() as book:
        submission = nbgrader_commands.submission(book, row.assignment, row.student_id)
        if submission is None:
            return ""
        seconds = int(submission.total_seconds_late)
    hours, left = divmod(timedelta(seconds=seconds), timedelta(hours=1))
    return f"{hours:02d}:{str(left)[2:]}"


FORMS: dict[str, Callable[..., Table]] = {
    "canvas": _canvas,
    "moodle": _moodle,
    "gradescope": _gradescope,
}
STATUS = {grades.GRADED: "Graded", grades.MISSING: "Missing"}

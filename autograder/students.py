"""The students of an assignment: their extensions, and the removal of examples."""

import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from nbgrader.api import Assignment, Gradebook, MissingEntry

from autograder import course, nbgrader_commands, receipts, regrading

EXAMPLE = re.compile(r"example-[0-9]{3,}")


def extend(assignment: str, student: str, hours: float) -> str:
    """Move a student's due date; 0 hours take an extension back. Says what holds.

    Raises CourseError where the gradebook has no such student, or no due date.
    """
    nbgrader_commands.require(assignment)
    with nbgrader_commands.gradebook() as book:
        _require_student(book, student)
        due = _extended(book.find_assignment(assignment), hours)
        book.update_or_create_submission(assignment, student)
        book.grant_extension(assignment, student, hours=hours)
    nbgrader_commands.renew_penalties(assignment)
    return f"{student} has until {due} UTC for {assignment}"


def _extended(assignment: Assignment, hours: float) -> datetime:
    """Return the later due date; nbgrader would keep one that no date can hold."""
    name, due = assignment.name, assignment.duedate
    if hours < 0:
        raise course.CourseError("an extension is 0 or more days and hours")
    if due is None:
        raise course.CourseError(
            f"{name} has no due date to extend: `nbgrader db assignment add {name} "
            f'--duedate "{nbgrader_commands.EXAMPLE}"` sets one'
        )
    try:
        return due + timedelta(hours=hours)
    except OverflowError:
        raise course.CourseError("no due date can be that far away") from None


def _require_student(book: Gradebook, student: str) -> None:
    try:
        book.find_student(student)
    except MissingEntry:
        raise course.CourseError(
            f"the gradebook has no student {student}: `nbgrader db student add "
            f"{student}` adds one"
        ) from None


def remove_examples(assignment: str) -> str:
    """Remove an assignment's examples and all that was made of them; says how many."""
    places = (course.SUBMITTED, course.AUTOGRADED, course.FEEDBACK)
    names = {path.parent.name for at in places for path in at.glob(f"*/{assignment}")}
    with nbgrader_commands.gradebook() as book:
        submissions = book.assignment_submissions(assignment)
        names |= {submission.student_id for submission in submissions}
        students = set(filter(EXAMPLE.fullmatch, names))
        for student in students:
            _remove_from(book, assignment, student)
    for student in students:
        for place in places:
            if (folder := place / student / assignment).is_dir():
                shutil.rmtree(folder)
            _remove_empty(place / student)
        for place_of in (receipts.place, regrading.place):
            place_of(assignment, student).unlink(missing_ok=True)
            _remove_empty(place_of(assignment, student).parent)
    return f"{len(students)} examples of {assignment} removed"


def _remove_from(book: Gradebook, assignment: str, student: str) -> None:
    """Remove a submission, and the student who has no other."""
    try:
        book.remove_submission(assignment, student)
    except MissingEntry:
        return  # it was made, and never graded
    if not book.student_submissions(student):
        book.remove_student(student)


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()

"""Grade a class: a receipt for every submission, then the gradebook, then a summary.

It can be interrupted and run again: what has a receipt is not checked again, and what
the gradebook holds already is not recorded again. nbgrader records, so each submission
is read twice: here for its receipt, and by `execute` for nbgrader.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from autograder import course, nbgrader_commands, receipts, workers
from autograder.jobs import Job
from autograder.notebook import strange
from autograder.progress import progress


def grade(
    assignment: str,
    students: Collection[str] = (),
    count: int = 2,
    tier: str | None = None,
    force: bool = False,
) -> dict[str, str]:
    """Grade the submissions of these students, or of all, on `count` workers.

    force: check again what has a receipt, which gives the same marks. Returns why
    nbgrader could not record a student's, by student. Raises CourseError.
    """
    nbgrader_commands.require(assignment)
    submitted = course.submitted(assignment)
    if unknown := set(students) - set(submitted):
        raise course.CourseError(
            f"no submission of {', '.join(sorted(unknown))} for {assignment} in "
            f"{course.SUBMITTED}"
        )
    chosen = {name: submitted[name] for name in students or submitted}
    _check_all(list(_jobs(assignment, chosen)), count, tier, force)
    failed = _record_all(assignment, chosen)
    nbgrader_commands.renew_penalties(assignment)
    return failed


def _jobs(assignment: str, submitted: dict[str, Path]) -> Iterator[Job]:
    release = receipts.read_release(assignment)
    for student, path in submitted.items():
        notebook = receipts.cleaned(path, release)
        yield receipts.job(notebook, release, assignment, student)


def _check_all(jobs: list[Job], count: int, tier: str | None, force: bool) -> None:
    """See to it that each job has a receipt."""
    missing = [job for job in jobs if force or not receipts.find(job)]
    made = workers.graded(missing, count, tier)
    for receipt in progress("checking", made, len(missing)):
        receipts.save(receipt)


def _record_all(assignment: str, submitted: dict[str, Path]) -> dict[str, str]:
    """Write every verdict that is new into the gradebook."""
    failed: dict[str, str] = {}
    points = receipts.points(receipts.read_release(assignment))
    new = []
    for student, path in submitted.items():
        receipt = receipts.load(assignment, student)
        is_recorded = receipt and nbgrader_commands.is_recorded(receipt, points)
        if not is_recorded and _can_be_recorded(path):
            new.append(student)
    for student in progress("recording", new, len(new)):
        if why := nbgrader_commands.record(assignment, student):
            failed[student] = why
    return failed


def _can_be_recorded(path: Path) -> bool:
    """Return whether nbgrader finds the notebook, and copies what lies beside it
    unharmed.
    """
    return os.path.lexists(path) and not strange(path.parent)

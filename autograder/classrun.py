"""Grade a class: a receipt for every submission, then the gradebook, then a summary.

It can be interrupted and run again: what has a receipt is not checked again, and what
the gradebook holds already is not recorded again.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from autograder import books, course, receipts, workers
from autograder.notebook import strange
from autograder.progress import Progress
from autograder.receipts import Job


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
    books.require(assignment)
    submitted = course.submitted(assignment)
    if unknown := set(students) - set(submitted):
        raise course.CourseError(
            f"no submission of {', '.join(sorted(unknown))} for {assignment} in "
            f"{course.SUBMITTED}"
        )
    chosen = {name: submitted[name] for name in students or submitted}
    _check_all(list(_jobs(assignment, chosen)), count, tier, force)
    failed = _record_all(assignment, chosen)
    books.renew_penalties(assignment)
    return failed


def _jobs(assignment: str, submitted: dict[str, Path]) -> Iterator[Job]:
    release = receipts.read_release(assignment)
    for student, path in submitted.items():
        notebook = receipts.cleaned(path, release)
        yield receipts.job(notebook, release, assignment, student)


def _check_all(jobs: list[Job], count: int, tier: str | None, force: bool) -> None:
    """See to it that each job has a receipt."""
    for job in jobs:
        if job["unreadable"] and (force or not receipts.find(job)):
            receipts.save(workers.unread(job))
    left = [job for job in jobs if force or not receipts.find(job)]
    left = [job for job in left if not job["unreadable"]]
    with Progress("checking", len(left)) as bar:
        for receipt in workers.graded(left, count, tier):
            receipts.save(receipt)
            bar.step()


def _record_all(assignment: str, submitted: dict[str, Path]) -> dict[str, str]:
    """Write every verdict that is new into the gradebook."""
    failed: dict[str, str] = {}
    last_receipts = {name: receipts.load(assignment, name) for name in submitted}
    points = receipts.points(receipts.read_release(assignment))
    new = [
        n for n, r in last_receipts.items() if not (r and books.is_recorded(r, points))
    ]
    new = [name for name in new if _can_be_recorded(submitted[name])]
    with Progress("recording", len(new)) as bar:
        for student in new:
            if why := books.record(assignment, student):
                failed[student] = why
            bar.step()
    return failed


def _can_be_recorded(path: Path) -> bool:
    """Return whether nbgrader finds the notebook, and copies what lies beside it
    unharmed.
    """
    return os.path.lexists(path) and not strange(path.parent)

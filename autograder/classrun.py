"""Grade a class: a receipt for every submission, then the gradebook, then a summary.

It can be interrupted and run again: what has a receipt is not checked again, and what
the gradebook holds already is not recorded again.
"""

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from autograder import books, course, receipts, workers
from autograder.notebook import MAX_BYTES
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
    return _record_all(assignment, chosen)


def _jobs(assignment: str, submitted: dict[str, Path]) -> Iterator[Job]:
    release = receipts.read_release(assignment)
    for student, path in submitted.items():
        notebook = receipts.cleaned(path, release)
        yield receipts.job(notebook, release, assignment, student)


def _check_all(jobs: list[Job], count: int, tier: str | None, force: bool) -> None:
    """See to it that each job has a receipt."""
    for job in jobs:
        if job["unreadable"]:
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
    found = {name: receipts.load(assignment, name) for name in submitted}
    new = [name for name, r in found.items() if not (r and books.is_recorded(r))]
    new = [name for name in new if submitted[name].exists()]
    with Progress("recording", len(new)) as bar:
        for student in new:
            folder = submitted[student].parent
            if why := strange(folder) or books.record(assignment, student):
                failed[student] = why
            bar.step()
    return failed


def strange(folder: Path) -> str | None:
    """Why nbgrader must not copy this submission's files; None where it may."""
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            found = Path(place, name).lstat()
            is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
            if not is_plain and not name.endswith(".ipynb"):  # read with care
                return f"{name} in the submission is a link or a special file"
            if found.st_size > MAX_BYTES and not name.endswith(".ipynb"):
                return f"{name} in the submission has {found.st_size >> 20} MiB"
    return None

"""Submissions without a JupyterHub: notebooks whose file names say whose they are.

A student makes the file with `python -m autograder submit`, hands it in by an LMS or a
mail, and `collecting` finds it again.
"""

import json
import re
import shutil
import time
from pathlib import Path

from autograder import course
from autograder.notebook import Unreadable, read

STUDENT = r"[A-Za-z0-9][A-Za-z0-9.@-]*(?:_[A-Za-z0-9.@-]+)*"
"""An id is a folder's name too: it is not `..`, and no option of a command."""
MOMENT = "%Y%m%dT%H%M%S"
"""Of a file's name, in UTC. A student could write another one; an LMS knows better."""


def pattern() -> re.Pattern[str]:
    """Return what a submission's file is called; before it an LMS may put anything."""
    names = "|".join(map(re.escape, course.assignments())) or "(?!)"
    return re.compile(
        rf"(?s)(?P<sender>.*?)(?P<file_id>{names})__(?P<student_id>{STUDENT})"
        rf"__(?P<timestamp>[0-9]{{8}}T[0-9]{{6}})[^/\\\x00-\x1f]{{0,8}}\.ipynb"
    )


def submit(notebook: Path, student: str, folder: Path) -> str:
    """Make a student's submission of a notebook; says what the file is called.

    Raises CourseError for an id that no file's name can hold, and for a notebook that
    could not be graded.
    """
    if not re.fullmatch(STUDENT, student):
        raise course.CourseError(
            f"the id {student!r} must be letters, digits, '.', '@', '-' and single "
            "'_', and begin with a letter or a digit"
        )
    try:
        cells = read(notebook)
    except Unreadable as error:
        raise course.CourseError(f"{notebook}: {error}") from None
    assignment = _assignment({cell.grade_id for cell in cells if cell.grade_id})
    moment = time.strftime(MOMENT, time.gmtime())
    made = folder / f"{assignment}__{student}__{moment}.ipynb"
    shutil.copyfile(notebook, made)
    return f"hand in {made}"


def _assignment(grade_ids: set[str]) -> str:
    """Return the assignment that a notebook is of, by the ids of its cells."""
    shared = {name: len(_ids(name) & grade_ids) for name in course.assignments()}
    best = max(shared, key=lambda name: shared[name], default="")
    if not shared.get(best):
        raise course.CourseError("the notebook has no cell of any assignment here")
    return best


def _ids(assignment: str) -> set[str]:
    cells = json.loads(course.released(assignment).read_text())["cells"]
    marks = [cell["metadata"].get("nbgrader", {}) for cell in cells]
    return {mark["grade_id"] for mark in marks if "grade_id" in mark}

"""How work gets in without a JupyterHub: a file with a telling name, and its way back.

A student makes the file with `python -m autograder submit`; the instructor puts what an
LMS delivers into `downloaded/<assignment>/archive/` and runs `nbgrader zip_collect`,
which uses the two plugins below.
"""

import json
import re
import shutil
import time
import zipfile
from collections import defaultdict
from pathlib import Path

from nbgrader.plugins import ExtractorPlugin, FileNameCollectorPlugin

from autograder import course
from autograder.notebook import MAX_BYTES, Unreadable, read

STUDENT = r"[A-Za-z0-9.@-]+(?:_[A-Za-z0-9.@-]+)*"
MOMENT = "%Y%m%dT%H%M%S"
"""Of a file's name, in UTC. A student could write another one; an LMS knows better."""


def pattern() -> re.Pattern[str]:
    """What a submission's file is called; before it an LMS may put anything."""
    names = "|".join(map(re.escape, course.assignments())) or "(?!)"
    return re.compile(
        rf"(?P<sender>.*?)(?P<file_id>{names})__(?P<student_id>{STUDENT})"
        rf"__(?P<timestamp>\d{{8}}T\d{{6}})[^/]{{0,8}}\.ipynb",
        re.DOTALL,
    )


def submit(notebook: Path, student: str, folder: Path) -> str:
    """Make a student's submission of a notebook; says what the file is called.

    Raises CourseError for an id that no file's name can hold, and for a notebook that
    could not be graded.
    """
    if not re.fullmatch(STUDENT, student):
        raise course.CourseError(
            f"the id {student!r} must be of letters, digits, '.', '@', '-' and single '_'"
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
    """The assignment that a notebook is of, by the ids of its cells."""
    shared = {name: len(_ids(name) & grade_ids) for name in course.assignments()}
    best = max(shared, key=lambda name: shared[name], default="")
    if not shared.get(best):
        raise course.CourseError("the notebook has no cell of any assignment here")
    return best


def _ids(assignment: str) -> set[str]:
    cells = json.loads(course.released(assignment).read_text())["cells"]
    marks = [cell["metadata"].get("nbgrader", {}) for cell in cells]
    return {mark["grade_id"] for mark in marks if "grade_id" in mark}


class Extract(ExtractorPlugin):
    """Take the notebooks out of what was delivered, and nothing else.

    No archive within an archive, no file that is too large to be graded. Where two
    senders claim to be one student, both files go to `disputed/`.
    """

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Fill `extracted_path` with the notebooks of `archive_path`."""
        into = Path(extracted_path)
        for path in sorted(Path(archive_path).rglob("*")):
            if path.suffix == ".zip":
                self._unzip(path, into / path.stem)
            elif path.suffix == ".ipynb" and path.is_file():
                place = into / path.relative_to(archive_path)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
        self._part(into)

    def _unzip(self, path: Path, into: Path) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                for number, item in enumerate(archive.infolist()):
                    name = Path(item.filename)
                    if name.suffix != ".ipynb":
                        self.log.warning("passed over in %s: %s", path.name, name)
                        continue
                    place = into / f"{number}" / name.name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(item) as file:
                        place.write_bytes(file.read(MAX_BYTES + 1))
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
            self.log.error("%s cannot be unpacked: %s", path, error)

"""A student's notebook file, read as bytes that may be hostile: the text of its cells.

Only small images come with it (`images`): no outputs, no points, no kernel.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.images import Images, attached

MAX_BYTES = 16 * 10**6  # parsed, hostile JSON takes 20 times as much memory
MAX_CELLS = 1000
MAX_TEXT = 200_000

# What would hide something from the eye that grades, or break a line where Python does
# not: control characters, lone surrogates and the controls of writing direction.
CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
)


class Unreadable(Exception):
    """The error for a file that cannot be graded, in words for the student."""


@dataclass(frozen=True)
class Cell:
    """A submitted cell as far as it is graded; `kind` is code, markdown or raw."""

    kind: str
    source: str
    grade_id: str | None = None
    images: Images = field(default_factory=dict)


def read(path: Path) -> list[Cell]:
    """Return the cells of a file.

    Raises Unreadable, and nothing else, for a bad one.
    """
    try:
        document = json.loads(_bytes(path))
    except RecursionError:
        raise Unreadable("the file is nested too deeply for a notebook") from None
    except ValueError as error:
        raise Unreadable(f"the file is not a notebook ({_no_json(error)})") from None
    return list(_cells(document))


def _no_json(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return (
            f"its byte {error.start} is no text in UTF-8, as Jupyter writes it: was it "
            "saved with another editor?"
        )
    if isinstance(error, json.JSONDecodeError):
        return f"no JSON: {error}"
    return "it holds a number of some thousand digits"


def _bytes(path: Path) -> bytes:
    # Neither a link to another's file nor a pipe that never ends is followed.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(_why_closed(path, error)) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unreadable(f"{path.name} is not a plain file")
    with os.fdopen(fd, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Unreadable(
            f"the file is larger than {MAX_BYTES // 10**6} MB: clear its outputs "
            "(Kernel, Restart Kernel and Clear Outputs) and hand it in again"
        )
    return data


def _why_closed(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        there = sorted(p.name for p in path.parent.glob("*.ipynb"))
        names = ", ".join(map(repr, there[:3])) or "no notebook"
        return f"there is no {path.name} in it (found {names}): keep the file's name"
    return f"{path.name} cannot be opened: {error.strerror}"


def _cells(document: Any) -> Iterator[Cell]:
    if not isinstance(document, dict) or document.get("nbformat") != 4:
        raise Unreadable("the file is not a notebook of format 4: save it with Jupyter")
    cells = document.get("cells")
    if not isinstance(cells, list) or len(cells) > MAX_CELLS:
        raise Unreadable(f"the notebook needs a list of cells, at most {MAX_CELLS}")
    room = MAX_TEXT
    for number, cell in enumerate(cells, 1):
        parsed = _cell(cell)
        if parsed is None:
            raise Unreadable(f"cell {number} of the file is no cell of a notebook")
        room -= len(parsed.source)
        if room < 0:
            raise Unreadable(f"the cells hold more than {MAX_TEXT} characters of text")
        yield parsed


def _cell(cell: Any) -> Cell | None:
    if not isinstance(cell, dict):
        return None
    kind, source = cell.get("cell_type"), cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if kind not in ("code", "markdown", "raw") or not isinstance(source, str):
        return None
    return Cell(kind, _clean(source), _grade_id(cell), attached(cell))


def _grade_id(cell: dict[str, Any]) -> str | None:
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = marks.get("grade_id") if isinstance(marks, dict) else None
    return grade_id if isinstance(grade_id, str) else None


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    return CONTROLS.sub("\ufffd", text)


def strange(folder: Path) -> str | None:
    """Return why a submission's other files must not be copied.

    None where they may be.
    """
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            info = Path(place, name).lstat()
            is_plain = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
            if not is_plain and not name.endswith(".ipynb"):  # read with care
                return f"{name} in the submission is a link or a special file"
            if info.st_size > MAX_BYTES and not name.endswith(".ipynb"):
                return f"{name} in the submission has {info.st_size >> 20} MiB"
    return None

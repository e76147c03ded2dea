"""Lines of the reader's code, with the names of notebook cells and the source."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable

_CELL = re.compile(r"ipykernel_\d+[/\\]\d+\.py$|^<")

cell_name: Callable[[str], str | None] = lambda file: None  # noqa: E731 (replaced in IPython)
"""The name of the notebook cell that a file name stands for, if it is known."""


def describe(where: str) -> str:
    """Write `"/a/b.py:3"` as `` line 3 of b.py: `dist.recv(x, 1)` ``; keep `""`."""
    file, _, number = where.rpartition(":")
    if not file or not number.isdigit():  # a frame between two lines has no number
        return ""
    source = linecache.getline(file, int(number)).strip()
    source = source if len(source) <= 80 else source[:77] + "..."
    file_name = cell_name(file) or (
        None if _CELL.search(file) else os.path.basename(file)
    )
    line = f"line {number} of {file_name}" if file_name else f"line {number}"
    return f"{line}: `{source}`" if source else line


def in_line(where: str) -> str:
    """Write a line as the end of a sentence: `` in line 3 of b.py: ... ``, or `""`."""
    line = describe(where)
    return f" in {line}" if line else ""


def in_cells(text: str) -> str:
    """Replace each `file:line` of a notebook cell by the name of the cell."""

    def replace(match: re.Match) -> str:
        name = cell_name(match[1])
        return f"line {match[2]} of {name}" if name else match[0]

    place = r"([^\s()]*ipykernel_\d+[/\\]\d+\.py|<ranks [^>]*>):(\d+)"
    return re.sub(place, replace, text)


def in_words(text: str) -> str:
    """Replace the files of notebook cells in a traceback by the names of the cells."""

    def replace(match: re.Match) -> str:
        name = cell_name(match[1])
        return f"{name}, line" if name else match[0]

    return re.sub(r'File "([^"]+)", line', replace, text)

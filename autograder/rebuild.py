"""The released notebook with a student's texts in it.

Which cells are graded, their types, points and test code come from the release. So a
deleted, doubled, retyped or re-pointed cell changes no mark.
"""

import re
from copy import deepcopy
from itertools import pairwise
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder import images
from autograder.notebook import Cell

OURS = "collectives_lab"
"""The notebook's metadata in which what was found while reading travels on."""

ELSEWHERE = (
    "For the person who grades: nothing was written into this cell, but other cells of "
    "text in this notebook are not as released ({}). The answer may be there."
)
LONGEST_TEXT = 20_000

TAG = re.compile(r"<(?=[a-zA-Z/!?])")
TEX = re.compile(r"\\(?=(?:href|url|require|unicode|style|class|cssId|csname)\b)")


def marks(cell: NotebookNode) -> dict[str, Any]:
    """Return nbgrader's metadata of a released cell; an empty dict if it has none."""
    return cell.metadata.get("nbgrader", {})


def exercise(cell: NotebookNode) -> str | None:
    """Return the exercise that a test cell is about, by its id, `check_<exercise>`."""
    name = marks(cell).get("grade_id", "")
    is_test = cell.cell_type == "code" and marks(cell).get("grade")
    return name.removeprefix("check_") if is_test and name[:6] == "check_" else None


def test_cells(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Return the test cell of each exercise of a notebook."""
    return {name: cell for cell in notebook.cells if (name := exercise(cell))}


def is_answer(cell: NotebookNode) -> bool:
    """Return whether a cell is for an answer in words, which a person grades."""
    return cell.cell_type == "markdown" and bool(marks(cell).get("grade"))


def rebuild(cells: list[Cell], release: NotebookNode) -> NotebookNode:
    """Put a student's cells, in their order, on the released ones.

    The last cell with the id of a released one is that cell, for an answer the last one
    with words in it; graded cells that are missing are put back. What was changed is
    noted in the notebook's metadata.
    """
    known = {marks(c)["grade_id"]: c for c in release.cells if "grade_id" in marks(c)}
    last = {cell.grade_id: index for index, cell in enumerate(cells)}
    last |= {c.grade_id: i for i, c in enumerate(cells) if _is_answered(c, known)}
    notes: list[str] = []
    by_source = {cell.source: cell for cell in release.cells}
    rebuilt: list[NotebookNode] = []
    for index, cell in enumerate(cells):
        released = known.get(cell.grade_id or "")
        if released and last[cell.grade_id] == index:
            rebuilt.append(_restored(cell, released, notes))
        elif not (released and marks(released)["locked"]):  # a second test cell goes
            rebuilt.append(_plain(cell, by_source))
    _put_back(rebuilt, known, notes)
    if texts := _own_texts(cells, release, known):
        _leave_to_a_person(rebuilt, known, len(texts), notes)
    return _notebook(rebuilt, release, notes)


def shown(text: str) -> str:
    """Return Markdown that shows the same without HTML, and without TeX that acts.

    A student's text is looked at in the browser of who grades it. What is longer than
    an answer is cut: some texts take a Markdown reader minutes.
    """
    if len(text) > LONGEST_TEXT:
        text = (
            f"{text[:LONGEST_TEXT]}\n\n(cut here: the text has {len(text)} characters)"
        )
    return TEX.sub("", TAG.sub("&lt;", text))


def _restored(cell: Cell, released: NotebookNode, notes: list[str]) -> NotebookNode:
    made, name = deepcopy(released), marks(released)["grade_id"]
    if cell.kind != made.cell_type:
        notes.append(f"the cell {name} was turned into {cell.kind} and turned back")
    if not marks(made)["locked"]:
        if made.cell_type == "code":
            made.source = cell.source
        else:
            _write(made, cell)
    elif cell.source.strip() != made.source.strip():
        notes.append(f"the cell {name} was changed; the released one counts")
    return made


def _plain(cell: Cell, by_source: dict[str, NotebookNode]) -> NotebookNode:
    if cell.kind == "code":
        return new_code_cell(cell.source)
    made = new_markdown_cell(cell.source)
    if cell.source not in by_source:
        _write(made, cell)
    elif pictures := by_source[cell.source].get("attachments"):
        made.attachments = deepcopy(pictures)
    return made


def _write(made: NotebookNode, cell: Cell) -> None:
    """Put a student's text into a cell of text, with the images that it shows."""
    made.source, pictures = images.placed(shown(cell.source), cell.images)
    made.pop("attachments", None)
    if pictures:
        made.attachments = pictures


def _put_back(
    rebuilt: list[NotebookNode], known: dict[str, NotebookNode], notes: list[str]
) -> None:
    """Add each missing graded cell behind the one that it follows in the release."""
    for before, name in pairwise(["", *known]):
        names = [marks(cell).get("grade_id") for cell in rebuilt]
        if name not in names and marks(known[name])["grade"]:
            at = names.index(before) + 1 if before in names else len(names)
            rebuilt.insert(at, deepcopy(known[name]))
            notes.append(f"the cell {name} was missing and was put back")


def _is_answered(cell: Cell, known: dict[str, NotebookNode]) -> bool:
    """Return whether something was written into a cell for an answer in words."""
    released = known.get(cell.grade_id or "")
    return (
        released is not None
        and released.cell_type == "markdown"
        and (cell.source.strip() not in ("", released.source.strip()))
    )


def _own_texts(
    cells: list[Cell], release: NotebookNode, known: dict[str, NotebookNode]
) -> list[Cell]:
    """Return the cells of text that a student added, or that have lost their names."""
    released = {"", *(cell.source.strip() for cell in release.cells)}
    plain = [c for c in cells if c.kind != "code" and (c.grade_id or "") not in known]
    return [cell for cell in plain if cell.source.strip() not in released]


def _leave_to_a_person(
    rebuilt: list[NotebookNode],
    known: dict[str, NotebookNode],
    texts: int,
    notes: list[str],
) -> None:
    """Leave an untouched answer to a person where the notebook has own texts elsewhere.

    nbgrader gives 0 at once to an answer that is word for word as it was released.
    """
    for cell in rebuilt:
        name = marks(cell).get("grade_id", "")
        if is_answer(cell) and cell.source == known[name].source:
            cell.source += f"\n\n*({ELSEWHERE.format(texts)})*"
            notes.append(
                f"nothing was written into the cell {name}, but there is "
                "text of yours elsewhere: a person will see whether it is the answer. "
                "Write it into that cell next time"
            )


def _notebook(
    cells: list[NotebookNode], release: NotebookNode, notes: list[str]
) -> NotebookNode:
    code = [cell for cell in cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):  # shown as In [number], and named so
        cell.outputs, cell.execution_count = [], number
    for number, cell in enumerate(cells, 1):
        cell.id = f"cell-{number}"
    metadata = deepcopy(release.metadata) | {OURS: {"notes": notes}}
    return new_notebook(cells=cells, metadata=metadata, nbformat_minor=5)

"""What of a submission is read: files that may be hostile, and their cells."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.notebook import MAX_BYTES, MAX_CELLS, MAX_TEXT, Cell, Unreadable, read
from autograder.rebuild import OURS, exercise, marks, rebuild

STUB = "def f(x):\n    raise NotImplementedError"
TEST = 'report = lab.check("f", f)\ndisplay(report)\nreport.points'
IMPORTS = (
    "try:\n    import lab\nexcept ImportError:\n    %pip install -q lab\nimport math"
)


def marked(cell: NotebookNode, name: str, **more: Any) -> NotebookNode:
    """A cell with nbgrader's metadata."""
    plain = {"grade": False, "solution": False, "locked": False, "schema_version": 3}
    cell.metadata["nbgrader"] = plain | {"grade_id": name, "task": False} | more
    return cell


@pytest.fixture
def release() -> NotebookNode:
    """A released notebook: imports, a solution cell, a test cell, a question."""
    test = marked(new_code_cell(TEST), "check_f", grade=True, locked=True, points=5)
    why = marked(
        new_markdown_cell("*Answer*"), "why", grade=True, solution=True, points=2
    )
    cells = [
        new_markdown_cell("# Title\n<details><summary>Hint</summary></details>"),
        new_code_cell(IMPORTS),
        marked(new_code_cell(STUB), "f", solution=True),
        *(test, why),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def taken(notebook: NotebookNode) -> list[Cell]:
    """The cells of a notebook as they are read from its file."""
    return [
        Cell(cell.cell_type, cell.source, marks(cell).get("grade_id"))
        for cell in notebook.cells
    ]


def sources(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells]


# Files


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"", "not a notebook"),
        (b"{", "not a notebook"),
        (b"\xff\xfe\x00", "not a notebook"),
        (b"PK\x03\x04", "not a notebook"),
        (b"[" * 10**6, "nested too deeply"),
        (b'{"a":' * 10**5, "nested too deeply"),
        (b"1" * 10**5, "not a notebook"),
        (b"[]", "of format 4"),
        (b'{"nbformat": 3, "worksheets": []}', "of format 4"),
        (b'{"nbformat": 4}', "list of cells"),
        (b'{"nbformat": 4, "cells": {}}', "list of cells"),
        (b'{"nbformat": 4, "cells": [3]}', "cell 1 of the file"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "cell 1 of the file"),
        (b" " * (MAX_BYTES + 1), "larger than 16 MB"),
        (
            b'{"nbformat": 4, "cells": [%s]}' % b",".join([b"{}"] * (MAX_CELLS + 1)),
            "at most 1000",
        ),
        (
            b'{"nbformat":4,"cells":[{"cell_type":"code","source":"%s"}]}'
            % (b"x" * (MAX_TEXT + 1)),
            "characters of text",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_file_is_named_and_nothing_else_happens(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    """Whatever bytes are handed in, reading ends with words for the student."""
    path = tmp_path / "f.ipynb"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=complaint):
        read(path)


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    """A link may lead to another's work, and a pipe never ends."""
    path = tmp_path / "f.ipynb"
    path.symlink_to("/etc/passwd")
    with pytest.raises(Unreadable, match="cannot be opened"):
        read(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Unreadable, match="not a plain file"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(Unreadable, match="not a plain file"):
        read(path)


def test_a_missing_notebook_is_reported_with_what_is_there(tmp_path: Path) -> None:
    """A student who renamed the file learns what it must be called."""
    (tmp_path / "homework(1).ipynb").touch()
    with pytest.raises(Unreadable, match=r"no f\.ipynb .*'homework\(1\)\.ipynb'"):
        read(tmp_path / "f.ipynb")


def test_a_large_file_costs_no_memory(tmp_path: Path) -> None:
    """Of 80 MB no more is read than what may be graded."""
    path = tmp_path / "f.ipynb"
    with path.open("wb") as file:
        file.truncate(80 * 10**6)
    tracemalloc.start()
    with pytest.raises(Unreadable):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * MAX_BYTES


def test_only_the_text_of_cells_is_taken(tmp_path: Path, release: NotebookNode) -> None:
    """Outputs, points and odd metadata of the file do not get past reading."""
    cell = {
        "cell_type": "code",
        "source": ["x = 1\r\n", "y\x00\ud800\u202e"],
        "outputs": [{"output_type": "execute_result", "data": {"text/plain": "5"}}],
        "metadata": {"nbgrader": {"grade_id": 7, "points": 1e9}},
    }
    path = tmp_path / "f.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    assert read(path) == [Cell("code", "x = 1\ny\ufffd\ufffd\ufffd", None)]


# Cells


def test_an_untouched_notebook_comes_back_as_it_was(release: NotebookNode) -> None:
    """Rebuilding changes nothing where nothing was changed, and notes nothing."""
    made = rebuild(taken(release), release)
    assert sources(made) == sources(release)
    assert [marks(cell) for cell in made.cells] == [marks(c) for c in release.cells]
    assert made.metadata[OURS] == {"notes": []}
    nbformat.validate(made)


def test_test_cells_are_always_the_released_ones(release: NotebookNode) -> None:
    """A test cell that was changed, retyped or doubled is the released one, once."""
    cells = taken(release)
    cells[3] = Cell("markdown", "report.points = 5", "check_f")
    made = rebuild([*cells, cells[3]], release)
    (test,) = (cell for cell in made.cells if exercise(cell))
    assert (test.source, test.cell_type, marks(test)["points"]) == (TEST, "code", 5)
    assert "turned into markdown" in made.metadata[OURS]["notes"][0]


def test_missing_graded_cells_are_put_back_in_their_place(
    release: NotebookNode,
) -> None:
    """Deleting the test cell or the question gains and loses nothing."""
    made = rebuild(taken(release)[:3], release)
    assert sources(made) == sources(release)
    assert sources(rebuild([], release)) == [TEST, "*Answer*"]
    assert len(made.metadata[OURS]["notes"]) == 2


def test_the_last_cell_of_a_name_is_the_answer(release: NotebookNode) -> None:
    """A solution cell that was copied stays as an own cell; the last one counts."""
    cells = taken(release)
    made = rebuild([*cells, Cell("code", "def f(x): return x", "f")], release)
    named = [cell.source for cell in made.cells if marks(cell).get("grade_id") == "f"]
    assert named == ["def f(x): return x"]
    assert STUB in sources(made)
    nbformat.validate(made)


def test_cells_cannot_be_pointed_elsewhere(release: NotebookNode) -> None:
    """An id that is not the release's is none; points are never the file's."""
    made = rebuild([*taken(release), Cell("code", "1", "check_mine")], release)
    assert not marks(made.cells[-1])
    assert [marks(c)["points"] for c in made.cells if marks(c).get("grade")] == [5, 2]


def test_a_solution_turned_into_text_is_code_again(release: NotebookNode) -> None:
    """A slip of the keyboard in the notebook loses no marks."""
    cells = taken(release)
    cells[2] = Cell("raw", "def f(x): return x", "f")
    made = rebuild(cells, release)
    assert made.cells[2].cell_type == "code"
    assert made.cells[2].source == "def f(x): return x"


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "a <b onclick='x'>",
        "<!-- -->",
        "$\\href{javascript:alert(1)}{x}$",
        "$\\require{html}\\style{position:fixed}{x}$",
    ],
)
def test_a_students_text_acts_in_nobodys_browser(
    release: NotebookNode, text: str
) -> None:
    """HTML in markdown is shown, not run: in an answer, an own cell, a raw cell."""
    cells = taken(release)
    cells[4] = Cell("markdown", text, "why")
    made = rebuild([*cells, Cell("markdown", text), Cell("raw", text)], release)
    for cell in (made.cells[4], *made.cells[-2:]):
        assert cell.cell_type == "markdown"
        assert not set("<\\") & set(cell.source)
    assert "<details>" in made.cells[0].source, "the release's own text stays"


def test_a_text_without_end_is_cut(release: NotebookNode) -> None:
    """An answer that would take a browser minutes is shown in part, and says so."""
    made = rebuild([Cell("markdown", "\\begin{a}" * 10**4, "why")], release)
    (why,) = (cell for cell in made.cells if marks(cell)["grade_id"] == "why")
    assert len(why.source) < 21_000
    assert why.source.endswith("(cut here: the text has 90000 characters)")

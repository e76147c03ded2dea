"""What of a submission is graded: files that may be hostile, cells, definitions."""

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
from autograder.program import Extract, extract
from autograder.rebuild import OURS, exercise, marks, rebuild
from autograder.statements import Code

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


def test_a_missing_notebook_is_told_with_what_was_found(tmp_path: Path) -> None:
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


# Definitions


def program(*sources: str, entry: str = "f", after: tuple[str, ...] = ()) -> Extract:
    """The program of a notebook of these cells, and of those behind the test cell."""
    cells = [Code(n, source) for n, source in enumerate(sources, 1)]
    count = len(cells) + 2
    cells += [Code(n, source, after=True) for n, source in enumerate(after, count)]
    return extract(cells, [entry])


def run(made: Extract) -> dict[str, Any]:
    """Run the texts of a program as a rank does."""
    namespace: dict[str, Any] = {}
    for name, text in made.texts:
        exec(compile(text, name, "exec"), namespace)
    return namespace


def test_what_the_solution_uses_is_taken_and_nothing_else() -> None:
    """Imports, functions, classes and constants come along, by what uses them."""
    made = program(
        "import math\nimport matplotlib.pyplot\nSIZE = 2\nunused = open('/none')",
        "class Half:\n    def __call__(self, x):\n        return x / SIZE",
        "@staticmethod\ndef helper(x):\n    return Half()(math.floor(x))",
        "run = lab.run(f, 4)\nlab.plots.space_time(run)",
        "def f(x):\n    run = helper(x)\n    return run",
    )
    assert run(made)["f"](5.5) == 2.5
    assert [name for name, _ in made.texts] == ["cell 1", "cell 2", "cell 3", "cell 5"]
    assert "matplotlib" not in made.texts[0][1]
    assert made.notes == [
        "not run for the mark, as only imports, functions, classes and assignments "
        "count: cell 4 (line 2)"
    ]


def test_lines_are_the_students() -> None:
    """Every text has its statements at the lines where the student wrote them."""
    made = program('"doc"\nprint(1)\n\ndef f(x):\n    1 / 0\n')
    with pytest.raises(ZeroDivisionError) as caught:
        run(made)["f"](1)
    last = caught.traceback[-1]
    assert (last.lineno + 1, str(last.path)) == (5, "cell 1")


def test_statements_on_one_line_are_told_apart() -> None:
    """A semicolon joins what counts with what does not; columns count in bytes."""
    made = program("é = 'é'; print(é); ü = é * 2; assert False\ndef f(x): return ü")
    assert run(made)["f"](1) == "éé"


def test_a_loop_does_not_stop_the_solution() -> None:
    """Demonstrations without end are no part of the program."""
    made = program("while True:\n    pass", "input()", "def f(x): return x")
    assert run(made)["f"](3) == 3
    assert "cell 1 (lines 1-2), cell 2 (line 1)" in made.notes[0]


@pytest.mark.parametrize(
    "magic",
    [
        "%pip install torch",
        "!ls (",
        "%matplotlib inline",
        "files = !ls",
        "files = %sql select",
        "f?",
        "?f",
        "f.x??",
        "if True:\n    %time f(1)",
    ],
)
def test_magics_are_left_out_and_the_cell_stays(magic: str) -> None:
    """What only IPython reads does not cost the definitions beside it."""
    made = program(f"import math\n{magic}\ndef f(x): return math.floor(x)")
    assert run(made)["f"](3.5) == 3
    assert "cell 1 (line" in made.notes[-1]


def test_an_import_that_falls_back_on_a_magic_is_an_import() -> None:
    """The notebooks' own first cell works without IPython."""
    imports = "try:\n    import math as lab\nexcept ImportError:\n    %pip install lab"
    assert run(program(imports, "def f(x): return lab.floor(x)"))["f"](3.5) == 3


def test_other_cells_of_ipython_are_named() -> None:
    """%%ranks runs elsewhere; %%time is only a wrapping."""
    made = program("%%ranks 4\ndef f(x): 0", "%%time\ndef f(x): return x")
    assert run(made)["f"](3) == 3
    assert "cell 1 is left out, for its `%%ranks 4`" in made.notes


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "bad",
    [
        "def g(:\n    pass",
        "x = '",
        "x = (" * 500,
        "-" * 10**5 + "1",
        "1" + "+1" * 10**5,
        "x = " + "9" * 10**5,
        "\ufffd",
        *("1\n" * 10**5, "(" + "\n" * 10**5, " " * 10**5 + "!"),
    ],
)
def test_a_cell_that_python_cannot_read_costs_only_itself(bad: str) -> None:
    """The other cells go on, and the cell is named with its line."""
    made = program(bad, "def f(x): return x")
    assert run(made)["f"](3) == 3
    assert "cell 1" in made.notes[0]


def test_an_error_that_only_compiling_finds_is_named() -> None:
    """A function that cannot be compiled is missing, with its line."""
    made = program("A = 1\n\ndef f(x):\n    break")
    assert made.notes == [
        "cell 1 is left out in part: line 4: 'break' outside loop: `break`"
    ]
    assert made.missing == ["f"]


def test_what_was_released_is_not_named() -> None:
    """The notebook's own table is nobody's omission, in a cell with one's id too."""
    released = 'STUDENT = ""\nlab.table(\n    STUDENT,\n)'
    mine = released.replace('""', '"ann"') + "\nprint(STUDENT)"
    cells = [Code(1, mine), Code(2, "def f(x): return STUDENT")]
    (note,) = extract(cells, ["f"], [released]).notes
    assert note.endswith("count: cell 1 (line 5)")
    assert extract(cells, ["f"]).notes != [note]


def test_the_last_definition_before_the_test_counts() -> None:
    """As "Run All" would leave it; what stands behind the test helps only if needed."""
    made = program(
        "def f(x): return 1",
        "def f(x): return later()",
        after=("def f(x): return 3", "def later(): return 4"),
    )
    assert run(made)["f"](0) == 4


def test_a_table_filled_by_a_loop_is_named() -> None:
    """A student learns why a constant is not what the notebook had."""
    made = program(
        "T = {}\nT[0] = 1\nfor k in [1]:\n    T[k] = k; Y = 3\ndef f(x): return Y"
    )
    assert (
        "line 3: `for k in [1]:` is not run, though your solution uses Y"
        in made.notes[0]
    )


def test_an_item_that_is_assigned_counts() -> None:
    """T[0] = 1 is an assignment to T."""
    assert run(program("T = {}\nT[0] = 1\ndef f(x): return T[x]"))["f"](0) == 1


def test_conditions_around_definitions_count() -> None:
    """`if` and `try` around nothing but definitions are definitions."""
    made = program(
        "if 1 > 0:\n    A = 1\nelse:\n    A = 2",
        "try:\n    import numpy as n\nexcept ImportError:\n    n = None",
        "if __name__ == '__main__':\n    f(2)",
        "def f(x): return A, n",
    )
    assert run(made)["f"](0)[0] == 1
    assert "cell 3" in made.notes[0]


def test_everything_imported_is_there() -> None:
    """`from math import *` binds names that nobody can list."""
    assert (
        run(program("from math import *", "def f(x): return floor(x)"))["f"](2.5) == 2
    )


def test_a_missing_entry_is_known() -> None:
    """A notebook that does not define the exercise says so."""
    assert program("g = 1").missing == ["f"]

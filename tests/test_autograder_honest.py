"""Honest work that is written in other ways: it counts, or a note says why not."""

import ast
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from autograder_course import RING, Course, new_course
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.utils import compute_checksum, determine_grade

from autograder.definitions import defines
from autograder.notebook import Cell, Unreadable, read
from autograder.program import Extract, extract
from autograder.rebuild import OURS, marks, rebuild
from autograder.remarks import LONGEST
from autograder.statements import Code
from collectives_lab import check

ANSWER = "Because the order of the additions depends on the chunk."


def program(*sources: str, entry: str = "f", after: tuple[str, ...] = ()) -> Extract:
    """The program of a notebook of these cells, and of those behind the test cell."""
    cells = [Code(n, source) for n, source in enumerate(sources, 1)]
    count = len(cells) + 2
    cells += [Code(n, source, after=True) for n, source in enumerate(after, count)]
    return extract(cells, [entry])


def value(made: Extract, x: Any = 1) -> Any:
    """What `f(x)` of the program is, run as a rank does it."""
    namespace: dict[str, Any] = {"__name__": "submission"}
    for name, text in made.texts:
        exec(compile(text, name, "exec", dont_inherit=True), namespace)
    return namespace["f"](x)


# What counts

LATER = "class A:\n    def next(self, x: Later) -> A:\n        return 2"
COUNTS = {
    "future": "from __future__ import annotations\n" + LATER + "\nf = A().next",
    "future_behind_a_comment": "# mine\nfrom __future__ import annotations\n"
    + LATER
    + "\nf = A().next",
    "attribute": "class A: pass\na = A()\na.b = A()\na.b.c = 2\ndef f(x): return a.b.c",
    "attribute_of_a_function": "def f(x):\n    return f.calls\nf.calls = 2",
    "deep_item": "T = {'a': {}}\nT['a']['b'] = 2\ndef f(x): return T['a']['b']",
    "item_of_an_attribute": "class A: t = {}\nA.t[0] = 2\ndef f(x): return A.t[0]",
    "item_in_an_if": "T = {}\nif 1:\n    T[0] = 2\ndef f(x): return T[0]",
    "walrus": "(K := 2)\ndef f(x): return K",
    "main": "if __name__ == '__main__':\n    def f(x): return 2",
    "main_the_other_way": "if ('__main__' == __name__): f = lambda x: 2; print(f(1))",
    "with": "import math\nwith open('/dev/null') as n:\n    def f(x): return 2",
    "call_beside": "try:\n    import nothing_at_all\nexcept ImportError:\n"
    "    print('no',\n      'such')  # said\n    nothing_at_all = 2\n"
    "def f(x): return nothing_at_all",
    "call_last": "if True:\n    K = 2\n    print(\n     K)\ndef f(x): return K",
    "call_on_the_line": "if True: K = 1; print('é'); K = 2\ndef f(x): return K",
    "loop_beside": "if True:\n    for k in range(9):\n        if k: 1/0\n"
    "        else: 1/0\n    K = 2\nelse:\n    K = 3\ndef f(x): return K",
    "registry": "T = {}\ndef keep(f):\n    T[f.__name__] = f\n    return f\n"
    "@keep\ndef two(): return one() + 1\ndef one(): return 1\n"
    "def f(x): return T['two']()",
    "subclass": "class B:\n    kinds = []\n    def __init_subclass__(cls):\n"
    "        B.kinds.append(cls)\nclass C(B): pass\nclass D(C): pass\n"
    "def f(x): return len(B.kinds)",
    "dispatch": "import functools\n@functools.singledispatch\ndef g(x): return 1\n"
    "@g.register\ndef _(x: int): return 2\ndef f(x): return g(x)",
    "star_that_fails": "from no_such_module_at_all import *\ndef f(x): return 2",
    "star": "from math import *\ndef f(x): return floor(2.5)",
}


@pytest.mark.parametrize("source", COUNTS.values(), ids=COUNTS)
def test_what_the_notebook_has_the_grader_has(source: str) -> None:
    """Each of these works in a notebook, and so it works here."""
    assert value(program(source)) == 2


def test_a_future_import_holds_for_later_cells() -> None:
    """As in IPython; an earlier cell does not have it, and Python then evaluates."""
    future = "from __future__ import annotations"
    made = program(future, "\n" + LATER, "f = A().next")
    assert value(made) == 2 and made.notes == []
    with pytest.raises(NameError, match="Later"):
        value(program(LATER, future, "f = A().next"))


def test_lines_stay_under_a_future_import() -> None:
    """Only where a block begins on line 1 they move by one, and a note says so."""
    future = "from __future__ import annotations"
    for source, at in (("x = 1\ndef f(x):\n    1/0", 3), ("def f(x):\n    1/0", 3)):
        made = program(future, source)
        with pytest.raises(ZeroDivisionError) as caught:
            value(made)
        assert caught.traceback[-1].lineno + 1 == at
    assert made.notes == [
        f"the lines of cell 2 are counted from 2: `{future}` of another cell stands "
        "before them"
    ]


def test_lines_stay_where_a_call_is_left_out() -> None:
    """What is left out of an `if` moves nothing behind it, and is named."""
    made = program("if 1:\n    print(\n 1)\n    def f(x):\n        1/0")
    with pytest.raises(ZeroDivisionError) as caught:
        value(made)
    assert caught.traceback[-1].lineno + 1 == 5
    (note,) = made.notes
    assert note.endswith("count: cell 1 (lines 2-3)")


def test_a_demonstration_is_not_taken_for_a_registration() -> None:
    """Decorators and bases from an import, or that nothing needs, bring nothing in."""
    made = program(
        "import functools\nclass Mine: pass\ndef show(g): return g()\n"
        "@functools.cache\ndef demo(): 1/0\n@show\ndef other(): 1/0\n"
        "class More(Mine): 1/0\nclass Bad(Exception): 1/0\n"
        "def f(x): return functools.reduce(max, [1, 2])"
    )
    assert value(made) == 2
    assert "demo" not in made.texts[0][1] and "More" not in made.texts[0][1]


def test_a_module_is_not_changed() -> None:
    """Neither is it for the ranks of a notebook, where it is imported afresh."""
    made = program("import math\nmath.pi = 2\ndef f(x): return math.pi")
    assert value(made) != 2
    assert made.notes[0].endswith("count: cell 1 (line 2)")


@pytest.mark.parametrize("source", ["while 1:\n    x = 1", "for x in y: x = 1", "f()"])
def test_a_loop_and_a_call_are_no_definitions(source: str) -> None:
    """They may never end."""
    (node,) = ast.parse(source).body
    assert not defines(node)


# What is said

SAID = {
    "OPS = []\nOPS.append(1)\ndef f(x): return OPS[0]": r"line 2: `OPS.append\(1\)` is "
    "not run, though it may change OPS, which your solution uses",
    "n = {}\nexec('f = 1', n)\nf = n['f']": r"line 2: `exec.* may change n, which",
    "T = {}\nfor k in [1]: T.update({1: 2})\ndef f(x): return T": "may change T",
    "T = {}\nwhile 1:\n    T['a'][1] = 1\ndef f(x): return T": "your solution uses T",
    "for k in [1]:\n    def f(x): return 2": r"uses f: .*a loop does not count",
    "def my_f(x): return 2": r"no cell .* defines f; it defines my_f \(cell 1\)",
    "x = 1": "no cell of your notebook defines f. What is checked must be called f",
    "%%timeit -n1\ndef f(x): return 2": "cell 1 is left out, though it defines f: take",
    "%%writefile f.py\nf = g": "cell 1 is left out, though it defines f: take",
    "from no_file_here import f": "line 1: there is no module no_file_here where subm",
    "import no.file, math\ndef f(x): return no": "there is no module no where",
}


@pytest.mark.parametrize("source", SAID)
def test_what_is_missing_is_said(source: str) -> None:
    """No honest work gets nothing in silence: the line is named, and what to do."""
    assert re.search(SAID[source], "\n".join(program(source).notes))


def test_a_solution_behind_the_test_is_said() -> None:
    """The stub before it counts; a copy of the same is no word worth."""
    stub, mine = "def f(x): raise NotImplementedError", "def f(x): return 2"
    note = "cell 3, behind the test, defines f too: the one before the test counts"
    assert program(stub, after=(mine,)).notes == [note]
    assert program(stub, after=(stub,)).notes == program(after=(mine,)).notes == []


@pytest.mark.parametrize(
    "source",
    [
        f"for {','.join(f'a{k}' for k in range(20_000))} in b: pass\n"
        f"def f(x): return {', '.join(f'a{k}' for k in range(20_000))}",
        "".join(f"for a{k} in b: pass\n" for k in range(900))
        + f"def f(x): return {' + '.join(f'a{k}' for k in range(900))}",
        f"for {'a' * 50_000} in b: pass\ndef f(x): return {'a' * 50_000}",
    ],
    ids=["names", "lines", "name"],
)
def test_notes_fill_no_page(source: str) -> None:
    """Whatever a cell holds."""
    notes = program(source).notes
    assert len(notes) < 20 and max(map(len, notes)) < LONGEST + 10


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"nbformat": 4, "x": %s}' % (b"1" * 5000), "a number of some thousand dig"),
        ("{'x': 'Übung'}".encode("latin-1"), "its byte 7 is no text in UTF-8"),
    ],
)
def test_a_bad_file_is_told_in_our_words(
    tmp_path: Path, data: bytes, words: str
) -> None:
    """Not in those of Python's codecs and number parser."""
    path = tmp_path / "f.ipynb"
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=re.escape(words)):
        read(path)


def test_what_cannot_be_pickled_is_told_apart() -> None:
    """A single-dispatch function cannot go to the ranks from a notebook."""
    source = "import functools\n@functools.singledispatch\ndef g(x): pass\n"
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(source + "def ring_all_reduce(t): g(t)", space)
    with pytest.raises(TypeError, match=r"a function of functools\.singledispatch"):
        check.check(RING, space[RING])


# Answers in words


def released() -> NotebookNode:
    """A notebook with a solution and two questions."""
    cells = [new_markdown_cell("# Title"), new_code_cell("def f(x): pass")]
    plain = {"locked": False, "task": False, "schema_version": 3, "solution": True}
    cells[1].metadata["nbgrader"] = plain | {"grade": False, "grade_id": "f"}
    for name in ("why", "where"):
        cell = new_markdown_cell("*Your answer here.*")
        marks = plain | {"grade": True, "grade_id": name, "points": 2}
        cell.metadata["nbgrader"] = marks | {"cell_type": "markdown"}
        cell.metadata["nbgrader"]["checksum"] = compute_checksum(cell)
        cells.append(cell)
    return new_notebook(cells=cells)


TITLE, CODE = Cell("markdown", "# Title"), Cell("code", "def f(x): return x", "f")
EMPTY, WHERE = (Cell("markdown", "*Your answer here.*", n) for n in ("why", "where"))
FULL, PLAIN = Cell("markdown", ANSWER, "why"), Cell("markdown", ANSWER)


@pytest.mark.parametrize(
    "cells, waiting",
    [
        ([TITLE, CODE, EMPTY, WHERE], []),
        ([TITLE, CODE], []),
        ([], []),
        ([TITLE, Cell("markdown", CODE.source, "f"), EMPTY], []),
        ([TITLE, CODE, Cell("markdown", "\n *Your answer here.*"), EMPTY], []),
        ([TITLE, CODE, FULL, WHERE], ["why"]),
        ([TITLE, CODE, FULL, WHERE, EMPTY], ["why"]),
        ([TITLE, CODE, EMPTY, FULL, Cell("markdown", " ", "why"), WHERE], ["why"]),
        ([TITLE, CODE, PLAIN], ["why", "where"]),
        ([TITLE, CODE, EMPTY, PLAIN, WHERE], ["why", "where"]),
        ([TITLE, CODE, Cell("raw", ANSWER), EMPTY], ["why", "where"]),
        ([TITLE, CODE, FULL, WHERE, PLAIN], ["why", "where"]),
    ],
)
def test_an_answer_that_may_be_elsewhere_waits_for_a_person(
    cells: list[Cell], waiting: list[str]
) -> None:
    """nbgrader's own rule gives None, and no 0, where there is something to read."""
    made = rebuild(cells, released())
    nbformat.validate(made)
    asked = {marks(c)["grade_id"]: c for c in made.cells if marks(c).get("grade")}
    grades = {name: determine_grade(cell)[0] for name, cell in asked.items()}
    assert [name for name in ("why", "where") if grades[name] is None] == waiting
    if FULL in cells:
        assert asked["why"].source == ANSWER
    told = [n for n in made.metadata[OURS]["notes"] if n.startswith("nothing was writ")]
    assert len(told) == len(waiting) - (FULL in cells)


def of(notebook: NotebookNode, name: str) -> NotebookNode:
    """The cell of this name."""
    (cell,) = (c for c in notebook.cells if marks(c).get("grade_id") == name)
    return cell


WHY = f"why_{RING}"


def without_names(notebook: NotebookNode) -> None:
    """All metadata stripped, as some tools do."""
    for cell in notebook.cells:
        cell.metadata = {}


def without_its_name(notebook: NotebookNode) -> None:
    of(notebook, WHY).metadata = {}


def with_the_placeholder_behind(notebook: NotebookNode) -> None:
    copy = deepcopy(of(notebook, WHY))
    copy.id, copy.source = "copy", "*Your answer here.*"
    notebook.cells.append(copy)


def below(notebook: NotebookNode) -> None:
    of(notebook, WHY).source = "*Your answer here.*"
    notebook.cells.append(new_markdown_cell(ANSWER))


def nothing(notebook: NotebookNode) -> None:
    of(notebook, WHY).source = "*Your answer here.*"


ELSEWHERE = (without_names, without_its_name, with_the_placeholder_behind, below)
STAMPS = {
    "words": b"not a time <script>",
    "bytes": b"\xff\xfe\x00",
    "year": b"99999-01-01 00:00:00 UTC",
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Answers in odd places, and times that are none, graded by nbgrader itself."""
    course = new_course(tmp_path_factory.mktemp("honest"), RING)
    for change in (*ELSEWHERE, nothing):
        work = course.source(RING)
        of(work, WHY).source = ANSWER
        change(work)
        course.hand_in(change.__name__.replace("_", "-"), work)
    for student, data in STAMPS.items():
        path = course.hand_in(student, course.source(RING))
        path.with_name("timestamp.txt").write_bytes(data)
    course.said = course.python("grade", RING).stdout
    return course


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nbgrader_waits_for_a_person_where_an_answer_may_be(graded: Course) -> None:
    """In the gradebook, in the summary and in the feedback; a blank still has its 0."""
    with graded.gradebook() as book:
        for change in (*ELSEWHERE, nothing):
            student = change.__name__.replace("_", "-")
            where = (RING, RING, student)
            waits = change is not nothing
            grade = book.find_grade(WHY, *where)
            assert grade.needs_manual_grade == waits, student
            assert grade.auto_score == (None if waits else 0), student
            said = book.find_comment(WHY, *where).auto_comment
            assert said == (None if waits else "No response."), student
            row = graded.rows()[student]
            assert row["score"] == "20.0", student
            assert row["status"] == ("to be graded by hand" if waits else "graded")
    graded.python("feedback", RING, "--student", "below", "--student", "nothing")
    texts, pages = (
        [
            (
                graded.autograder / "feedback" / name / RING / f"{RING}.{kind}"
            ).read_text()
            for name in ("below", "nothing")
        ]
        for kind in ("txt", "html")
    )
    assert f"{WHY}: not yet graded" in texts[0] and "text of yours" in texts[0]
    assert f"{WHY}: 0 of 4 points" in texts[1] and "text of yours" not in texts[1]
    assert ANSWER in pages[0] and "For the person who grades" in pages[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_time_that_is_none_is_named_with_its_file(graded: Course) -> None:
    """It costs its own student the marks until it is put right, and says so."""
    for student in STAMPS:
        row = graded.rows()[student]
        path = Path("submitted") / student / RING / "timestamp.txt"
        assert (row["status"], row["score"]) == ("not gradable", "")
        assert row["reason"].startswith(f"{path} holds no time: "), row
        right = graded.autograder / path
        right.write_text("2026-02-15 23:59:00 UTC")
    graded.python("grade", RING)
    assert all(graded.rows()[student]["score"] == "20.0" for student in STAMPS)

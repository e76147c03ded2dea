"""Honest work that is written in other ways: it counts, or a note says why not."""

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

from autograder.notebook import Cell, Unreadable, read
from autograder.rebuild import OURS, marks, rebuild
from collectives_lab import checking

ANSWER = "Because the order of the additions depends on the chunk."


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"nbformat": 4, "x": %s}' % (b"1" * 5000), "a number of some thousand dig"),
        ("{'x': 'Übung'}".encode("latin-1"), "its byte 7 is no text in UTF-8"),
    ],
)
def test_a_bad_file_is_reported_in_our_words(
    tmp_path: Path, data: bytes, words: str
) -> None:
    """Not in those of Python's codecs and number parser."""
    path = tmp_path / "f.ipynb"
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=re.escape(words)):
        read(path)


def test_what_cannot_be_pickled_is_distinguished() -> None:
    """A single-dispatch function cannot go to the ranks from a notebook."""
    source = "import functools\n@functools.singledispatch\ndef g(x): pass\n"
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(source + "def ring_all_reduce(t): g(t)", space)
    with pytest.raises(TypeError, match=r"a function of functools\.singledispatch"):
        checking.check(RING, space[RING])


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
    notes = [
        n for n in made.metadata[OURS]["notes"] if n.startswith("nothing was writ")
    ]
    assert len(notes) == len(waiting) - (FULL in cells)


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
    course.printed = course.python("grade", RING).stdout
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
            comment = book.find_comment(WHY, *where).auto_comment
            assert comment == (None if waits else "No response."), student
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

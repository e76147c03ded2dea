"""What a student gets back: pasted images, late penalties, pages without a score."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from autograder_course import RING, Course, new_course
from conftest import ROOT
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from autograder import grades
from autograder.handing_in import STUDENT
from autograder.images import LARGEST, attached, placed
from autograder.notebook import read
from autograder.rebuild import marks, rebuild

PNG = b"\x89PNG\r\n\x1a\n" + b"a picture"
DATA = base64.b64encode(PNG).decode()


def pasted(text: str, kinds: dict[str, Any] | None = None) -> dict[str, Any]:
    """A cell of text with an image x.png, and the same under an odd name."""
    image = kinds or {"image/png": DATA}
    images = {"x.png": image, "a b(1).png": image}
    return {"cell_type": "markdown", "source": text, "attachments": images}


def handed_in(cell: dict[str, Any], tmp_path: Path) -> NotebookNode:
    """The cell as it comes out of a submitted file."""
    path = tmp_path / "f.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    (made,) = rebuild(read(path), new_notebook()).cells
    return made


def page(cell: NotebookNode) -> str:
    """What nbconvert makes of it; it raises at a pointer to nothing."""
    return HTMLExporter().from_notebook_node(new_notebook(cells=[cell]))[0]


@pytest.mark.parametrize(
    "text",
    [
        "![x.png](attachment:x.png)",
        "so: ![](attachment:a%20b(1).png), and <b>",
        "a ![b](attachment:x.png) ![c](attachment:x.png)",
    ],
)
def test_a_pasted_image_is_shown(text: str, tmp_path: Path) -> None:
    """A small image comes along, under a name of ours."""
    made = handed_in(pasted(text), tmp_path)
    assert page(made).count(f"data:image/png;base64,{DATA}") == text.count("![")


@pytest.mark.parametrize(
    "kinds",
    [
        {"image/svg+xml": "<svg onload='alert(1)'/>"},
        {"text/html": DATA},
        {"image/png": "'><script>"},
        {"image/png": base64.b64encode(b"<script>").decode()},
        {"image/png": base64.b64encode(PNG + b"x" * LARGEST).decode()},
        {"image/png": 7},
        {"image/jpeg": DATA},
    ],
    ids=lambda kinds: next(iter(kinds)),
)
def test_what_is_no_small_image_is_named(kinds: dict[str, Any], tmp_path: Path) -> None:
    """Its place in the text says what was left out, and nothing of it comes along."""
    made = handed_in(pasted("see ![x](attachment:x.png)", kinds), tmp_path)
    assert made.source == "see (image x.png left out)"
    assert "attachments" not in made


@pytest.mark.parametrize("odd", [None, [], {"x.png": None}, {"x.png": {}}, "x.png"])
def test_odd_attachments_are_none(odd: Any) -> None:
    """A file may have anything in their place."""
    assert attached({"attachments": odd}) == {}


@pytest.mark.parametrize(
    "text",
    [
        "![x](attachment:gone.png)",
        '![x](attachment:gone.png "title")',
        "![x]( attachment:gone.png )",
        "![x](<attachment:gone.png>)",
        "![x][1]\n\n[1]: attachment:gone.png",
        "![x](&#97;ttachment:gone.png)",
        "![x](attachment&colon;gone.png)",
        "![x](attachment\\:gone.png)",
        "![x](attachment:attachment:gone.png)",
        "![x](attachment:x.png) ![x](attachment:image-1.pngs)",
        "![x](attachment:x.png) ![x](attachment:image-2)",
        "![a ![x](attachment:x.png)](attachment:gone.png)",
        "![x](attachatt:achment:ment:gone.png)",
        "![x](attachattachment:ment:gone.png)",
    ],
)
def test_no_pointer_to_nothing_costs_the_page(text: str, tmp_path: Path) -> None:
    """However a missing image is written, the page is made."""
    assert "missing" not in page(handed_in(pasted(text), tmp_path))


def test_the_pages_above_would_be_lost() -> None:
    """nbconvert itself makes none for a pointer to nothing."""
    with pytest.raises(Exception, match="missing attachment"):
        page(new_markdown_cell("![x](attachment:gone.png)"))
    text, kept = placed("![x](attachment:gone.png)", {})
    assert (text, kept) == ("(image gone.png left out)", {})


@pytest.mark.parametrize("student", ["..", ".", "...", ".ann", "-f", "a__b", "", "a/b"])
def test_an_id_is_the_name_of_a_folder(student: str) -> None:
    """No id leads out of submitted/, hides, or reads as an option."""
    assert not re.fullmatch(STUDENT, student)
    assert re.fullmatch(STUDENT, "ann.o-neil_2@uni.edu")


def test_a_row_of_the_summary_is_a_line() -> None:
    """One odd name moves no other row."""
    rows = [
        grades.Row(student, RING, "not checked", reason="a\nb" if student else "")
        for student in ("ann", "b\nen", "c" * 200)
    ]
    ann, ben, long, *_ = grades.summary(rows).splitlines()
    assert ben.startswith("b en ") and long.startswith("c" * 200)
    assert ann.index("-") == ben.index("-") == grades.WIDEST + 14
    assert ann.endswith("not checked: a b")


def test_a_python_of_elsewhere_names_the_one_to_take() -> None:
    """Outside the environment a command ends with what to do, in one line."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "autograder", "grade", RING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert re.search(r"has no \w+: run `.venv/bin/python -m autograder", done.stderr)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """An image in an answer, a file that is none, and one that came late: graded."""
    course = new_course(tmp_path_factory.mktemp("back"), RING)
    work = course.source(RING)
    for cell in work.cells:
        if marks(cell).get("grade_id") == f"why_{RING}":
            cell.source = "![x.png](attachment:x.png) ![y](attachment:y.png)"
            cell.attachments = {"x.png": {"image/png": DATA}}
    course.hand_in("ann", work)
    course.hand_in("ben", "{" + "x" * 300)
    late = course.hand_in("cem", course.source(RING)).with_name("timestamp.txt")
    late.write_text("2026-02-01 12:00:00 UTC")
    course.python("grade", RING)
    return course


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_image_in_an_answer_reaches_the_feedback(course: Course) -> None:
    """The page shows the image that came, and says which did not."""
    course.python("feedback", RING, "--student", "ann")
    text = (course.autograder / "feedback" / "ann" / RING / f"{RING}.html").read_text()
    assert f"data:image/png;base64,{DATA}" in text
    assert "(image y.png left out)" in text
    assert "(Score: 20 so far / 24.0)" in text


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_feedback_without_a_verdict_has_no_score(course: Course) -> None:
    """Nowhere on the page is a 0 that is none, until a person gives the marks."""
    course.python("feedback", RING, "--student", "ben")
    folder = course.autograder / "feedback" / "ben" / RING
    page, text = (folder / f"{RING}.{kind}" for kind in ("html", "txt"))
    assert f"{RING} (Score: not gradable / 24.0)" in page.read_text()
    assert "Score: 0.0" not in page.read_text()
    assert "<pre>0.0</pre>" not in page.read_text()
    assert '<pre style="white-space: pre-wrap' in page.read_text(), "nothing is cut"
    assert ".rendered_html :is(td, th) { padding" in page.read_text()
    assert text.read_text().startswith(f"{RING}, ben: not gradable\n")
    with course.gradebook() as book:
        for name in (f"check_{RING}", f"why_{RING}"):
            grade = book.find_grade(name, RING, RING, "ben")
            grade.manual_score, grade.needs_manual_grade = 2.0, False
        book.db.commit()
    course.python("feedback", RING, "--student", "ben")
    assert f"{RING} (Score: 4.0 / 24.0)" in page.read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_late_penalty_is_the_one_of_now(course: Course) -> None:
    """A rule or a due date that is changed later counts from the next run on."""

    def cem() -> tuple[str, str]:
        done = course.python("grade", RING)
        assert done.stderr == "", "nothing is checked or recorded again"
        row = course.rows()["cem"]
        return row["score"], row["late_penalty"]

    assert cem() == ("20.0", "0.0")
    config = course.autograder / "nbgrader_config.py"
    before = config.read_text()
    config.write_text(before + 'c.LateSubmissionPlugin.penalty_method = "zero"\n')
    assert cem() == ("20.0", "0.0")
    for due, marked in (
        ("2026-01-31", ("0.0", "20.0")),
        ("2026-02-02", ("20.0", "0.0")),
    ):
        with course.gradebook() as book:
            book.update_or_create_assignment(RING, duedate=f"{due} 12:00:00 UTC")
        assert cem() == marked
    with course.gradebook() as book:
        book.update_or_create_assignment(RING, duedate="2026-01-31 12:00:00 UTC")
    assert cem() == ("0.0", "20.0")
    config.write_text(before)
    assert cem() == ("20.0", "0.0")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_mark_by_hand_is_asked_for_again_only_above_the_maximum(
    course: Course,
) -> None:
    """Recorded once more for the same submission it stands; above it waits."""

    def cem(points: float) -> tuple[str, str]:
        with course.gradebook() as book:
            grade = book.find_grade(f"why_{RING}", RING, RING, "cem")
            grade.manual_score, grade.needs_manual_grade = points, False
            book.db.commit()
        (course.autograder / "autograded/cem" / RING / f"{RING}.ipynb").unlink()
        course.python("grade", RING)
        course.python("feedback", RING, "--student", "cem")
        text = course.autograder / "feedback" / "cem" / RING / f"{RING}.txt"
        return course.rows()["cem"]["status"], text.read_text()

    status, text = cem(3.0)
    assert status == "graded" and f"why_{RING}: 3 of 4 points\n" in text
    status, text = cem(5.0)
    assert status == "to be graded by hand"
    assert f"why_{RING}: 5 of 4 points so far, and not final" in text

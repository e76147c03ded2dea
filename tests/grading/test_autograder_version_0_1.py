"""A course folder graded by version 0.1: it opens, and grading it again moves no mark.

`course.tar.xz` is the folder as 0.1 left it: the gradebook, the receipts, what was
handed in and recorded, and the assignment as it was then. One student solved the ring
and has a mark and a comment by hand, one waits for ever, one handed in no notebook.
"""

import json
import shutil

import pytest
from autograder_course import RING, Course, new_course
from conftest import ROOT

from collectives_lab.checking.report import Report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NEW = ("waiting", "look", "regrade")
"""Columns of the marks that 0.1 did not have."""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The folder of 0.1, with the autograder and the package of this version."""
    made = new_course(tmp_path_factory.mktemp("version_0_1"))
    shutil.unpack_archive(ROOT / "tests/version_0_1/course.tar.xz", made.folder)
    return made


def by_hand(course: Course) -> tuple[float, bool, str]:
    """The mark that a person gave, whether it is asked for again, and the comment."""
    name = f"why_{RING}"
    with course.gradebook() as book:
        grade = book.find_grade(name, RING, RING, "solved")
        comment = book.find_comment(name, RING, RING, "solved")
        return grade.manual_score, grade.needs_manual_grade, comment.manual_comment


def test_marks_and_receipts_of_version_0_1_are_read_and_graded_again(
    course: Course,
) -> None:
    """The marks are those of then, before and after this version checks the same work.

    And its receipts can be repeated, to the same verdict.
    """
    then, hand = course.rows(), by_hand(course)
    assert [row["score"] for row in then.values()] == ["", "23.5", "0.0"]
    assert hand == (3.5, False, "Say which link is the busy one.")
    old = course.receipt("solved")
    report = old["exercises"][RING]["report"]
    assert Report.from_json(json.dumps(report)).points == 20

    receipt = f"autograder/receipts/{RING}/solved.json"
    repeated = course.python("repeat", receipt).stdout
    assert "20 points then, 20 now: the same" in repeated
    assert f"of another engine, {old['engine']}" in repeated

    marks = course.autograder / "grades" / f"{RING}.csv"
    course.python("export", RING, "--to", str(marks))
    assert_the_same(then, course.rows())
    course.python("grade", RING, "--workers", "2")
    assert_the_same(then, course.rows())
    assert by_hand(course) == hand
    assert course.receipt("solved")["engine"] != old["engine"]


def assert_the_same(
    then: dict[str, dict[str, str]], now: dict[str, dict[str, str]]
) -> None:
    """Each mark and reason is as it was; what has no verdict now has no points."""
    now = {s: {k: v for k, v in row.items() if k not in NEW} for s, row in now.items()}
    without_verdict = {"broken": then["broken"] | {"checked": ""}}
    assert now == then | without_verdict

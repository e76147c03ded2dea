"""Marks beside the check: late days, who hands in, and the forms of an LMS."""

import os
import shutil
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from traitlets.config import Config

from autograder import (
    course,
    grades,
    lms,
    nbgrader_commands,
    receipts,
    regrading,
    students,
)
from autograder.grades import Row

# nbgrader's queries are older than SQLAlchemy's idea of them; the result is right.
pytestmark = pytest.mark.filterwarnings("ignore:Object of type <Submitted")

DUE = {"first": "2026-01-10 12:00:00 UTC", "second": "2026-01-20 12:00:00 UTC"}
LATE_DAYS = Config(
    {
        "AssignLatePenalties": {"plugin_class": "autograder.late_days.LateDays"},
        "LateDays": {"free_days": 3, "per_day": 0.25},
    }
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook of two assignments of 20 points and two students, made once."""
    path = tmp_path_factory.mktemp("made") / "gradebook.db"
    with pytest.MonkeyPatch.context() as patch:  # nbgrader calls `alembic`
        here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        patch.setenv("PATH", here)
        book = Gradebook(f"sqlite:///{path}")
    for name, due in DUE.items():
        book.add_assignment(name, duedate=due)
        book.add_notebook(name, name)
        book.add_grade_cell(f"check_{name}", name, name, max_score=20, cell_type="code")
    book.add_student("ann", first_name="Ann", last_name="Lee", email="ann@uni.edu")
    book.add_student("=ben", lms_user_id="4711")
    book.close()
    return path


@pytest.fixture
def book(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Gradebook]:
    """A copy of it, and a course around it."""
    url = f"sqlite:///{shutil.copy(made, tmp_path)}"
    monkeypatch.setattr(nbgrader_commands, "gradebook", lambda: Gradebook(url))
    for name in ("ROSTERS", "RECEIPTS", "REGRADES", "SUBMITTED"):
        monkeypatch.setattr(course, name, tmp_path / name.lower())
    with Gradebook(url) as book:
        yield book


def hand_in(book: Gradebook, name: str, late: timedelta, score: float = 20) -> None:
    """Record a submission of ann, so long after the due date."""
    due = book.find_assignment(name).duedate
    time = f"{due + late} UTC"
    book.update_or_create_submission(name, "ann", timestamp=time)
    book.find_grade(f"check_{name}", name, name, "ann").auto_score = score
    book.db.commit()


def penalty(book: Gradebook, name: str, config: Config = LATE_DAYS) -> float:
    """What nbgrader takes off by its own preprocessor."""
    about = {"student": "ann", "assignment": name, "notebook": name}
    url = str(book.engine.url)
    resources = {"nbgrader": about | {"db_url": url}}
    AssignLatePenalties(config=config).preprocess(new_notebook(), resources)
    book.db.expire_all()
    return book.find_submission(name, "ann").late_submission_penalty or 0.0


@pytest.mark.parametrize(
    ("late", "points"),
    [
        (timedelta(0), 0),
        (timedelta(days=3), 0),
        (timedelta(days=3, seconds=1), 5),
        (timedelta(days=5), 10),
        (timedelta(days=400), 20),
    ],
)
def test_a_late_day_that_has_begun_is_whole(
    book: Gradebook, late: timedelta, points: float
) -> None:
    """Three are free; each other one costs its share, and all together the score."""
    hand_in(book, "first", late)
    assert penalty(book, "first") == points


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_the_earliest_due_date_has_the_free_days(
    book: Gradebook, order: tuple[str, str]
) -> None:
    """Two assignments share the budget, in whatever order they are graded."""
    for name in order:
        hand_in(book, name, timedelta(days=2))
    taken = {name: penalty(book, name) for name in order}
    assert taken == {"first": 0, "second": 5}


def test_an_extension_spends_no_late_days(
    book: Gradebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves the due date from which days are late; 0 takes it back."""
    where = {"CourseDirectory": {"db_url": str(book.engine.url)}}
    monkeypatch.setattr(
        nbgrader_commands, "config", lambda: Config({**LATE_DAYS, **where})
    )
    hand_in(book, "first", timedelta(days=5))
    for hours, points in ((48, 0), (24, 5), (0, 10)):
        sentence = students.extend("first", "ann", hours)
        assert sentence.startswith(
            f"ann has until 2026-01-{10 + hours // 24} 12:00:00 UTC"
        )
        book.db.expire_all()
        assert (
            book.find_submission("first", "ann").late_submission_penalty or 0
        ) == points


def test_an_extension_that_cannot_be_is_refused(book: Gradebook) -> None:
    """Each mistake is named, and nothing is made for it."""
    book.add_assignment("undated")
    for wrong, complaint in [
        (("nix", "ann", 1), "the gradebook has no nix"),
        (("first", "nobody", 1), "no student nobody: `nbgrader db student add nobody`"),
        (("undated", "ann", 1), "has no due date to extend"),
        (("first", "ann", -1), "0 or more"),
        (("first", "ann", 1e12), "that far away"),
        (("first", "ann", 1e8), "that far away"),
    ]:
        with pytest.raises(course.CourseError, match=complaint):
            students.extend(*wrong)
    assert not book.assignment_submissions("first")


def test_a_roster_says_who_hands_in(book: Gradebook) -> None:
    """Its first column, with or without a header; without a file, all students."""
    assert course.roster("first") is None
    assert [row.student_id for row in grades.rows("first")] == ["=ben", "ann"]
    course.ROSTERS.mkdir()
    roster = course.ROSTERS / "first.csv"
    for text in ("ann\n\n", "id,first_name\nann,Ann\n", "\ufeffann , Ann\r\n"):
        roster.write_text(text)
        assert course.roster("first") == {"ann"}
        assert [row.student_id for row in grades.rows("first")] == ["ann"]
    roster.write_bytes(b"\xff\xfe")
    with pytest.raises(course.CourseError, match=r"first\.csv is no list of students"):
        course.roster("first")


ROWS = [
    Row("=ben", "first", grades.GRADED, 12.5, 20.0, timestamp="2026-01-13 13:00:01"),
    Row("ann", "first", grades.BY_HAND, 3.0, 20.0, waiting="why_first"),
    Row("cem", "first", grades.NOT_GRADABLE, None, 20.0),
    Row("dan", "first", grades.MISSING),
]


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        (
            "canvas",
            [
                "Student,ID,SIS User ID,SIS Login ID,Section,Ring (1)",
                "    Points Possible,,,,,20.0",
                "'=ben,4711,,'=ben,,12.5",
            ],
        ),
        ("moodle", ["ID number,Email address,Ring (1)", "'=ben,,12.5"]),
        (
            "gradescope",
            [
                "First Name,Last Name,SID,Email,Sections,Total Score,Max Points,Status,"
                "Submission ID,Submission Time,Lateness (H:M:S)",
                ",,'=ben,,,12.5,20.0,Graded,,2026-01-13 13:00:01 +0000,73:00:01",
                "Ann,Lee,ann,ann@uni.edu,,,20.0,Ungraded,,,",
                ",,cem,,,,20.0,Ungraded,,,",
                ",,dan,,,,,Missing,,,",
            ],
        ),
    ],
)
def test_an_lms_gets_what_it_reads(
    book: Gradebook, form: str, lines: list[str], tmp_path: Path
) -> None:
    """Final marks only where it imports them; no mark that waits is a number."""
    late = {"timestamp": "2026-01-13 13:00:01 UTC"}
    book.update_or_create_submission("first", "=ben", **late)
    grades.write_table(lms.table(form, ROWS, "Ring (1)"), tmp_path / "marks.csv")
    assert (tmp_path / "marks.csv").read_text().splitlines() == lines


def test_a_mean_is_of_marks_that_are_there() -> None:
    """What waits, is missing or not gradable is no 0; the missing share a line."""
    summary = grades.summary(ROWS)
    assert "\nmissing: dan\n" in summary
    assert "mean of the 1 with all marks: 12.5" in summary


def receipt(**more: object) -> receipts.Receipt:
    verdict = {"status": "not gradable", "reason": "lost", "notes": []}
    made = {"assignment": "first", "student": "ann", "key": "0" * 64, "retry": True}
    return made | {"exercises": {"first": verdict}, "notes": []} | more


def test_a_dismissal_ends_with_its_receipt(book: Gradebook) -> None:
    """It is not tried again, and does not ask for a look; a new verdict starts anew."""
    hand_in(book, "first", timedelta(0))
    grade = book.find_grade("check_first", "first", "first", "ann")
    grade.auto_score, grade.needs_manual_grade = None, True
    book.db.commit()
    course.ROSTERS.mkdir()
    (course.ROSTERS / "first.csv").write_text("ann")
    for _ in range(2):
        receipts.save(receipt(look="a judge failed"))
        (row,) = grades.rows("first")
        assert (row.status, row.reason) == (grades.NOT_GRADABLE, "lost")
        assert "; look at it: a judge failed" in grades.summary([row])
        regrading.dismiss("first", "ann", "seen")
        (row,) = grades.rows("first")
        assert (row.status, row.reason, row.look) == (grades.DISMISSED, "seen", "")
        assert receipts.find({"assignment": "first", "student": "ann", "key": "0" * 64})
    graded = {"status": "graded", "points": 20.0}
    receipts.save(receipt(exercises={"first": graded}))
    with pytest.raises(course.CourseError, match="nothing to dismiss"):
        regrading.dismiss("first", "ann", "seen")
    with pytest.raises(course.CourseError, match="no receipt of ben for first"):
        regrading.dismiss("first", "ben", "seen")


def test_a_request_waits_for_its_answer(book: Gradebook) -> None:
    """One that cannot be repeated is kept too; an answer is to the last one."""
    with pytest.raises(course.CourseError, match="asked nothing about first"):
        regrading.answer("first", "ann", "No.")
    receipts.save(receipt())
    with pytest.raises(course.CourseError, match="write a sentence"):
        regrading.ask("first", "ann", " ")
    for request in ("Why?", "And why?"):
        assert "was not repeated" in regrading.ask("first", "ann", request)
        assert regrading.state("first", "ann") == "regrade requested"
        regrading.answer("first", "ann", f"{request} So.")
        assert regrading.state("first", "ann") == "regrade answered"
    assert "Why? So." in regrading.text("first", "ann").splitlines()[2]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"exercises": {}, "engine": "e"}'])
def test_a_file_that_is_no_receipt_is_not_repeated(text: str, tmp_path: Path) -> None:
    """Whatever is in it, the instructor is told so in words."""
    file = tmp_path / "ann.json"
    file.write_text(text)
    with pytest.raises(course.CourseError, match="is no receipt of this autograder"):
        regrading.repeat(file)

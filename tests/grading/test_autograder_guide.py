"""GUIDE.md, followed: its commands in their order, in a course of their own."""

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from autograder_course import RING, Course, new_course
from conftest import ROOT

from autograder.rebuild import exercise, marks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GUIDE = (ROOT / "autograder" / "GUIDE.md").read_text()
OURS = ("python -m autograder ", "nbgrader ")
ELSEWHERE = {
    "nbgrader release_feedback": "test_autograder_exchange has the exchange",
    "python -m autograder gradescope": "test_autograder_gradescope runs the zip",
}
STUDENTS = """id,first_name,last_name,email,lms_user_id
ann,Ann,Lee,ann@uni.edu,4711
ben,Ben,Ode,ben@uni.edu,
cem,Cem,Paz,cem@uni.edu,
dan,Dan,Roe,dan@uni.edu,
eve,Eve,Sun,eve@uni.edu,
"""
GRADE = f"python -m autograder grade {RING}"
DELIVERED = f"{RING}__{{}}__202602{{}}T120000.ipynb"


def blocks(language: str) -> Iterator[str]:
    """The blocks of the guide in a language."""
    yield from re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def commands() -> list[str]:
    """The guide's commands of autograder and nbgrader, a line each."""
    text = "".join(blocks("sh")).replace("\\\n", "")
    lines = [re.sub(r"\s# .*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith(OURS)]


@dataclass
class Day:
    """A course in which the guide was followed, and what each command printed."""

    course: Course
    printed: dict[str, list[str]] = field(default_factory=dict)

    def follow(self) -> None:
        """Run all commands; between them happens what the guide says of others."""
        for command in commands():
            if command.startswith(tuple(ELSEWHERE)):
                continue
            outputs = self.printed.setdefault(command, [])
            if command.startswith("nbgrader zip_collect"):
                self.is_delivered()
            if command.startswith("nbgrader generate_assignment") and outputs:
                self.points_are_halved()
            outputs.append(self.run(command))
            if command.endswith("--remove"):
                self.left = {path.name for path in self.folder.rglob("*example-*")}
                self.strays_remain()

    @property
    def folder(self) -> Path:
        return self.course.autograder

    def run(self, command: str) -> str:
        place = self.folder if command.startswith("nbgrader") else self.course.folder
        here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            shell=True,
            cwd=place,
            env=self.course.env | {"PATH": here},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def is_prepared(self) -> None:
        """What an instructor writes, and the notebook that a student has."""
        (self.folder / "students.csv").write_text(STUDENTS)
        roster = self.folder / "rosters" / f"{RING}.csv"
        roster.parent.mkdir()
        roster.write_text("id\nann\nben\ncem\ndan\n")
        (late_days,) = blocks("python")
        config = self.folder / "nbgrader_config.py"
        config.write_text(config.read_text() + late_days)
        nbformat.write(self.course.source(RING), self.course.folder / f"{RING}.ipynb")

    def is_delivered(self) -> None:
        """ann is in time, ben is five days late, and cem's file is no notebook."""
        archive = self.folder / "downloaded" / RING / "archive"
        archive.mkdir(parents=True)
        solved = (self.course.folder / f"{RING}.ipynb").read_text()
        (archive / DELIVERED.format("ann", "10")).write_text(solved)
        (archive / DELIVERED.format("ben", "20")).write_text(solved)
        (archive / DELIVERED.format("cem", "10")).write_text("{")

    def strays_remain(self) -> None:
        """A folder of a student whom somebody has removed from the gradebook."""
        stray = self.folder / "autograded" / "gone" / RING / f"{RING}.ipynb"
        stray.parent.mkdir(parents=True)
        stray.write_text("{}")

    def points_are_halved(self) -> None:
        path = self.course.folder / "solutions" / RING / f"{RING}.ipynb"
        source = nbformat.read(path, as_version=4)
        (cell,) = (cell for cell in source.cells if exercise(cell))
        marks(cell)["points"] = 10
        nbformat.write(source, path)

    def csv(self, form: str) -> list[dict[str, str]]:
        with (self.folder / "grades" / f"{RING}{form}.csv").open() as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    """The guide, followed once."""
    day = Day(new_course(tmp_path_factory.mktemp("day"), RING))
    day.is_prepared()
    day.follow()
    return day


@pytest.mark.parametrize("command", ELSEWHERE)
def test_what_is_not_followed_stands_in_the_guide(command: str) -> None:
    """What is left out here is left out by its name, and has a test elsewhere."""
    assert any(line.startswith(command) for line in commands())


def test_examples_leave_no_trace(day: Day) -> None:
    """They were graded; then neither a file nor a row of theirs is left."""
    assert "example-007" in day.printed[GRADE][0]
    assert day.left == set()
    with day.course.gradebook() as book:
        assert not [s.id for s in book.students if s.id.startswith("example")]


def test_the_summary_is_of_those_who_should_hand_in(day: Day) -> None:
    """Those on the roster: eve is in the course, and has not this assignment."""
    output = day.printed[GRADE][1]
    assert "missing: dan\n" in output and "eve" not in output
    assert re.search(r"ann +20 so far +to be graded by hand\n", output)
    assert re.search(r"cem +- +not gradable: .* not a notebook", output)


def test_late_days_are_spent_before_points(day: Day) -> None:
    """ben is five days late, three of them free; an extension of two saves the rest."""
    assert re.search(r"ben +16 so far ", day.printed[GRADE][1])
    ben = {row["student_id"]: row for row in day.csv("")}["ben"]
    assert ben["late_penalty"] == "0.0"


def test_what_was_dismissed_is_left_alone(day: Day) -> None:
    """The next run prints the reason in place of the fault."""
    assert re.search(
        r"cem +- +dismissed: asked for another file\n", day.printed[GRADE][2]
    )


def test_a_request_and_its_answer_reach_the_student(day: Day) -> None:
    """The check is repeated at once; the summary and both feedbacks have it."""
    (repeated,) = (
        output for name, output in day.printed.items() if "--request" in name
    )
    assert repeated[0].endswith(f"{RING}: 20 points then, 20 now: the same\n")
    assert re.search("ann .*; regrade answered\n", day.printed[GRADE][-1])
    for kind in ("txt", "html"):
        path = day.folder / "feedback" / "ann" / RING / f"{RING}.{kind}"
        assert "Why has lengths no points?" in path.read_text()
        assert "The mark stays." in path.read_text()


def test_feedback_is_of_those_in_the_gradebook(day: Day) -> None:
    """What lies about of a removed student costs nobody an error, and makes no page."""
    output = day.printed[f"python -m autograder feedback {RING}"][0]
    assert output == f"3 feedbacks in {day.folder / 'feedback'}\n"
    assert not (day.folder / "feedback" / "gone").exists()


def test_what_nobody_has_graded_is_not_a_0(day: Day) -> None:
    """The page, the text, the CSV and the forms for an LMS have no number for it."""
    folder = day.folder / "feedback" / "ann" / RING
    page, text = ((folder / f"{RING}.{kind}").read_text() for kind in ("html", "txt"))
    assert "Score: not yet graded / 4.0" in page and "0.0 / 4.0" not in page
    assert "so far /" in page and "points so far\n" in text
    assert f"why_{RING}: not yet graded" in text
    assert {row["waiting"] for row in day.csv("")} >= {f"why_{RING}"}
    header, points = day.csv(".canvas")[0:1], day.csv(".canvas")[1:]
    assert header[0][RING] == "24.0" and points == []


def test_scores_follow_points_that_change(day: Day) -> None:
    """The second release gives the check 10 points in place of 20; ann had them all."""
    row = {row["student_id"]: row for row in day.csv("")}["ann"]
    assert (row["score"], row["max_score"]) == ("10.0", "14.0")

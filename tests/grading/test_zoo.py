"""The zoo: known mutants fail by the property they are named for, odd ones pass.

A file of `zoo/<exercise>/` says in its first line `fails: <properties> — <why>`, of
which each must fail, or `passes — <what is unusual about it>`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectives_lab.checking import EXERCISES, Report, grade
from collectives_lab.wire import Box, Program

pytestmark = pytest.mark.slow

ZOO = Path(__file__).parent / "zoo"
FILES = sorted(ZOO.glob("*/*.py"))
SEED = "zoo"
MUTANTS, UNUSUAL = {"ring_all_reduce": 25}, {"ring_all_reduce": 8}
"""At least so many; of the other exercises 8 mutants and 4 unusual ones."""

ANSWERS = {"communication_ratio", "which_verb"}


def claim(path: Path) -> set[str]:
    """The properties that a file says it fails; empty where it passes."""
    line = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
    said, dash, why = line.partition(" — ")
    assert dash and why, f"{path}: {line!r} has no ' — ' with a reason"
    if said == "passes":
        return set()
    exercise = EXERCISES[path.parent.name]
    every = {p.name for p in exercise.properties}
    named = said.removeprefix("fails: ")
    found = every if named == "all" else set(named.split(", "))
    assert found and found <= every, f"{path}: {said!r}; there are {every}"
    return found


def disagreement(claimed: set[str], report: Report) -> str:
    """Why a report is not what was claimed; empty if it is."""
    failed = {finding.name for finding in report.findings if not finding.passed}
    if claimed - failed:
        return f"should fail {claimed - failed}:\n{report}"
    return f"should pass:\n{report}" if failed and not claimed else ""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box() as opened:
        yield opened


def graded(path: Path, box: Box) -> Report:
    program = Program.source([(path.name, path.read_text())])
    return grade(path.parent.name, program, SEED, box=box)


def marked(path: Path) -> object:
    """Every third of the ring in each run of the tests, the others among the slow."""
    is_quick = path.parent.name == "ring_all_reduce" and FILES.index(path) % 3 == 0
    marks = [] if is_quick else [pytest.mark.slow]
    return pytest.param(path, id=f"{path.parent.name}-{path.stem}", marks=marks)


@pytest.mark.parametrize("path", [marked(path) for path in FILES])
def test_the_check_says_what_the_zoo_knows(path: Path, box: Box) -> None:
    """A mutant fails by each property it names; an unusual solution has full marks."""
    assert not (why := disagreement(claim(path), graded(path, box))), why


@pytest.mark.parametrize("name", sorted({path.parent.name for path in FILES}))
def test_a_stub_has_no_points(name: str, box: Box) -> None:
    """What is handed out scores nothing."""
    assert graded(ZOO / name / "untouched_stub.py", box).points == 0


def test_a_wrong_claim_is_found(box: Box) -> None:
    """The test above fails where it should, in both directions."""
    right, wrong = (
        graded(ZOO / "ring_all_reduce" / f"{stem}.py", box)
        for stem in ("ok_plain", "casts_to_float32")
    )
    assert "should fail {'traffic'}" in disagreement({"traffic"}, right)
    assert "should fail {'traffic'}" in disagreement({"traffic", "dtypes"}, wrong)
    assert "should pass" in disagreement(set(), wrong)
    assert not disagreement({"dtypes"}, wrong)


@pytest.mark.parametrize("name", sorted({path.parent.name for path in FILES}))
def test_the_zoo_is_large_enough(name: str) -> None:
    """Every property has a mutant of its own, and every exercise its unusual ones."""
    claims = [claim(path) for path in FILES if path.parent.name == name]
    assert sum(map(bool, claims)) >= MUTANTS.get(name, 8)
    assert claims.count(set()) >= UNUSUAL.get(name, 4)
    every = {p.name for p in EXERCISES[name].properties}
    named = [c for c in claims if c != every]
    assert every <= set().union(*named), f"no mutant: {every - set().union(*named)}"


def test_every_exercise_in_code_is_in_the_zoo() -> None:
    """A function that is asked for has mutants; answers in numbers have none."""
    assert EXERCISES.keys() - {path.parent.name for path in FILES} == ANSWERS

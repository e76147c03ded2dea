"""The zoo: known mutants fail by the property they are named for, odd ones pass.

`zoo_programs` has the programs; a mutant fails at least each property of its claim.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from zoo_programs import ZooProgram, changed, zoo, zoo_program

from collectives_lab.checking import EXERCISES, Report, grade
from collectives_lab.wire import Box, Program

pytestmark = pytest.mark.slow

PROGRAMS = zoo()
NAMES = sorted({program.exercise for program in PROGRAMS})
SEED = "zoo"
MUTANTS, UNUSUAL = {"ring_all_reduce": 25}, {"ring_all_reduce": 8}
"""At least so many; of the other exercises 8 mutants and 4 unusual ones."""

ANSWERS = {"communication_ratio", "which_verb"}


def claimed(program: ZooProgram) -> set[str]:
    """Return the properties that a program claims to fail; none where it passes."""
    verdict, dash, why = program.claim.partition(" — ")
    assert dash and why, f"{program.name}: {program.claim!r} has no ' — ' with a reason"
    if verdict == "passes":
        return set()
    every = {p.name for p in EXERCISES[program.exercise].properties}
    named = verdict.removeprefix("fails: ")
    properties = every if named == "all" else set(named.split(", "))
    assert properties and properties <= every, f"{program.name}: {verdict!r} of {every}"
    return properties


def disagreement(claim: set[str], report: Report) -> str:
    """Return why a report is not what was claimed; empty if it is."""
    failed = {finding.name for finding in report.findings if not finding.passed}
    if claim - failed:
        return f"should fail {claim - failed}:\n{report}"
    return f"should pass:\n{report}" if failed and not claim else ""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box() as opened:
        yield opened


def graded(program: ZooProgram, box: Box) -> Report:
    source = Program.source([(f"{program.name}.py", program.source)])
    return grade(program.exercise, source, SEED, box=box)


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda program: f"{program.exercise}-{program.name}"
)
def test_the_check_says_what_the_zoo_knows(program: ZooProgram, box: Box) -> None:
    """A mutant fails by each property it names; an unusual solution has full marks."""
    assert not (why := disagreement(claimed(program), graded(program, box))), why


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_is_held_to_no_points(name: str) -> None:
    """What is handed out claims to fail every property, as the test above demands."""
    every = {p.name for p in EXERCISES[name].properties}
    assert claimed(zoo_program(name, "untouched_stub")) == every


def test_a_wrong_claim_is_found(box: Box) -> None:
    """The test above fails where it should, in both directions."""
    passing, failing = (
        graded(zoo_program("ring_all_reduce", name), box)
        for name in ("ok_plain", "casts_to_float32")
    )
    assert "should fail {'traffic'}" in disagreement({"traffic"}, passing)
    assert "should fail {'traffic'}" in disagreement({"traffic", "dtypes"}, failing)
    assert "should pass" in disagreement(set(), failing)
    assert not disagreement({"dtypes"}, failing)


@pytest.mark.parametrize(
    "diff, why",
    [
        (" a = 1\n-b = 2\n+b = 3\n", ""),
        ("-c = 4\n+c = 5\n", "fits 0 times"),
        ("-a = 1\n+a = 2\n", "fits 2 times"),
        ("-b = 2\n+b = 2\n", "changes nothing"),
        ("b = 2\n", "b = 2"),
    ],
)
def test_a_change_fits_once_and_changes_something(diff: str, why: str) -> None:
    """What no longer fits its right program is an error, and no mutant is lost."""
    source = "a = 1\nb = 2\na = 1\n"
    if not why:
        assert changed(source, diff) == "a = 1\nb = 3\na = 1\n"
        return
    with pytest.raises(AssertionError, match=why):
        changed(source, diff)


@pytest.mark.parametrize("name", NAMES)
def test_the_zoo_is_large_enough(name: str) -> None:
    """Every property has a mutant of its own, and every exercise its unusual ones."""
    claims = [claimed(program) for program in PROGRAMS if program.exercise == name]
    assert sum(map(bool, claims)) >= MUTANTS.get(name, 8)
    assert claims.count(set()) >= UNUSUAL.get(name, 4)
    every = {p.name for p in EXERCISES[name].properties}
    named = [c for c in claims if c != every]
    assert every <= set().union(*named), f"no mutant: {every - set().union(*named)}"


def test_every_exercise_in_code_is_in_the_zoo() -> None:
    """A function that is asked for has mutants; answers in numbers have none."""
    assert EXERCISES.keys() - set(NAMES) == ANSWERS

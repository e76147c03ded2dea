"""How a program is checked: its cases on sealed ranks, then each property's judgement.

Cases of one world size share their ranks until one breaks them; the rest gets fresh
ones. A case is left out once each property that it is for has failed, so a deadlock
costs little, and a loop ends the whole check: every other case would cost its deadline
again.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch

from collectives_lab.check.report import NOT_JUDGED, Finding, Report
from collectives_lab.check.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judge,
    Judgement,
    bad,
)
from collectives_lab.check.words import told
from collectives_lab.launch.errors import LabError
from collectives_lab.replay import Stuck
from collectives_lab.wire import Box, BoxError, Outcome, Program
from collectives_lab.wire.values import clean

FINAL = {"cpu", "wall", "idle", "memory", "flood", "late", "protocol"}
"""Failures after which nothing more is tried."""


class NotGradable(LabError):
    """The checker came to no verdict, which is not the same as no points."""


@dataclass(frozen=True, eq=False)
class Tried:
    """A case, its outcome, and what its result was worth."""

    case: Case
    outcome: Outcome
    result: Judgement


def in_its_world(exercise: Exercise, program: Program) -> Program:
    """The program behind what an exercise gives to it."""
    if not exercise.prelude:
        return program
    return program.after(f"the world of {exercise.name}", exercise.prelude)


def examine(
    exercise: Exercise, program: Program, box: Box, seed: str, student: str = ""
) -> Report:
    """Run all cases of an exercise in the box and judge them.

    Raises NotGradable where the box itself does not work.
    """
    program = in_its_world(exercise, program)
    cases = sorted(
        _strict(list(exercise.cases(Inputs(seed, student)))),
        key=lambda case: case.world_size,
    )
    try:
        tried = list(_try_all(exercise, cases, program, box))
    except BoxError as error:
        raise NotGradable(str(error)) from error
    findings = [
        _finding(exercise, p.name, cases, tried, program) for p in exercise.properties
    ]
    shown = _shown(tried)
    return Report(
        exercise.name,
        findings,
        box.description,
        seed,
        str(shown.case) if shown else "",
        clean(next((t.outcome.printed for t in tried if t.outcome.printed), "")),
        [_run(t) for t in tried],
        versions(),
        _note(program.modules),
        shown.outcome.trace if shown else None,
    )


def _strict(cases: Sequence[Case]) -> Sequence[Case]:
    """The cases, some of which refuse a write into a tensor that is sent or received.

    Those with a seed do: the property they are for is the one about time. Where there
    are none, all cases refuse it.
    """
    if any(case.schedule.seed is not None for case in cases):
        return cases
    return [replace(c, schedule=replace(c.schedule, strict=True)) for c in cases]


def _note(modules: Sequence[str]) -> str:
    """What a reader must know whose solution is not all in the notebook."""
    if not modules:
        return ""
    files, them = ", ".join(modules), "them" if len(modules) > 1 else "it"
    return (
        f"this includes code from {files}, which a grader does not get with the "
        f"notebook: before you hand in, copy what you use of {them} into your cell"
    )


def versions() -> dict[str, str]:
    """What a verdict depends on beside the program and the seed."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _try_all(
    exercise: Exercise, cases: Sequence[Case], program: Program, box: Box
) -> Iterator[Tried]:
    failed: set[str] = set()
    for _, group in groupby(cases, key=lambda case: case.world_size):
        left = list(group)
        while left := [c for c in left if not failed.issuperset(c.tests)]:
            count = 0
            for one in _on_fresh_ranks(exercise, left, program, box):
                count += 1
                yield one
                failed |= _failed_by(exercise, one)
                failure = one.outcome.failure
                if failure is not None and failure.kind in FINAL:
                    return
            left = left[count:]


def _on_fresh_ranks(
    exercise: Exercise, cases: Sequence[Case], program: Program, box: Box
) -> Iterator[Tried]:
    """Try cases of one world size up to the first that breaks the ranks."""
    with box.ranks(cases[0].world_size, program) as ranks:
        for case in cases:
            entry = case.entry or exercise.name
            outcome = ranks.call(entry, case.args, exercise.allowed, case.schedule)
            yield Tried(case, outcome, _judged(exercise.result, case, outcome))
            if outcome.failure is not None:
                return


def _failed_by(exercise: Exercise, one: Tried) -> set[str]:
    """The properties that a case has decided: it failed them."""
    return {name for name in one.case.tests if not _holds(exercise, name, one).holds}


def _judged(judge: Judge, case: Case, outcome: Outcome) -> Judgement:
    return GOOD if outcome.failure else judge(case, outcome)


def _holds(exercise: Exercise, name: str, one: Tried) -> Judgement:
    """Whether a property holds in one case; a failure of the run is told elsewhere."""
    if one.outcome.failure is not None:
        return bad("")
    judge = exercise.judges.get(name)
    if not one.result.holds:
        wrong = one.result.message
        return bad(f"{NOT_JUDGED}{wrong}") if judge else one.result
    try:
        return judge(one.case, one.outcome) if judge else GOOD
    except Stuck as error:
        return bad(
            f"right, but its run cannot be replayed: {error}. A replay takes the calls "
            "of a rank one after the other, of whatever thread they are; where a rank "
            "sends and receives at once, use isend and irecv"
        )


def _finding(
    exercise: Exercise,
    name: str,
    cases: Sequence[Case],
    tried: Sequence[Tried],
    program: Program,
) -> Finding:
    """Judge one property by all its cases; the smallest that fails speaks."""
    (prop,) = (p for p in exercise.properties if p.name == name)
    mine = [one for one in tried if name in one.case.tests]
    last = tried[-1].outcome.failure if tried else None
    all_tried = len(mine) == sum(name in case.tests for case in cases)
    said = GOOD
    for one in mine:
        judgement = _holds(exercise, name, one)
        said = judgement if judgement.message else said
        if not judgement.holds:
            failure, case = one.outcome.failure, str(one.case)
            message = clean(
                told(failure, program, one.case.about_ranks)
                if failure
                else judgement.message
            )
            measured = (list(judgement.sent), judgement.bound)
            return Finding(
                name, False, 0, prop.points, message, prop.title, case, *measured
            )
    if last is not None and not all_tried:
        message = clean(f"not tried to the end: {told(last, program)}")
        return Finding(name, False, 0, prop.points, message, prop.title)
    measured = (list(said.sent), said.bound)
    points = (prop.points, prop.points)
    return Finding(name, True, *points, said.message, prop.title, "", *measured)


def _shown(tried: Sequence[Tried]) -> Tried | None:
    """The run to draw: the smallest that failed, else the first on 4 ranks."""
    sent = [t for t in tried if len(t.outcome.trace)]
    wrong = [t for t in sent if t.outcome.failure or not t.result.holds]
    on_four = [t for t in sent if t.case.world_size == 4]
    return next(iter([*wrong, *on_four, *sent]), None)


def _run(one: Tried) -> dict[str, object]:
    """A line of the receipt."""
    sent = one.outcome.trace.bytes_sent() if len(one.outcome.trace) else []
    return {
        "case": str(one.case),
        "tests": list(one.case.tests),
        "failure": one.outcome.failure.kind if one.outcome.failure else "",
        "right": one.outcome.failure is None and one.result.holds,
        "bytes_sent": [round(n) for n in sent],
        "operations": len(one.outcome.trace),
    }

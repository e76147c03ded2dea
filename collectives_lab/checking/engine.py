"""How a program is checked: its cases on sealed ranks, then each property's judgement.

Cases of one world size share their ranks until one breaks them; the rest gets fresh
ones. A case is left out once each property that it is for has failed, so a deadlock
costs little, and a loop ends the whole check: every other case would cost its deadline
again. What ranks return is judged at once and not kept, so a check needs the memory of
one case. An error in a judge is a zero that names it, and that a person should look at.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch

from collectives_lab.basics.errors import LabError
from collectives_lab.checking.failure_words import told
from collectives_lab.checking.report import NOT_JUDGED, Finding, Report
from collectives_lab.checking.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.replay import Stuck
from collectives_lab.trace import Trace
from collectives_lab.wire import Box, BoxError, Failure, Outcome, Program
from collectives_lab.wire.codec import clean

SECONDS = 40.0
"""For all cases of one check together, and no more than the box gives to a session."""

NO_TRACE = Trace.from_events([], 1)

FINAL = {"cpu", "wall", "idle", "memory", "flood", "late", "protocol"}
"""Failures after which nothing more is tried."""


class NotGradable(LabError):
    """The checker came to no verdict, which is not the same as no points."""


@dataclass(frozen=True, eq=False)
class Tried:
    """A case, how it ended, and what is judged of it: its result, then by property.

    run: its line of the receipt.
    """

    case: Case
    failure: Failure | None
    result: Judgement
    judged: Mapping[str, Judgement]
    trace: Trace
    run: Mapping[str, Any]
    printed: str

    @property
    def to_show(self) -> int:
        """How well it is drawn, the lower the better: wrong, or on 4 ranks, or not."""
        if not len(self.trace):
            return 3
        if self.failure or not self.result.holds:
            return 0
        return 1 if self.case.world_size == 4 else 2


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
        return _report(exercise, cases, program, box, seed)
    except BoxError as error:
        raise NotGradable(str(error)) from error
    except Exception as error:  # of ours, with a student's values in play
        reason = f"the check failed on what the program sent or returned ({error!r})"
        return unjudged(exercise, reason, box, seed)


def _report(
    exercise: Exercise, cases: Sequence[Case], program: Program, box: Box, seed: str
) -> Report:
    """Try the cases and report on them; one of their runs is kept, to be drawn."""
    tried: list[Tried] = []
    shown: Tried | None = None
    for one in _try_all(exercise, cases, program, box):
        if one.to_show < (shown.to_show if shown else 3):
            shown = one
        tried.append(replace(one, trace=NO_TRACE))
    findings = [_finding(p, cases, tried, program) for p in exercise.properties]
    return Report(
        exercise.name,
        findings,
        box.description,
        seed,
        str(shown.case) if shown else "",
        clean(next((t.printed for t in tried if t.printed), "")),
        [t.run for t in tried],
        versions(),
        _note(program.modules),
        trace=shown.trace if shown else None,
    )


def unjudged(
    exercise: Exercise, reason: str, box: Box | None = None, seed: str = ""
) -> Report:
    """The zero of a submission whose check came to no end, for a person to look at."""
    message = clean(reason)
    findings = [
        Finding(p.name, False, 0, p.points, message, p.title)
        for p in exercise.properties
    ]
    tier = box.description if box else ""
    return Report(
        exercise.name, findings, tier, seed, versions=versions(), look=message
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
    deadline = time.monotonic() + SECONDS
    for _, group in groupby(cases, key=lambda case: case.world_size):
        left = list(group)
        while left := [c for c in left if not failed.issuperset(c.tests)]:
            count = 0
            for one in _on_fresh_ranks(exercise, left, program, box, deadline):
                count += 1
                yield one
                failed |= {name for name, said in one.judged.items() if not said.holds}
                if one.failure is not None and one.failure.kind in FINAL:
                    return
            left = left[count:]


def _on_fresh_ranks(
    exercise: Exercise,
    cases: Sequence[Case],
    program: Program,
    box: Box,
    deadline: float,
) -> Iterator[Tried]:
    """Try cases of one world size up to the first that breaks the ranks."""
    with box.ranks(cases[0].world_size, program, until=deadline) as ranks:
        for case in cases:
            entry = case.entry or exercise.name
            outcome = ranks.call(
                entry, case.args, exercise.allowed, case.schedule, case.outside
            )
            yield _tried(exercise, case, outcome)
            if outcome.failure is not None:
                return


def _tried(exercise: Exercise, case: Case, outcome: Outcome) -> Tried:
    """Judge an outcome, and keep of it what a report says."""
    failure = outcome.failure
    result = GOOD if failure else exercise.result(case, outcome)
    judged = {n: _judged(exercise, n, case, outcome, result) for n in case.tests}
    run = _run(case, outcome, result)
    return Tried(case, failure, result, judged, outcome.trace, run, outcome.printed)


def _judged(
    exercise: Exercise, name: str, case: Case, outcome: Outcome, result: Judgement
) -> Judgement:
    """Whether a property holds in one case; a failure of the run is told elsewhere."""
    if outcome.failure is not None:
        return bad("")
    judge = exercise.judges.get(name)
    if not result.holds:
        return bad(f"{NOT_JUDGED}{result.message}") if judge else result
    try:
        return judge(case, outcome) if judge else GOOD
    except Stuck as error:
        return bad(
            f"right, but its run cannot be replayed: {error}. A replay takes the calls "
            "of a rank one after the other, of whatever thread they are; where a rank "
            "sends and receives at once, use isend and irecv"
        )


def _finding(
    prop: Property, cases: Sequence[Case], tried: Sequence[Tried], program: Program
) -> Finding:
    """Judge one property by all its cases; the smallest that fails speaks."""
    name = prop.name
    mine = [one for one in tried if name in one.case.tests]
    last = tried[-1].failure if tried else None
    all_tried = len(mine) == sum(name in case.tests for case in cases)
    said = GOOD
    for one in mine:
        judgement = one.judged[name]
        said = judgement if judgement.message else said
        if not judgement.holds:
            failure, case = one.failure, str(one.case)
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


def _run(case: Case, outcome: Outcome, result: Judgement) -> Mapping[str, Any]:
    """A line of the receipt."""
    sent = outcome.trace.bytes_sent() if len(outcome.trace) else []
    return {
        "case": str(case),
        "tests": list(case.tests),
        "failure": outcome.failure.kind if outcome.failure else "",
        "right": outcome.failure is None and result.holds,
        "bytes_sent": [round(n) for n in sent],
        "operations": len(outcome.trace),
    }

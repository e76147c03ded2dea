"""The engine of a check: it runs the cases on sealed ranks and judges each property.

Cases of one world size share their ranks until one breaks them; the remaining cases get
fresh ranks. A case is skipped once every property that it tests has failed, so a
deadlock costs little. A loop ends the whole check, because every other case would cost
its deadline again. Results are judged at once and not kept, so a check needs the memory
of one case. An error in a judge gives a zero that names it and asks for a person.
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
from collectives_lab.checking.failure_messages import describe_failure
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
"""Limit for all cases of one check; the box gives a session no more than this."""

NO_TRACE = Trace.from_events([], 1)

FINAL = {"cpu", "wall", "idle", "memory", "flood", "late", "protocol"}
"""Kinds of failure after which no other case is run."""


class NotGradable(LabError):
    """The checker reached no verdict, which is not the same as no points."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A case that was run: its failure, if any, and its judgements.

    result: the judgement of its result. judgements: by property. run: its line of the
    receipt. printed: the output of the solution.
    """

    case: Case
    failure: Failure | None
    result: Judgement
    judgements: Mapping[str, Judgement]
    trace: Trace
    run: Mapping[str, Any]
    printed: str

    @property
    def drawing_order(self) -> int:
        """The preference for drawing this run: 0 if wrong, 1 on 4 ranks, 3 if empty."""
        if not len(self.trace):
            return 3
        if self.failure or not self.result.holds:
            return 0
        return 1 if self.case.world_size == 4 else 2


def with_prelude(exercise: Exercise, program: Program) -> Program:
    """Put the prelude of an exercise before a program."""
    if not exercise.prelude:
        return program
    return program.after(f"the world of {exercise.name}", exercise.prelude)


def examine(
    exercise: Exercise, program: Program, box: Box, seed: str, student: str = ""
) -> Report:
    """Run all cases of an exercise in the box and judge them.

    Raises NotGradable where the box itself does not work.
    """
    program = with_prelude(exercise, program)
    cases = sorted(
        _with_strict_case(list(exercise.cases(Inputs(seed, student)))),
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
    """Run the cases and report on them; one run keeps its trace for a drawing."""
    trials: list[Trial] = []
    drawn: Trial | None = None
    for trial in _try_all(exercise, cases, program, box):
        if trial.drawing_order < (drawn.drawing_order if drawn else 3):
            drawn = trial
        trials.append(replace(trial, trace=NO_TRACE))
    findings = [_finding(p, cases, trials, program) for p in exercise.properties]
    return Report(
        exercise.name,
        findings,
        box.description,
        seed,
        str(drawn.case) if drawn else "",
        clean(next((t.printed for t in trials if t.printed), "")),
        [t.run for t in trials],
        versions(),
        _note(program.modules),
        trace=drawn.trace if drawn else None,
    )


def unjudged(
    exercise: Exercise, reason: str, box: Box | None = None, seed: str = ""
) -> Report:
    """Return the zero of a submission whose check did not end, for a person to see."""
    message = clean(reason)
    findings = [
        Finding(p.name, False, 0, p.points, message, p.title)
        for p in exercise.properties
    ]
    tier = box.description if box else ""
    return Report(
        exercise.name, findings, tier, seed, versions=versions(), look=message
    )


def _with_strict_case(cases: Sequence[Case]) -> Sequence[Case]:
    """Have some cases refuse a write into a tensor that is being sent or received.

    Cases with a late schedule refuse it already, as their property is about time. If
    there are none, all cases refuse it.
    """
    if any(case.schedule.seed is not None for case in cases):
        return cases
    return [replace(c, schedule=replace(c.schedule, strict=True)) for c in cases]


def _note(modules: Sequence[str]) -> str:
    """Return a warning if a part of the solution is not in the notebook."""
    if not modules:
        return ""
    files, pronoun = ", ".join(modules), "them" if len(modules) > 1 else "it"
    return (
        f"this includes code from {files}, which a grader does not get with the "
        f"notebook: before you hand in, copy what you use of {pronoun} into your cell"
    )


def versions() -> dict[str, str]:
    """Return the versions on which a verdict depends."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _try_all(
    exercise: Exercise, cases: Sequence[Case], program: Program, box: Box
) -> Iterator[Trial]:
    failed: set[str] = set()
    deadline = time.monotonic() + SECONDS
    for _, group in groupby(cases, key=lambda case: case.world_size):
        remaining = list(group)
        while remaining := [c for c in remaining if not failed.issuperset(c.tests)]:
            count = 0
            for trial in _on_fresh_ranks(exercise, remaining, program, box, deadline):
                count += 1
                yield trial
                failed |= {
                    name
                    for name, judgement in trial.judgements.items()
                    if not judgement.holds
                }
                if trial.failure is not None and trial.failure.kind in FINAL:
                    return
            remaining = remaining[count:]


def _on_fresh_ranks(
    exercise: Exercise,
    cases: Sequence[Case],
    program: Program,
    box: Box,
    deadline: float,
) -> Iterator[Trial]:
    """Run cases of one world size up to the first that breaks the ranks."""
    with box.ranks(cases[0].world_size, program, until=deadline) as ranks:
        for case in cases:
            entry = case.entry or exercise.name
            outcome = ranks.call(
                entry, case.args, exercise.allowed, case.schedule, case.outside
            )
            yield _trial(exercise, case, outcome)
            if outcome.failure is not None:
                return


def _trial(exercise: Exercise, case: Case, outcome: Outcome) -> Trial:
    """Judge an outcome, and keep what the report needs."""
    failure = outcome.failure
    result = GOOD if failure else exercise.result(case, outcome)
    judgements = {n: _judgement(exercise, n, case, outcome, result) for n in case.tests}
    run = _run(case, outcome, result)
    return Trial(case, failure, result, judgements, outcome.trace, run, outcome.printed)


def _judgement(
    exercise: Exercise, name: str, case: Case, outcome: Outcome, result: Judgement
) -> Judgement:
    """Judge one property in one case; `_finding` describes a failure of the run."""
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
    prop: Property, cases: Sequence[Case], trials: Sequence[Trial], program: Program
) -> Finding:
    """Judge one property by all its cases, with the message of the smallest failure."""
    name = prop.name
    own_trials = [trial for trial in trials if name in trial.case.tests]
    last = trials[-1].failure if trials else None
    is_complete = len(own_trials) == sum(name in case.tests for case in cases)
    overall = GOOD
    for trial in own_trials:
        judgement = trial.judgements[name]
        overall = judgement if judgement.message else overall
        if not judgement.holds:
            failure, case = trial.failure, str(trial.case)
            message = clean(
                describe_failure(failure, program, trial.case.about_ranks)
                if failure
                else judgement.message
            )
            measured = (list(judgement.sent), judgement.bound)
            return Finding(
                name, False, 0, prop.points, message, prop.title, case, *measured
            )
    if last is not None and not is_complete:
        message = clean(f"not tried to the end: {describe_failure(last, program)}")
        return Finding(name, False, 0, prop.points, message, prop.title)
    measured = (list(overall.sent), overall.bound)
    points = (prop.points, prop.points)
    return Finding(name, True, *points, overall.message, prop.title, "", *measured)


def _run(case: Case, outcome: Outcome, result: Judgement) -> Mapping[str, Any]:
    """Return the line of a case in the receipt."""
    sent = outcome.trace.bytes_sent() if len(outcome.trace) else []
    return {
        "case": str(case),
        "tests": list(case.tests),
        "failure": outcome.failure.kind if outcome.failure else "",
        "right": outcome.failure is None and result.holds,
        "bytes_sent": [round(n) for n in sent],
        "operations": len(outcome.trace),
    }

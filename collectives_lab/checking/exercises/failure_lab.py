"""failure_lab(recordings) -> {case: diagnosis}: the faults of seven recorded jobs.

The recordings and their faults follow from the student's id (`failure_recordings`); two
come as dump files (`failure_dumps`). A
check that names the right parts of an answer can be repeated until all are right, so
the written reasons, which a person reads, are worth as much as two cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from collectives_lab.checking import failure_dumps, failure_recordings
from collectives_lab.checking.answers import holds_for
from collectives_lab.checking.failure_recordings import KINDS, Fault
from collectives_lab.checking.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judge,
    Judgement,
    Property,
    bad,
)
from collectives_lab.checking.tensors import kind_of
from collectives_lab.wire import Outcome

PRELUDE = """
def _lab_of_the_check(records):
    recordings = {}
    for record in records:  # in one list: values do not travel much deeper
        recordings.setdefault(record.pop("case"), []).append(record)
    return failure_lab(recordings)
"""

CASES = (*failure_recordings.CASES, *failure_dumps.CASES)

FIELDS = {"kind": str, "rank": int, "step": int, "line": int}
"""The fields of an answer, and their types."""

WOULD_SHOW = {
    "skipped": "in one step one rank has no record of a line, and has one of a later",
    "swapped": "one rank has records of the same lines as the others, in another order",
    "size": "in one call one rank has other bytes than the others",
    "root": "in one call one rank has another root than the others",
    "tag": "one end of a message has another tag than its step",
    "stopped": "the last record of one rank is a computation that has no end",
    "slow": "every call ends, and one rank needs longer for a line from a step on",
}
"""By kind of fault, what a recording of it shows; for a student who named it."""


def _cases(inputs: Inputs) -> Iterator[Case]:
    owner = inputs.owner
    faults = failure_recordings.seeded(inputs.student)
    faults |= failure_dumps.seeded(inputs.student)
    data = {"faults": faults, "owner": owner}
    tests = [f"{case}_{part}" for case in CASES for part in PARTS]
    label = f"the recordings of {owner}"
    records = [
        {"case": case} | record
        for case, trace in failure_recordings.recordings(inputs.student).items()
        for record in failure_recordings.records(trace)
    ]
    records += [
        {"case": case} | record
        for case, found in failure_dumps.records(inputs.student).items()
        for record in found
    ]
    entry = "_lab_of_the_check"
    yield Case([(records,)], tests, label, data, entry=entry, about_ranks=False)


def _result(case: Case, outcome: Outcome) -> Judgement:
    (answers,) = outcome.results
    if isinstance(answers, dict):
        return GOOD
    return bad(f"it returns {kind_of(answers)}, not a dict of answers")


def _judge(name: str, judge_part: Any, case: Case, outcome: Outcome) -> Judgement:
    """Judge a part of the answer for one recording, if there is an answer."""
    answers: dict[str, Any] = outcome.results[0]
    answer = answers.get(name)
    if answer is None:
        return bad("there is no answer yet")
    if not isinstance(answer, dict):
        return bad(f"the answer is {kind_of(answer)}, not a dict with {_list(FIELDS)}")
    complaint = judge_part(answer, case.data["faults"][name])
    if isinstance(complaint, str):
        return bad(complaint)
    return GOOD


def _judge_first(case: Case, outcome: Outcome) -> Judgement:
    """Judge the first part of the first answer; name the owner of the recordings."""
    judged = _judge(CASES[0], _kind, case, outcome)
    if not judged.holds:
        return judged
    return holds_for(case.data["owner"], "in the recordings")


def _why_no_value(answer: dict[str, Any], field: str) -> str:
    """Explain why a field is missing or has the wrong type; empty if it is right."""
    if field not in answer:
        return f"the answer has no {field!r}"
    value = answer[field]
    if isinstance(value, bool) or not isinstance(value, FIELDS[field]):
        expected = "a name in quotation marks" if field == "kind" else "a whole number"
        return f"{field!r} is {kind_of(value)}, not {expected}"
    return ""


def _kind(answer: dict[str, Any], fault: Fault) -> str | None:
    if wrong := _why_no_value(answer, "kind"):
        return wrong
    kind = answer["kind"]
    if kind not in KINDS:
        return f"{kind[:40]!r} is none of the kinds: {_list(KINDS)}"
    if kind != fault.kind:
        return f"if it were {kind!r}: {WOULD_SHOW[kind]}. That is not to be seen here"
    return None


def _rank(answer: dict[str, Any], fault: Fault) -> str | None:
    if wrong := _why_no_value(answer, "rank"):
        return wrong
    if answer["rank"] != fault.rank:
        return (
            f"rank {answer['rank']} does what the program says; if it waits or others "
            "wait for it, for whom does it wait itself?"
        )
    return None


def _place(answer: dict[str, Any], fault: Fault) -> str | None:
    for field in ("step", "line"):
        if wrong := _why_no_value(answer, field):
            return wrong
    step, line = answer["step"], answer["line"]
    if step == fault.step and line in fault.lines:
        return None
    if fault.kind == "slow" and step > fault.step and line == fault.line:
        return f"in step {step} line {line} takes longer, but not for the first time"
    return (
        f"in step {step} all ranks do in line {line} what the program says; the first "
        "step is step 0, and a cause comes before what it leads to"
    )


def _list(names: Any) -> str:
    return ", ".join(names)


PARTS = {
    "kind": ("which of the seven faults it is", _kind),
    "rank": ("the rank that it is on", _rank),
    "place": ("the step and the line", _place),
}


def _judges() -> Iterator[tuple[str, Judge]]:
    for case in CASES:
        for part, (_, judge_part) in PARTS.items():
            yield f"{case}_{part}", partial(_judge, case, judge_part)


def _what(case: str) -> str:
    return "dumps" if case in failure_dumps.CASES else "recording"


EXERCISE = Exercise(
    "failure_lab",
    "What went wrong?",
    "medium",
    75,
    [
        Property(f"{case}_{part}", 1, f"{_what(case)} {case}: {title}")
        for case in CASES
        for part, (title, _) in PARTS.items()
    ],
    _cases,
    _result,
    dict(_judges()) | {f"{CASES[0]}_kind": _judge_first},
    prelude=PRELUDE,
)

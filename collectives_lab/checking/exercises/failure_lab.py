"""failure_lab(recordings, dumps) -> {case: diagnosis}: the faults of seven jobs.

Five jobs were recorded, and of two there are Flight Recorder dumps. All faults follow
from the student's id (`failure_recordings`, `failure_dumps`). A check that names the
right parts of an answer can be repeated until all are right, so the written reasons,
which a person reads, are worth as much as two cases.

A student may ask `lab.explain` about the dumps, as one does at work, since the answers
are typed in a notebook that nobody watches. It does not answer in the words asked for
here: the kinds say what the rank did, the line and the number which call shows it
first. The function gets the dumps as values, and a person reads the chain of waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from collectives_lab.checking import failure_dumps, failure_recordings
from collectives_lab.checking.failure_dumps import Fault as DumpFault
from collectives_lab.checking.failure_recordings import CASES, Fault
from collectives_lab.checking.plain_answers import holds_for
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

AnyFault = Fault | DumpFault

PRELUDE = """
def _lab_of_the_check(records, files):
    import json, pickle

    recordings, dumps = {}, {}
    for record in records:  # in one list: values do not travel much deeper
        recordings.setdefault(record.pop("case"), []).append(record)
    for case, content in files:
        content = content.numpy().tobytes()
        load = json.loads if content.startswith(b"{") else pickle.loads
        dumps.setdefault(case, []).append(load(content))
    return failure_lab(recordings, dumps)
"""

FIELDS = {"kind": str, "rank": int, "step": int, "line": int}
"""The fields of an answer about a recording, and their types."""

FIELDS_OF_DUMPS = {"kind": str, "rank": int, "line": int, "group": str, "number": int}
"""The fields of an answer about dumps, and their types."""

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

DUMPS_WOULD_SHOW = {
    "stopped": "one rank has no entry of a call, and none of any later call",
    "skipped": "one rank has no entry of a call, and has one of a later call",
    "size": "at one number of a group one rank has other sizes than the others",
    "dtype": "at one number of a group one rank has another dtype than the others",
}
"""By kind of fault, what dumps of it show; for a student who named it."""


def _cases(inputs: Inputs) -> Iterator[Case]:
    owner = inputs.owner
    faults = failure_recordings.seeded(inputs.student)
    data = {"faults": faults | failure_dumps.seeded(inputs.student), "owner": owner}
    tests = [f"{case}_{part}" for case, parts in _asked() for part in parts]
    label = f"the recordings of {owner}"
    records = [
        {"case": case} | record
        for case, trace in failure_recordings.recordings(inputs.student).items()
        for record in failure_recordings.records(trace)
    ]
    files = [
        (case, torch.frombuffer(bytearray(content), dtype=torch.uint8))
        for case, by_name in failure_dumps.files(inputs.student).items()
        for content in by_name.values()
    ]
    entry = "_lab_of_the_check"
    yield Case([(records, files)], tests, label, data, entry=entry, about_ranks=False)


def _result(case: Case, outcome: Outcome) -> Judgement:
    (answers,) = outcome.results
    if isinstance(answers, dict):
        return GOOD
    return bad(f"it returns {kind_of(answers)}, not a dict of answers")


def _judge(name: str, judge_part: Any, case: Case, outcome: Outcome) -> Judgement:
    """Judge a part of the answer for one job, if there is an answer."""
    answers: dict[str, Any] = outcome.results[0]
    answer = answers.get(name)
    if answer is None:
        return bad("there is no answer yet")
    if not isinstance(answer, dict):
        fields = FIELDS if name in CASES else FIELDS_OF_DUMPS
        return bad(f"the answer is {kind_of(answer)}, not a dict with {_list(fields)}")
    complaint = judge_part(answer, case.data["faults"][name])
    if isinstance(complaint, str):
        return bad(complaint)
    return GOOD


def _judge_first(case: Case, outcome: Outcome) -> Judgement:
    """Judge the first part of the first answer; name the owner of the recordings."""
    judged = _judge(CASES[0], PARTS["kind"][1], case, outcome)
    if not judged.holds:
        return judged
    return holds_for(case.data["owner"], "in the recordings")


def _why_no_value(answer: dict[str, Any], field: str) -> str:
    """Explain why a field is missing or has the wrong type; empty if it is right."""
    if field not in answer:
        return f"the answer has no {field!r}"
    value, kind = answer[field], (FIELDS | FIELDS_OF_DUMPS)[field]
    if isinstance(value, bool) or not isinstance(value, kind):
        expected = "a name in quotation marks" if kind is str else "a whole number"
        return f"{field!r} is {kind_of(value)}, not {expected}"
    return ""


def _kind(
    would_show: dict[str, str], answer: dict[str, Any], fault: AnyFault
) -> str | None:
    if wrong := _why_no_value(answer, "kind"):
        return wrong
    kind = answer["kind"]
    if kind not in would_show:
        return f"{kind[:40]!r} is none of the kinds: {_list(would_show)}"
    if kind != fault.kind:
        return f"if it were {kind!r}: {would_show[kind]}. That is not to be seen here"
    return None


def _rank(answer: dict[str, Any], fault: AnyFault) -> str | None:
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


def _line(answer: dict[str, Any], fault: DumpFault) -> str | None:
    if wrong := _why_no_value(answer, "line"):
        return wrong
    if answer["line"] != fault.line:
        return (
            f"in line {answer['line']} nothing is wrong; asked for is the line of the "
            "call that was left out, never made or made otherwise, not where one waits"
        )
    return None


def _evidence(answer: dict[str, Any], fault: DumpFault) -> str | None:
    for field in ("group", "number"):
        if wrong := _why_no_value(answer, field):
            return wrong
    group, number = answer["group"], answer["number"]
    if (group, number) == (fault.group, fault.number):
        return None
    if group == fault.group and number > fault.number:
        return f"call {number} of group {group} comes after the first that shows it"
    return (
        f"call {number} of group {group[:40]!r} is not the first that shows it: the "
        "first in the order of the program whose entry is missing on one rank of the "
        "group, or differs from those of the others"
    )


def _list(names: Any) -> str:
    return ", ".join(names)


PARTS = {
    "kind": ("which of the seven faults it is", partial(_kind, WOULD_SHOW)),
    "rank": ("the rank that it is on", _rank),
    "place": ("the step and the line", _place),
}

PARTS_OF_DUMPS = {
    "kind": ("which of the four faults it is", partial(_kind, DUMPS_WOULD_SHOW)),
    "rank": ("the rank that it is on", _rank),
    "line": ("the line of its call", _line),
    "evidence": ("the group and the number of the first call that shows it", _evidence),
}


def _asked() -> Iterator[tuple[str, dict[str, tuple[str, Any]]]]:
    """Return the parts of an answer, by case."""
    for case in CASES:
        yield case, PARTS
    for case in failure_dumps.CASES:
        yield case, PARTS_OF_DUMPS


def _properties() -> Iterator[Property]:
    for case, parts in _asked():
        what = "recording" if case in CASES else "dumps"
        for part, (title, _) in parts.items():
            yield Property(f"{case}_{part}", 1, f"{what} {case}: {title}")


def _judges() -> Iterator[tuple[str, Judge]]:
    for case, parts in _asked():
        for part, (_, judge_part) in parts.items():
            yield f"{case}_{part}", partial(_judge, case, judge_part)


EXERCISE = Exercise(
    "failure_lab",
    "What went wrong?",
    "medium",
    80,
    list(_properties()),
    _cases,
    _result,
    dict(_judges()) | {f"{CASES[0]}_kind": _judge_first},
    prelude=PRELUDE,
)

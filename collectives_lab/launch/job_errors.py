"""The errors of a job: of all that went wrong, the one that the reader should see."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from collectives_lab.basics import source_lines
from collectives_lab.basics.errors import (
    DeadlineExceeded,
    Deadlock,
    LabError,
    Mismatch,
    RankDied,
    RankError,
)
from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.basics.source_lines import in_line
from collectives_lab.launch.processes.job import Outcome
from collectives_lab.launch.rank.channel import unpack
from collectives_lab.recorder.reader_traceback import is_readers

MOST_CHARACTERS = 10_000
"""Characters of a traceback's beginning, and again of its end, that are shown."""

_SIGNALS = {
    "SIGSEGV": "it touched memory that is not its own, as broken C++ code does",
    "SIGBUS": "it touched memory that is not there; is /dev/shm full?",
    "SIGABRT": "a C++ library gave up; what it printed says why",
    "SIGKILL": "somebody killed it; if nobody did, the machine ran out of memory",
    "SIGTERM": "somebody asked it to end",
    "SIGFPE": "an integer was divided by zero in C++ code",
    "SIGILL": "the processor does not know an instruction of a library",
    "SIGXCPU": "it used up its processor time",
    "SIGINT": "somebody interrupted it",
}


_CURES = {
    "(has to|must) be contiguous$": (
        "Gloo takes only tensors whose elements lie one after the other: send "
        "x.contiguous(), and copy what such a tensor receives back to x."
    ),
    "^Global rank .* is not part of group": (
        "src, dst and root are ranks of the world, and must be among the group's; "
        "group_src and group_dst count within the group."
    ),
}
"""What to do about errors of torch that do not say it themselves, by their words."""


def error_of(
    outcome: Outcome, world_size: int, timeout: float, is_emulated: bool = False
) -> LabError:
    """Return the error of what went wrong first; the rest follows from it.

    is_emulated: whether the ranks feel a network that is emulated.
    """
    if outcome.mismatched:
        return _mismatch(outcome, min(outcome.mismatched))
    if outcome.deaths:
        return _died(outcome, world_size)
    failed = {r: rep for r, rep in outcome.reports.items() if "failed_at" in rep}
    if failed:
        return _failed(outcome, failed, world_size)
    if outcome.deadlock:
        return Deadlock(outcome.deadlock[1], outcome.deadlock[0])
    return _late(outcome, world_size, timeout, is_emulated)


def _mismatch(outcome: Outcome, rank: int) -> Mismatch:
    report = outcome.mismatched[rank]
    calls: dict[tuple[str, str], list[int]] = {}
    for r, (text, where) in sorted(outcome.described.items()):
        calls.setdefault((text, where), []).append(r)
    lines = []
    for (text, where), ranks in calls.items():
        verb = "calls" if len(ranks) == 1 else "call"
        lines.append(f"  {name_ranks(ranks)} {verb} {text}{in_line(where)}")
    ops = {text.split("(")[0] for text, _ in calls}
    if ops <= {"send", "recv"}:
        head = "a send does not fit the recv that it meets:"
        cure = "Both need the same number of elements and the same dtype."
    elif len(ops) > 1:
        number = report["number"]
        head = f"ranks make different collectives at the same place, number {number}:"
        cure = "All ranks of a group must call the same collectives in the same order."
    else:
        head = f"ranks disagree about a collective, number {report['number']}:"
        cure = "All ranks must agree on shape, dtype, root and reduce op."
        if any("sends [" in text for text, _ in calls):
            cure = (
                "What a rank sends to another, that rank must take from it: compare "
                "input_split_sizes of one with output_split_sizes of the other."
            )
    ranks = sorted(outcome.described) or [rank]
    return Mismatch("\n".join([head, *lines, cure]), ranks)


def _other_ranks(outcome: Outcome, ranks: Sequence[int], failed: int) -> str:
    """Return what became of the ranks that have not failed themselves."""
    if not ranks:
        return ""
    waiting = [r for r in ranks if outcome.progress.get(r, {}).get("waiting")]
    verb = "was" if len(ranks) == 1 else "were"
    if len(waiting) == len(ranks):
        did = f"{verb} waiting and {verb} stopped"
    else:
        did = f"{verb} stopped"
    sentence = f"{name_ranks(ranks)} {did} because rank {failed} failed"
    return f"{sentence[0].upper()}{sentence[1:]}."


def _failed(outcome: Outcome, failed: dict[int, Any], world_size: int) -> RankError:
    first = min(
        failed, key=lambda r: (failed[r]["kind"] == "stopped", failed[r]["failed_at"])
    )
    report = failed[first]
    same_error = [
        r
        for r, other in failed.items()
        if all(other[k] == report[k] for k in ("type", "where", "kind"))
    ]
    everyone = len(same_error) == world_size > 1
    subject = (
        f"all {world_size} ranks"
        if everyone
        else f"{name_ranks(same_error)} of {world_size}"
    )
    text = f"{subject} failed{in_line(report['where'])}\n\n"
    if report["kind"] == "exit":
        code = report["message"] or "0"
        text = (
            f"{subject} left by sys.exit({code}){in_line(report['where'])}. A rank "
            "ends by returning; return a value instead."
        )
    elif report["kind"] == "unsendable":
        text = f"{subject}: {report['message']}."
    else:
        for words, cure in _CURES.items():
            if re.search(words, report["message"]):
                text += f"{cure}\n\n"
        text += _shortened(source_lines.in_words(report["traceback"]).rstrip())
    later = [
        r for r in failed if r not in same_error and failed[r]["kind"] != "stopped"
    ]
    if later:
        text += f"\n\n{name_ranks(later).capitalize()} failed too: " + "; ".join(
            f"rank {r} with {failed[r]['type']}: {failed[r]['message'][:200]}"
            for r in sorted(later)[:4]
        )
    stopped = sorted(
        set(outcome.pending) | {r for r in failed if failed[r]["kind"] == "stopped"}
    )
    sentence = _other_ranks(outcome, [r for r in stopped if r not in same_error], first)
    if sentence:
        text += f"\n\n{sentence}"
    return RankError(text, first, report["where"], _cause(outcome, first))


def _shortened(text: str) -> str:
    """Return a text without its middle, if nobody would read all of it."""
    left_out = len(text) - 2 * MOST_CHARACTERS
    if left_out <= 0:
        return text
    note = f"\n[... {left_out} characters left out ...]\n"
    return text[:MOST_CHARACTERS] + note + text[-MOST_CHARACTERS:]


def _cause(outcome: Outcome, rank: int) -> BaseException | None:
    with contextlib.suppress(Exception):
        cause = unpack(outcome.results[rank])
        return cause if isinstance(cause, BaseException) else None
    return None


def _died(outcome: Outcome, world_size: int) -> RankDied:
    # A rank that aborts takes others with it by closed connections; an own exit says
    # more.
    rank = min(outcome.deaths, key=lambda r: (r not in outcome.leaving, r))
    status = outcome.deaths[rank]
    where = ""
    if rank in outcome.leaving:
        code, where = outcome.leaving[rank]
        how = f"ended its process by os._exit({code})"
    elif isinstance(status, str):
        how = status
    elif status < 0:
        name = _signal_name(-status)
        how = f"died by {name}"
        meaning = _SIGNALS.get(name)
        where = _crash_line(outcome.output[rank].text())
        if meaning:
            how += f" ({meaning})"
    else:
        how = f"ended its process with status {status}"
    text = f"rank {rank} of {world_size} {how}{in_line(where)}."
    if not where and outcome.last_line.get(rank):
        text += f" Its last communication call was in line {outcome.last_line[rank]}."
    other_deaths = [r for r in outcome.deaths if r != rank]
    if other_deaths:
        text += f" {name_ranks(other_deaths).capitalize()} died too."
    sentence = _other_ranks(
        outcome, [r for r in outcome.ranks if r not in outcome.deaths], rank
    )
    error = RankDied(f"{text}\n{sentence}" if sentence else text, rank, where)
    error.status = status if isinstance(status, int) else 0
    return error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _crash_line(printed: str) -> str:
    """Return the reader's line in what faulthandler printed when the rank crashed."""
    _, marker, dump = printed.rpartition("(most recent call first):")
    for file, line in re.findall(r'File "([^"]+)", line (\d+)', dump if marker else ""):
        if is_readers(file):
            return f"{file}:{line}"
    return ""


def places(ranks: Sequence[int], progress: Mapping[int, Any]) -> list[str]:
    """Return a line for each different place of ranks, by what they have answered."""
    by_state: dict[tuple[str, str], list[int]] = {}
    waits = [seen["waiting"][0] for seen in progress.values() if seen["waiting"]]
    # What differs between them may be why they wait.
    differ = len({w.text for w in waits}) > 1
    in_groups = len({w.group for w in waits}) > 1
    for rank in ranks:
        seen = progress.get(rank)
        if seen is None:
            key = ("no answer", "")
        elif seen["waiting"]:
            wait = seen["waiting"][0]
            call = wait.text if differ else wait.op
            group = f" of group {wait.group}" if in_groups and wait.text else ""
            key = (f"waiting in {call}{group}", wait.where)
        else:
            state = "waiting" if seen.get("sleeps") else "busy"
            key = (state, seen["where"]) if seen["where"] else ("in a library", "")
        by_state.setdefault(key, []).append(rank)
    return [
        f"  {name_ranks(alike)}: {state}{in_line(place)}"
        for (state, place), alike in by_state.items()
    ]


def _late(
    outcome: Outcome, world_size: int, timeout: float, is_emulated: bool
) -> DeadlineExceeded:
    pending = outcome.pending
    verb = "was" if len(pending) == 1 else "were"
    # All may have ended while they were asked where they are.
    subject = f"{name_ranks(pending)} of {world_size}" if pending else "the ranks"
    lines = [f"{subject} {verb} not done after {timeout:g} s{':' if pending else '.'}"]
    lines += places(pending, outcome.progress)
    waits = [w for seen in outcome.progress.values() for w in seen["waiting"][:1]]
    if len({w.group for w in waits}) > 1:
        lines.append(
            "They wait in different groups: ranks that are in several must use them in "
            "the same order, also from threads."
        )
    if is_emulated:
        lines.append(
            "Their network is emulated (fabric=); what they send may take that long."
        )
    text = "\n".join(lines)
    cure = (
        "If it needs longer, give it more seconds: timeout=... in a call, --timeout in "
        "a %%ranks line, or `%ranks --timeout` for all %%ranks cells from there on."
    )
    first = pending[0] if pending else 0
    seen_first = outcome.progress.get(first) or {}
    line = seen_first.get("where", "")
    error = DeadlineExceeded(f"{text}\n{cure}", first, line)
    error.fact = text
    return error

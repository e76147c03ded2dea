"""Call order: that in which a rank always made its calls, and the rank that departs.

A rank that leaves out a call of one group and goes on to a call of another one closes a
circle of waits, in which each rank is in the way of the next. The past of the ranks
tells them apart: here `odd_one` finds the one rank of a circle that makes another call
than it always did, while the other ranks do as ever, and `odd_message` a rank that
waits for another one than it always did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.mismatch import peer_of
from collectives_lab.diagnosis.phrases import call_text
from collectives_lab.diagnosis.verdict import Verdict, short_ranks
from collectives_lab.diagnosis.waits import Graph
from collectives_lab.formats.flight_recorder import Call

BEFORE = 2
"""Calls in a row that a habit follows on."""

OFTEN = 2
"""Times that a rank must have done the same before it is a habit."""


@dataclass(frozen=True)
class Departure:
    """A rank made a call after `before`, where it had always made `usual`."""

    rank: int
    before: tuple[Call, ...]
    usual: Call
    made: Call
    times: int


def odd_one(job: Job, graph: Graph, circling: Sequence[int]) -> Verdict | None:
    """Judge a circle by the one rank that departs from its past; None without one.

    Two further ranks at least must have done as ever where this one departs. Of two
    ranks that differ, nobody can say which one is wrong; and where others depart in the
    same way, the program may have come to another part.
    """
    departures = [_departure(job, graph, rank, circling) for rank in circling]
    odd = [departure for departure in departures if departure is not None]
    if len(odd) != 1:
        return None
    (only,) = odd
    others = set(job.calls) - job.stale - {only.rank}
    as_ever = [_does_as_ever(job.calls[rank], only) for rank in others]
    if False in as_ever or as_ever.count(True) < 2:
        return None
    rank, group = only.rank, job.group_name(only.usual.group)
    return Verdict(
        "order",
        [rank],
        answer=f"Rank {rank} likely left out a call of group {group}, or makes it too "
        f"late: {call_text(only.usual)}.",
        lines={rank: only.made.where} if only.made.where else {},
        reasons=[
            f"likely: after {' and '.join(map(call_text, only.before))}, rank {rank} "
            f"made that call all {only.times} times before, and this time it makes "
            f"{call_text(only.made)}",
            f"{as_ever.count(True)} other ranks make the usual call there, and no "
            "other rank departs from its past",
        ],
    )


def odd_message(job: Job, graph: Graph, sinks: Sequence[int]) -> Verdict | None:
    """Judge ranks that others wait for in messages such as they never exchanged before.

    So it is where a rank waits for another one than it always did. If its usual partner
    waits for it meanwhile, that rank is the odd one; else nobody knows.
    """
    waiting = [r for r in graph.at if {*graph.absent[r]} & {*sinks}]
    if not waiting or not all(_is_first(job, graph, r, sinks) for r in waiting):
        return None
    rank, call = waiting[0], graph.at[waiting[0]]
    peer = peer_of(job, call)
    way = "to" if call.verb == "send" else "from"
    past = [c for c in job.calls[rank] if c.verb == call.verb and c.over]
    usual = {peer_of(job, c) for c in past}
    reasons = [f"no earlier {call.verb} of rank {rank} was {way} rank {peer}"]
    for other in usual if len(waiting) == len(usual) == 1 else ():
        theirs = graph.at.get(other) if other is not None else None
        if theirs is not None and theirs.is_p2p and peer_of(job, theirs) == rank:
            reasons.append(
                f"likely: all {len(past)} were {way} rank {other}, which waits for it "
                f"in a {theirs.verb}"
            )
            return Verdict(
                "order",
                [rank],
                answer=f"Rank {rank} likely waits in a {call.verb} {way} the wrong "
                f"rank: {way} rank {peer} instead of rank {other}.",
                lines={rank: call.where} if call.where else {},
                reasons=reasons,
            )
    return Verdict(
        "unknown",
        answer=f"Rank {rank} waits in a {call.verb} {way} rank {peer}, to whose other "
        "side that rank has not come yet, or never will.",
        reasons=reasons,
        decides=f"a py-spy dump of {short_ranks(sinks)}",
    )


def _is_first(job: Job, graph: Graph, rank: int, sinks: Sequence[int]) -> bool:
    """Return whether a rank's message is the first one of the two, of many others."""
    call = graph.at[rank]
    peer = peer_of(job, call)
    if not call.is_p2p or peer is None or peer not in sinks or peer in job.stacks:
        return False
    own_calls = [c for c in job.calls[rank] if c.verb == call.verb and c.over]
    theirs = [c for c in job.calls.get(peer, ()) if c.is_p2p]
    is_known = any(peer_of(job, c) == peer for c in own_calls)
    return not is_known and len(own_calls) >= OFTEN and len(theirs) >= OFTEN


def _departure(
    job: Job, graph: Graph, rank: int, circling: Sequence[int]
) -> Departure | None:
    """Return where a rank departs from its past, and is waited for in the usual call.

    Only collectives count as left out: a message has no number that says so.
    """
    wanted = [
        graph.at[other]
        for other in circling
        if rank in graph.absent[other] and not graph.at[other].is_p2p
    ]
    calls = job.calls[rank]
    calls = calls[: calls.index(graph.at[rank]) + 1]
    followed: dict[tuple, list[Call]] = defaultdict(list)
    for n in range(BEFORE, len(calls)):
        before = calls[n - BEFORE : n]
        past = followed[tuple(map(_key, before))]
        is_habit = len(past) >= OFTEN and len({*map(_key, past)}) == 1
        if is_habit and _key(past[0]) != _key(calls[n]):
            number = max(c.number for c in calls[:n] if c.group == past[0].group) + 1
            if any(_is_call(call, past[0], number) for call in wanted):
                return Departure(rank, before, past[-1], calls[n], len(past))
        past.append(calls[n])
    return None


def _is_call(call: Call, usual: Call, number: int) -> bool:
    """Return whether others wait in what would have been a rank's usual call."""
    same = (call.group, call.verb, call.where) == (usual.group, usual.verb, usual.where)
    return same and call.number == number


def _key(call: Call) -> tuple:
    """Return what is the same each time that a rank makes a call."""
    return (call.group, call.peer, *_act(call))


def _act(call: Call) -> tuple:
    """Return what is the same on all ranks that make a call of their groups."""
    return call.verb, call.inputs, call.outputs, call.where


def _does_as_ever(calls: Sequence[Call], only: Departure) -> bool | None:
    """Return whether a rank went on in the usual way; None if it was never there.

    A rank is there when its calls are those before the departure, in groups that are
    different or the same as those are.
    """
    before = _pattern(only.before)
    for n in range(len(calls) - 1, BEFORE - 1, -1):
        if _pattern(calls[n - BEFORE : n]) == before:
            window = calls[n - BEFORE : n + 1]
            return _pattern(window) == _pattern((*only.before, only.usual))
    return None


def _pattern(calls: Sequence[Call]) -> list[tuple]:
    """Return calls with their groups numbered in the order in which they appear."""
    groups = list(dict.fromkeys(call.group for call in calls))
    return [(groups.index(call.group), *_act(call)) for call in calls]

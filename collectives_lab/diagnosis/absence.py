"""Absent ranks: what a rank is doing while the others wait for it.

A rank that does not come may be in other code, dead, late, or in a message that Gloo
does not record. Here `judge_sinks` says which, from whatever else is known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collectives_lab.diagnosis import (
    call_order,
    code_place,
    phrases,
    still_running,
    stragglers,
)
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.verdict import Verdict, short_ranks
from collectives_lab.diagnosis.waits import Graph


def judge_sinks(job: Job, graph: Graph) -> Verdict | None:
    """Judge the ranks that are waited for and do not wait; None without one."""
    sinks = graph.sinks()
    if not sinks:
        return None
    unknown = [rank for rank in sinks if rank in job.missing]
    seen = [rank for rank in sinks if rank not in job.missing]
    with_stack = [
        rank
        for rank in sinks
        if rank in job.stacks
        and code_place.communication(job.stacks[rank]) not in code_place.COLLECTIVES
    ]
    if still_running.is_moving(job):
        return phrases.moving(job)
    if not with_stack and not unknown and job.earlier & set(sinks):
        return None
    if unknown and not with_stack:
        return _without_file(job, unknown, seen)
    return (
        call_order.odd_message(job, graph, sinks)
        or in_a_message(job, sinks)
        or _late(job, seen)
        or _given_up(job, seen)
        or _computing(job, sinks)
        or _elsewhere(job, graph, sorted({*seen, *with_stack}))
    )


def files_of(job: Job) -> str:
    """Name the dumps that are not there or not whole; "" if none is missing."""
    parts = []
    if gone := [rank for rank in job.missing if rank not in job.cut]:
        parts.append(f"{_dumps(gone)} of {short_ranks(gone)}")
    if cut := sorted(job.cut):
        names = ", ".join(Path(job.dumps[rank].path).name for rank in cut[:3])
        parts.append(f"{_dumps(cut)} of {short_ranks(cut)} ({names}), written whole")
    if job.nameless:
        parts.append("the ranks of the files without one")
    return " and ".join(parts)


def _without_file(job: Job, unknown: Sequence[int], seen: Sequence[int]) -> Verdict:
    """Judge where others wait for ranks of which nothing else is known.

    seen: ranks that do not come either, by their dumps.
    """
    closed = [f for f in job.facts if "closed by peer" in f.text.lower()]
    late = [f for f in job.facts if "timed out" in f.text.lower()]
    alone = len(unknown) == 1 and not seen and job.missing == [*unknown]
    alone = alone and not any(f.rank in unknown for f in job.facts)
    if closed and not late and alone and unknown[0] not in job.dumps:
        return Verdict(
            "died",
            list(unknown),
            answer=f"{short_ranks(unknown)} died, most likely.",
            reasons=[
                "the others say that its connection was closed, and it has left no file"
            ],
            decides="the end of its log, and the kernel's (dmesg: out of memory?)",
        )
    they = "it" if len(unknown) == 1 else "they"
    them = "it" if len(unknown) == 1 else "them"
    reasons = [f"{they} may have died, be in other code, or have made another call"]
    if seen:
        has = "has" if len(seen) == 1 else "have"
        reasons = [
            f"{short_ranks(seen)} {has} not come either, and may wait for {them}"
        ]
    return Verdict(
        "unknown",
        answer=f"The others wait for {short_ranks(unknown)}, whose "
        f"{what_is_missing(job, unknown)}.",
        reasons=reasons,
        decides=f"{files_of(job)}, or a py-spy dump or the log of {them}",
    )


def what_is_missing(job: Job, ranks: Sequence[int]) -> str:
    """Say why the dumps of ranks do not count: `dump is not here`."""
    several = len(ranks) > 1
    if set(ranks) & job.cut:
        return "dumps break off" if several else "dump breaks off"
    is_old = bool(set(ranks) & job.stale)
    what = "of an earlier moment" if is_old else "not here"
    return f"{_dumps(ranks)[4:]} {'are' if several else 'is'} {what}"


def _dumps(ranks: Sequence[int]) -> str:
    return "the dump" if len(ranks) == 1 else "the dumps"


def in_a_message(job: Job, sinks: Sequence[int]) -> Verdict | None:
    """Judge a rank that is in a send or recv, which Gloo does not record."""
    inside = {
        rank: call
        for rank in sinks
        if rank in job.stacks
        and (call := code_place.communication(job.stacks[rank])) in code_place.P2P
    }
    suspects = messengers(job, sinks) if job.records_no_messages else []
    lines = {r: job.stacks[r].where for r in inside if job.stacks[r].where}
    if len(inside) > 1 and len(inside) == len(sinks):
        return phrases.messages_apart(inside, lines)
    if len(inside) == 1 and len(suspects) == 1:
        return phrases.forgotten_message(suspects[0], inside, lines)
    if inside:
        return phrases.unseen_message(inside, lines)
    if suspects and not any(rank in job.stacks for rank in sinks):
        return phrases.away_or_in_a_message(sinks, suspects)
    return None


def messengers(job: Job, sinks: Sequence[int]) -> list[int]:
    """Return ranks that began a message between their last two calls, by op_id.

    op_id counts messages too, which this backend does not record. A blocking send that
    was met is one as well, so this is no proof.
    """
    ranks = []
    for rank in sorted(set(job.calls) - set(sinks) - job.stale - job.partial):
        pending = [c for c in job.pending(rank) if not c.is_p2p]
        if not pending:
            continue
        call = pending[0]
        before = [
            c
            for c in job.calls[rank]
            if c.group == call.group and c.number == call.number - 1
        ]
        step = call.op_id - before[0].op_id if before else call.op_id
        if step > 1:
            ranks.append(rank)
    return ranks


def _late(job: Job, seen: Sequence[int]) -> Verdict | None:
    late = stragglers.straggler(job)
    if late is None or late.rank not in seen:
        return None
    where = ""
    if late.rank in job.stacks and not code_place.communication(job.stacks[late.rank]):
        where = f", and is {code_place.place(job.stacks[late.rank])} now"
    return phrases.straggler(late, where)


def _computing(job: Job, sinks: Sequence[int]) -> Verdict | None:
    """Judge ranks that have made the call, and whose device has not come to it.

    So it is in any step of a job in good health, for a moment.
    """
    late = [r for r in sinks if job.pending(r) and job.is_computing(r)]
    if not late or late != [*sinks] or any(r in job.stacks for r in late):
        return None
    if any(f.kind == "timeout" for f in job.facts):
        return Verdict(
            "busy",
            late,
            answer=f"The GPU of {short_ranks(late)} has not come to the call that its "
            "program has made: it computes something else.",
            reasons=["likely: the others have waited in it until the time-out"],
        )
    return Verdict(
        "unknown",
        answer=f"The others wait for the GPU of {short_ranks(late)}, which has not "
        "come to the call that its program has made.",
        reasons=[
            "so it is in every step for a moment, and the dumps are of one moment"
        ],
        decides="a second dump of each rank, some seconds later",
    )


def _given_up(job: Job, seen: Sequence[int]) -> Verdict | None:
    """Judge ranks that a monitored barrier names."""
    absent = {f.rank for f in job.facts if f.kind == "absent"}
    named = [rank for rank in seen if rank in absent]
    if not named or any(rank in job.stacks for rank in named):
        return None
    return Verdict(
        "busy",
        named,
        answer=f"{short_ranks(named)} did not come to the monitored barrier.",
    )


def _elsewhere(job: Job, graph: Graph, ranks: Sequence[int]) -> Verdict:
    """Judge ranks that have made all their calls and no further one.

    A stack is of one moment, so it proves nothing: the rank may be about to come, or
    the others may wait in a call that they have made once too often. The latter is as
    likely where few wait for many of which nothing more is known: the past of a rank
    does not tell a batch too many from a call to which the others come late.
    """
    stacks = {rank: job.stacks[rank] for rank in ranks if rank in job.stacks}
    without = [rank for rank in ranks if rank in job.missing]
    away = phrases.Away(
        ranks=list(ranks),
        waiting=sorted(graph.at),
        places={r: code_place.place(stack) for r, stack in stacks.items()},
        ended=[r for r, stack in stacks.items() if code_place.has_ended(stack)],
        lines={r: stack.where for r, stack in stacks.items() if stack.where},
        unknown=without,
        lack=what_is_missing(job, without) if without else "",
        last=next((job.calls[r][-1] for r in ranks if job.calls.get(r)), None),
        may_be_in_a_message=job.records_no_messages,
    )
    is_majority = len(ranks) > len(graph.at)
    if is_majority and len(away.ended) == len(ranks):
        return phrases.one_call_more(away)
    if is_majority and (away.ended or len(stacks) < len(ranks)):
        return phrases.away_or_one_call_more(away)
    return phrases.elsewhere(away)

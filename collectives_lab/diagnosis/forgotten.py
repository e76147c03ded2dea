"""Forgotten waits: a rank that went on past a call that it began.

Here `gone_past` goes by what runs on each device, `left_behind` by a later call that is
over, `left_message` and `ran_ahead` by who waits and who has gone on.
"""

from __future__ import annotations

from collectives_lab.diagnosis import waits
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.phrases import call_text
from collectives_lab.diagnosis.verdict import Verdict, short_ranks
from collectives_lab.formats.flight_recorder import Call
from collectives_lab.formats.recorder_entries import WITHOUT_STATES


def gone_past(job: Job) -> Verdict | None:
    """Find a rank whose device is in a later call than the one the others wait in."""
    posted = waits.posted(job)
    for rank in sorted(job.starts - job.stale - job.earlier):
        pending = job.pending(rank)
        begun = [call for call in pending if call.started]
        if not begun or pending[0].started or pending[0].batch == begun[0].batch != 0:
            continue
        call = pending[0]
        if call.is_p2p:
            others = [posted[id(call)][1]] if id(call) in posted else []
        else:
            made = job.collectives()[call.group, call.number]
            others = [c for r, c in made.items() if r != rank]
            if len(others) + 1 < len(job.ranks_of(call.group)[0]):
                continue
        if others and all(c.started and not c.over for c in others):
            return _forgotten(
                [rank],
                call,
                f"its device is in {call_text(begun[0])}, a later call, and has not "
                "begun that one, in which the others are",
            )
    return None


def left_behind(job: Job, graph: waits.Graph) -> Verdict | None:
    """Find a rank that went on past a call of its own that never ended."""
    for rank in sorted(set(job.calls) - job.stale - job.partial):
        pending = job.pending(rank)
        if not pending:
            continue
        call = pending[0]
        if job.dumps[rank].backend.startswith(WITHOUT_STATES):
            continue  # whose dumps say too little of ends
        later = [c for c in job.calls[rank] if c.record > call.record and c.over]
        passed = [c for c in later if c.group == call.group or call.is_p2p]
        if not passed or not _is_alone(job, graph, rank, call):
            continue
        return _forgotten(
            [rank],
            call,
            f"call {call.number} of group {job.group_name(call.group)} is not over "
            f"there, but {len(passed)} later ones are, as {call_text(passed[-1])}",
            "likely: keep what the call returns, and wait() for it",
        )
    return None


def _is_alone(job: Job, graph: waits.Graph, rank: int, call: Call) -> bool:
    """Return whether the others have done their part of the call."""
    if call.is_p2p:
        return rank in graph.partner
    others = [
        c
        for (group, number), calls in job.collectives().items()
        if (group, number) == (call.group, call.number)
        for r, c in calls.items()
        if r != rank
    ]
    return all(c.over for c in others)


def left_message(job: Job, graph: waits.Graph) -> Verdict | None:
    """Find a rank that went on past a message whose other side waits for it."""
    for rank, (peer, other) in graph.partner.items():
        call = graph.at[rank]
        way = "to" if call.verb == "send" else "from"
        waits_there = graph.at.get(peer) is other and len(job.pending(peer)) == 1
        if waits_there and len(job.pending(rank)) > 1:
            return _forgotten(
                [rank],
                call,
                f"both sides are there, neither is over, and only rank {peer} waits",
                what=f"{call.verb} {way} rank {peer}",
            )
    return None


def ran_ahead(job: Job, graph: waits.Graph) -> Verdict | None:
    """Find ranks that made further calls where the others wait for the first."""
    complete = graph.complete()
    further = [r for r in complete if len(job.pending(r)) > 1]
    behind = [r for r in complete if len(job.pending(r)) == 1]
    if not further or len(further) >= len(behind) or not job.is_whole:
        return None
    call = graph.at[further[0]]
    return _forgotten(
        further, call, "likely: all have begun it, and only the others wait in it"
    )


def _forgotten(ranks: list[int], call: Call, *reasons: str, what: str = "") -> Verdict:
    """Return the verdict on ranks that did not wait for a call, in words or `what`."""
    its = "its" if len(ranks) == 1 else "their"
    return Verdict(
        "forgotten_wait",
        ranks,
        answer=f"{short_ranks(ranks)} went on without waiting for {its} "
        f"{what or call_text(call)}.",
        lines=dict.fromkeys(ranks, call.where) if call.where else {},
        reasons=[*reasons],
    )

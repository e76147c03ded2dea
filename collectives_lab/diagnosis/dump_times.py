"""Times of dumps: those written at one time, and those of another run or too old.

Here `set_strangers_aside` drops dumps of another run, `find_stale` those that are older
than the others, and `reopen_failed` and `reopen_ended` find calls that Gloo gave up.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.diagnosis import code_place
from collectives_lab.diagnosis.job import SYMMETRIC, Job
from collectives_lab.diagnosis.mismatch import has_wrapped, pairs, peer_of
from collectives_lab.formats.recorder_entries import WITHOUT_STATES, Call

APART = 600e9
"""Nanoseconds between one call on two ranks that no job survives: ten minutes."""

SKEW = 10e9
"""Nanoseconds by which the clocks of ranks do not differ: ten seconds."""


def sort_out(job: Job) -> None:
    """Mark the dumps that do not count, and say so in the job's notes."""
    set_strangers_aside(job)
    reopen_ended(job)
    close_forgotten(job)
    for group in sorted({c.group for calls in job.calls.values() for c in calls}):
        reopen_failed(job, group)
        find_stale(job, group)
    find_earlier(job)
    find_apart(job)


def find_apart(job: Job) -> None:
    """Find dumps whose calls were all made before others made the same ones.

    A rank cannot have ended a call, and made the next one, long before another rank has
    come to it. So the dumps are of two runs of a job, or the clocks differ.
    """
    times = {
        rank: [c.created for c in calls if c.created]
        for rank, calls in job.calls.items()
        if rank not in job.stale
    }
    times = {rank: made for rank, made in times.items() if made}
    newest = max((min(made) for made in times.values()), default=0)
    early = {r for r, made in times.items() if max(made) + SKEW < newest}
    oldest = min((max(times[r]) for r in early), default=0)
    late = {r for r, made in times.items() if early and min(made) > oldest + SKEW}
    if not any(
        late & set(made) and any(_has_ended(job, r, made[r]) for r in early & set(made))
        for made in job.collectives().values()
    ):
        return
    job.apart = min(early, late, key=len)
    job.notes.append(
        f"the calls of {name_ranks(sorted(job.apart))} were made at another time than "
        "the same calls of the others: the dumps are of two runs of the job, or the "
        "clocks of the ranks differ; nothing is proved by them"
    )


def _has_ended(job: Job, rank: int, call: Call) -> bool:
    """Return whether a call that needs all ranks is over, and not its rank's last."""
    is_last = call.record == job.calls[rank][-1].record
    return call.over and call.verb in SYMMETRIC and not is_last


def find_earlier(job: Job) -> None:
    """Find dumps that were written before others, by what had ended there.

    A message that was received has been sent. A collective that is over on one rank is
    over on all in a moment, unless its rank has gone on past it.
    """
    sent: Counter[tuple[str, int, int | None]] = Counter()
    for rank, calls in job.calls.items():
        sent.update((c.group, rank, peer_of(job, c)) for c in calls if c.verb == "send")
    for rank, calls in job.calls.items():
        received = Counter(
            (c.group, peer_of(job, c)) for c in calls if c.verb == "recv" and c.over
        )
        for (group, peer), number in received.items():
            is_whole = peer in job.calls and not has_wrapped(job, peer)
            is_whole = is_whole and peer not in job.cut
            if is_whole and peer is not None and number > sent[group, peer, rank]:
                job.stale.add(peer)
    for (src, send), (_, recv) in pairs(job):
        if recv.over and not send.over:
            begun = send.started or src not in job.starts
            (job.earlier if begun else job.stale).add(src)
    for made in job.collectives().values():
        if any(c.state == "completed" for c in made.values()):
            late = {r for r, c in made.items() if not c.over and c.verb in SYMMETRIC}
            job.earlier |= {r for r in late if not _has_gone_on(job, r, made[r])}


def _has_gone_on(job: Job, rank: int, call: Call) -> bool:
    """Return whether a rank has ended a later call of the group of one."""
    later = (c for c in job.calls[rank] if c.group == call.group and not c.is_p2p)
    return any(c.over and c.number > call.number for c in later)


def set_strangers_aside(job: Job) -> None:
    """Drop dumps whose calls were made long before or after the others'."""
    apart: Counter[int] = Counter()
    shared: Counter[int] = Counter()
    for calls in job.collectives().values():
        times = {rank: c.created for rank, c in calls.items() if c.created}
        if len(times) < 2:
            continue
        middle = median(times.values())
        for rank, time in times.items():
            shared[rank] += 1
            apart[rank] += abs(time - middle) > APART
    strangers = [r for r, n in shared.items() if apart[r] > n / 2]
    if not strangers:
        return
    if len(strangers) * 2 > len(shared):
        strangers = list(shared)
    job.notes.append(
        f"the dump of {name_ranks(strangers)} is of another time than the others, "
        "and so of another job or an earlier run; it does not count"
    )
    job.stale |= set(strangers)


def reopen_failed(job: Job, group: str) -> None:
    """Take a last call for given up, not for over, where a rank has not begun it.

    A backend without states retires a call that has failed as one that has ended.
    """
    ranks = [r for r in job.ranks_of(group)[0] if r in job.dumps]
    whole = set(ranks) - job.stale - job.cut
    at = {rank: job.reached(rank, group) for rank in whole}
    last = max(at.values(), default=0)
    if not at or min(at.values()) != last - 1:
        return
    for rank, call in job.collectives()[group, last].items():
        given_up = call.verb in SYMMETRIC and call.state != "completed"
        if rank not in job.stale and call.over and given_up:
            job.set_over(rank, call, False)


def reopen_ended(job: Job) -> None:
    """Reopen a last call if the rank's log says that the rank failed in it."""
    for rank, stack in job.failed.items():
        last = job.calls[rank][-1] if job.calls.get(rank) else None
        if rank in job.cut or last is None or not last.over:
            continue
        if last.state == "completed":
            continue
        inside = code_place.communication(stack)
        if inside not in code_place.P2P and last.where in ("", stack.where):
            job.set_over(rank, last, False)


def close_forgotten(job: Job) -> None:
    """Close a call that is open on one rank only, if that rank has ended a later one.

    Gloo's recorder leaves such entries now and then. If no other rank's entry is open,
    the call has ended.
    """
    for calls in job.collectives().values():
        still = [(r, c) for r, c in calls.items() if not c.over]
        if len(still) != 1 or len(calls) < 2:
            continue
        ((rank, call),) = still
        later = _has_gone_on(job, rank, call)
        dump = job.dumps.get(rank)
        if later and dump is not None and dump.backend.startswith(WITHOUT_STATES):
            job.set_over(rank, call, True)


def find_stale(job: Job, group: str) -> None:
    """Find dumps that were written earlier than others, by what others had ended.

    A collective that is over somewhere has been begun everywhere; a dump that breaks
    off does not say how far its rank has come.
    """
    ranks, _ = job.ranks_of(group)
    ended = max(
        (
            call.number
            for rank in set(ranks) - job.stale
            for call in job.calls.get(rank, ())
            if call.group == group and call.over and call.verb in SYMMETRIC
        ),
        default=0,
    )
    whole = set(ranks) & set(job.dumps) - job.cut
    job.stale |= {r for r in whole if job.reached(r, group) < ended}

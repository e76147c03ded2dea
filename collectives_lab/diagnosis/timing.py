"""Times: who is always late, whether the network is slow, and whether a job moves.

Dumps have the time at which each call was made, Gloo's too. NCCL's have what its
watchdog has seen of the end, and under TORCH_NCCL_ENABLE_TIMING how long each call was
on the device. Thresholds are here, each with its reason.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from collectives_lab.diagnosis.job import SYMMETRIC, Job, elements
from collectives_lab.diagnosis.mismatch import pairs
from collectives_lab.formats.flight_recorder import Call
from collectives_lab.formats.job_logs import Fact

CALLS = 4
"""Matched calls that a habit needs at least."""

HABIT = 0.7
"""Share of all delay that a straggler brings about."""

LOST = 0.1
"""Share of the time that others lose to a straggler, at least."""

RECENT = 50
"""The last matched calls, by which a habit is judged."""

LARGE = 1 << 20
"""Bytes of a call whose time is that of its bytes and not of its latency."""

SLOW = 100e6
"""Bytes a second below which a network of GPUs is slow: 0.8 Gb/s."""

SLOWER = 5.0
"""Times as long as before, for calls of the same size, that is slow."""

POLLED = 0.2
"""Seconds of which the end that a watchdog has seen says nothing: it looks ten times a
second."""

DAY = 86_400.0

SIZES = {"Double": 8, "Long": 8, "Half": 2, "BFloat16": 2, "Short": 2, "Char": 1}


@dataclass(frozen=True)
class Late:
    """A rank that comes last: by how many seconds, to how many of how many calls.

    on_device: its GPU comes late to them, whatever its program does.
    """

    rank: int
    seconds: float
    calls: int
    of: int
    on_device: bool = False


class Arrival(NamedTuple):
    """Who came last to a call, by how many seconds, and when the first one came."""

    start: float
    rank: int
    lag: float
    spread: float

    @property
    def is_clear(self) -> bool:
        """Whether one rank has delayed the call: the others differ by much less."""
        return self.lag > 1e-3 and self.lag > 3 * self.spread


def straggler(job: Job) -> Late | None:
    """Return the rank that comes last to most of the calls that anybody delays.

    How long a call was on the devices says it best: the last one has waited least.
    Without that, the times at which the calls were made do, unless they show that the
    clocks of ranks differ.
    """
    on_device = _on_device(job)[-RECENT:]
    if len(on_device) >= CALLS:
        return _habit(on_device, on_device=True)
    arrivals = _made(job)[-RECENT:]
    late = _habit(arrivals)
    if late is None or _clocks_differ(job, late.rank):
        return None
    delayed = [a.start for a in arrivals if a.is_clear and a.rank == late.rank]
    step = median(b - a for a, b in pairwise(delayed))
    ends = any(c.completed for calls in job.calls.values() for c in calls)
    return late if ends or late.seconds < 1.5 * step else None


def _habit(arrivals: Sequence[Arrival], on_device: bool = False) -> Late | None:
    """Return the rank that delays most of what is delayed, up to the end."""
    clear = [a for a in arrivals if a.is_clear]
    if len(clear) < CALLS:
        return None
    lost: Counter[int] = Counter()
    for arrival in clear:
        lost[arrival.rank] += round(arrival.lag * 1e9)
    rank, _ = lost.most_common(1)[0]
    large = lost[rank] / len([a for a in clear if a.rank == rank]) / 5e9
    ranks = [a.rank for a in clear if a.lag > large]
    lags = sorted(a.lag for a in clear if a.rank == rank)
    first = next(a.start for a in clear if a.rank == rank)
    span = max(arrivals[-1].start - first, lags[-1])
    is_habit = len(lags) >= CALLS and lost[rank] >= HABIT * lost.total()
    is_recent = ranks[-3:].count(rank) >= 2
    is_lasting = 4 * len(lags) >= sum(a.start >= first for a in arrivals)
    if not (is_habit and is_recent and is_lasting and sum(lags[:-1]) > LOST * span):
        return None
    return Late(rank, median(lags), len(lags), len(arrivals), on_device)


def _last(times: Mapping[int, float]) -> tuple[int, float, float]:
    """Return who is last by these times, by how much, and what the others differ by."""
    rank = max(times, key=times.__getitem__)
    rest = sorted(time for r, time in times.items() if r != rank)
    return rank, times[rank] - rest[-1], rest[-1] - rest[0]


def _of_all(job: Job) -> list[dict[int, Call]]:
    """Return the collectives that all members with a dump have made, in order."""
    rows = []
    for (group, _), calls in job.collectives().items():
        members = set(job.ranks_of(group)[0]) - set(job.missing)
        whole = len(calls) > 1 and members <= set(calls)
        made = all(c.created is not None for c in calls.values())
        if whole and made and all(c.verb in SYMMETRIC for c in calls.values()):
            rows.append(calls)
    return sorted(rows, key=lambda row: min(c.created or 0 for c in row.values()))


def _on_device(job: Job) -> list[Arrival]:
    """Return the arrivals at each call by the time it was on each device."""
    found = []
    for calls in _of_all(job):
        took = {r: -c.duration for r, c in calls.items() if c.duration is not None}
        if len(took) == len(calls):
            start = min(c.created or 0 for c in calls.values()) / 1e9
            found.append(Arrival(start, *_last(took)))
    return found


def _made(job: Job) -> list[Arrival]:
    """Return the arrivals at each call by the times at which it was made."""
    found = []
    for calls in _of_all(job):
        times = {r: (c.created or 0) / 1e9 for r, c in calls.items()}
        found.append(Arrival(min(times.values()), *_last(times)))
    return found


def _clocks_differ(job: Job, rank: int) -> bool:
    """Return whether a call was over elsewhere before a rank made it, by its clock."""
    for calls in _of_all(job):
        made = calls[rank].created if rank in calls else None
        ends = [c.completed for c in calls.values() if c.completed]
        if made and ends and min(ends) < made:
            return True
    return False


# -- the network -----------------------------------------------------------------------

Way = tuple[int, ...]
"""Of a message, from which rank to which; () for a collective."""


def slowness(job: Job) -> str:
    """Say by how much calls that are over were slow; "" if none was.

    A call's time is counted from its last rank on, so that nobody's lateness is in it.
    """
    calls = _transfers(job)
    return _slower_than_before(calls) or _slower_than_others(calls) or _rate(calls)


@dataclass(frozen=True)
class Transfer:
    """A call that is over. seconds: from its last rank on."""

    verb: str
    nbytes: int
    way: Way
    seconds: float


def _transfers(job: Job) -> list[Transfer]:
    found = []
    for calls in _of_all(job):
        members, is_known = job.ranks_of(next(iter(calls.values())).group)
        seconds = _seconds(calls)
        if seconds is not None and is_known and len(calls) == len(members):
            nbytes = max(size_of(c) for c in calls.values())
            verb = next(iter(calls.values())).verb
            found.append(Transfer(verb, nbytes, (), seconds))
    in_batch = Counter((r, c.batch) for r in job.calls for c in job.calls[r] if c.batch)
    for (src, send), (dst, recv) in pairs(job):
        alone = in_batch[src, send.batch] < 2 and in_batch[dst, recv.batch] < 2
        seconds = _seconds({src: send, dst: recv}) if alone else None
        if seconds is not None:
            found.append(Transfer("send", size_of(send), (src, dst), seconds))
    return found


def _seconds(calls: Mapping[int, Call]) -> float | None:
    """Return how long a call took from its last rank on; None where nobody knows."""
    took = [c.duration for c in calls.values() if c.duration is not None]
    if len(took) == len(calls):
        return min(took)
    ends = [c.completed for c in calls.values() if c.completed]
    begins = [c.started for c in calls.values() if c.started]
    if not ends or len(begins) < len(calls):
        return None
    seconds = (min(ends) - max(begins)) / 1e9
    return seconds if seconds > POLLED else None


def _slower_than_before(calls: Sequence[Transfer]) -> str:
    alike: dict[tuple, list[float]] = defaultdict(list)
    for call in calls:
        alike[call.verb, call.nbytes, call.way].append(call.seconds)
    for (verb, _, way), times in alike.items():
        early, late = times[: len(times) // 2], times[-max(1, len(times) // 4) :]
        if len(times) >= 4 and min(late) > max(SLOWER * median(early), 0.01):
            factor = median(late) / median(early) if median(early) else 0.0
            return f"{_what(verb, way)} took {factor:.0f} times as long as before"
    return ""


def _slower_than_others(calls: Sequence[Transfer]) -> str:
    """Compare the ways of messages of one size with each other."""
    ways: dict[int, dict[Way, list[float]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        if call.way:
            ways[call.nbytes][call.way].append(call.seconds)
    for times in ways.values():
        typical = {way: median(seconds[-10:]) for way, seconds in times.items()}
        slowest = max(typical, key=typical.__getitem__)
        rest = [seconds for way, seconds in typical.items() if way != slowest]
        if len(times[slowest]) < CALLS or not rest:
            continue
        if typical[slowest] > max(SLOWER * median(rest), 0.01):
            factor = typical[slowest] / median(rest) if median(rest) else 0.0
            what = _what("send", slowest)
            return f"{what} took {factor:.0f} times as long as between other ranks"
    return ""


def _rate(calls: Sequence[Transfer]) -> str:
    rates = [c.nbytes / c.seconds for c in calls if c.nbytes >= LARGE and c.seconds]
    if len(rates) >= 2 and median(rates[-10:]) < SLOW:
        return f"large calls moved {median(rates[-10:]) / 1e6:.0f} MB/s at the end"
    return ""


def _what(verb: str, way: Way) -> str:
    return f"a message from rank {way[0]} to rank {way[1]}" if way else verb


def size_of(call: Call) -> int:
    """Return the bytes of a call's larger side."""
    count = max(elements(call.inputs), elements(call.outputs))
    dtype = (call.dtypes or call.out_dtypes or ("Float",))[0]
    return count * SIZES.get(dtype, 4)


def is_moving(job: Job) -> bool:
    """Return whether the job went on while, or just before, its dumps were written.

    So it is where the dumps of ranks differ by calls that were over within a few steps,
    or where a file is hardly older than its last call. The age of a file is a bound,
    which a copy only raises. A time-out, or any end of a rank, says the contrary.
    """
    if job.missing_dumps - job.stale or any(_is_end(fact) for fact in job.facts):
        return False
    return _moved_between(job) or all(
        len(job.calls[rank]) > CALLS and _age(job, rank) < 2 * _step(job, rank)
        for rank in job.dumps
    )


def _is_end(fact: Fact) -> bool:
    by_a_wait = "timed out" in fact.text.lower() or fact.follows or fact.uncaught
    return fact.kind in ("timeout", "died", "misfit") or by_a_wait


def _moved_between(job: Job) -> bool:
    if not job.stale or len(job.stale) == len(job.dumps):
        return False
    newest = {
        rank: max((c.created or 0 for c in calls), default=0)
        for rank, calls in job.calls.items()
    }
    spread = (max(newest.values()) - min(newest.values())) / 1e9
    return spread < 10 * max(_step(job, rank) for rank in job.dumps)


def _age(job: Job, rank: int) -> float:
    """Return how long a rank's last call was made before its file was written."""
    newest = max((c.created or 0 for c in job.calls[rank]), default=0) / 1e9
    try:
        age = os.stat(job.dumps[rank].path).st_mtime - newest
    except OSError:
        return DAY
    return age if newest and age >= 0 else DAY


def _step(job: Job, rank: int) -> float:
    """Return the mean time between two of a rank's last calls."""
    times = sorted(c.created for c in job.calls[rank][-RECENT:] if c.created)
    return (times[-1] - times[0]) / 1e9 / (len(times) - 1) if len(times) > 1 else 0.0

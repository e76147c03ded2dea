"""Stragglers: the rank that is always late, by the times of its calls.

Dumps have the time at which each call was made, Gloo's too. NCCL's have what its
watchdog has seen of the end, and under TORCH_NCCL_ENABLE_TIMING how long each call was
on the device. Thresholds are here, each with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from collectives_lab.diagnosis.job import SYMMETRIC, Job
from collectives_lab.formats.flight_recorder import Call

CALLS = 4
"""Matched calls that a habit needs at least."""

CALLS_BY_HOST = 8
"""The same by when calls were made: ranks that start on a busy host look like one."""

HABIT = 0.7
"""Share of all delay that a straggler brings about."""

LOST = 0.1
"""Share of the time that others lose to a straggler, at least."""

RECENT = 50
"""The last matched calls, by which a habit is judged."""


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
    enough = CALLS if on_device else CALLS_BY_HOST
    if len(clear) < enough:
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
    is_habit = len(lags) >= enough and lost[rank] >= HABIT * lost.total()
    is_recent = ranks[-3:].count(rank) >= 2
    is_lasting = 2 * len(lags) >= sum(a.start >= first for a in arrivals)
    if not (is_habit and is_recent and is_lasting and sum(lags[:-1]) > LOST * span):
        return None
    return Late(rank, median(lags), len(lags), len(arrivals), on_device)


def _last(times: Mapping[int, float]) -> tuple[int, float, float]:
    """Return who is last by these times, by how much, and what the others differ by."""
    rank = max(times, key=times.__getitem__)
    rest = sorted(time for r, time in times.items() if r != rank)
    return rank, times[rank] - rest[-1], rest[-1] - rest[0]


def of_all(job: Job) -> list[dict[int, Call]]:
    """Return the collectives that all members have made, in order.

    One of them may have left no dump; of two the later one could be among these.
    """
    rows = []
    for (group, _), calls in job.collectives().items():
        members = set(job.ranks_of(group)[0])
        absent = members - set(calls)
        whole = len(calls) > 1 and len(absent) <= 1 and absent <= set(job.missing)
        made = all(c.created is not None for c in calls.values())
        if whole and made and all(c.verb in SYMMETRIC for c in calls.values()):
            rows.append(calls)
    return sorted(rows, key=lambda row: min(c.created or 0 for c in row.values()))


def _on_device(job: Job) -> list[Arrival]:
    """Return the arrivals at each call by the time it was on each device."""
    arrivals = []
    for calls in of_all(job):
        took = {r: -c.duration for r, c in calls.items() if c.duration is not None}
        if len(took) == len(calls):
            start = min(c.created or 0 for c in calls.values()) / 1e9
            arrivals.append(Arrival(start, *_last(took)))
    return arrivals


def _made(job: Job) -> list[Arrival]:
    """Return the arrivals at each call by the times at which it was made."""
    arrivals = []
    for calls in of_all(job):
        times = {r: (c.created or 0) / 1e9 for r, c in calls.items()}
        arrivals.append(Arrival(min(times.values()), *_last(times)))
    return arrivals


def _clocks_differ(job: Job, rank: int) -> bool:
    """Return whether a call was over elsewhere before a rank made it, by its clock."""
    for calls in of_all(job):
        made = calls[rank].created if rank in calls else None
        ends = [c.completed for c in calls.values() if c.completed]
        if made and ends and min(ends) < made:
            return True
    return False

"""Times: who is always late, whether the network is slow, and whether a job moves.

Dumps have the time at which each call was made, Gloo's too. That of the end has only
NCCL's. Thresholds are here, each with its reason.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from collectives_lab.diagnosis.job import SYMMETRIC, Job, elements
from collectives_lab.formats.flight_recorder import Call

CALLS = 4
"""Matched calls that a habit needs at least."""

HABIT = 0.7
"""Share of the calls to which a straggler comes last."""

LARGE = 1 << 20
"""Bytes of a call whose time is that of its bytes and not of its latency."""

SLOW = 100e6
"""Bytes a second below which a network of GPUs is slow: 0.8 Gb/s."""

SLOWER = 5.0
"""Times as long as before, for calls of the same size, that is slow."""

DAY = 86_400.0

SIZES = {"Double": 8, "Long": 8, "Half": 2, "BFloat16": 2, "Short": 2, "Char": 1}


@dataclass(frozen=True)
class Late:
    """A rank that comes last. seconds: by how much; step: between two calls."""

    rank: int
    seconds: float
    step: float
    calls: int


def straggler(job: Job) -> Late | None:
    """Return the rank that comes last to most of the last calls, and clearly so.

    Clearly: by five times what the others differ by, and by a fifth of the time from
    one call to the next. A lag that is longer than a whole step is one of clocks.
    """
    rows = _arrivals(job)[-50:]
    if len(rows) < CALLS:
        return None
    last = [max(row, key=row.__getitem__) for row in rows]
    rank = max(set(last), key=last.count)
    if last.count(rank) < HABIT * len(rows) or any(rank not in row for row in rows):
        return None
    lags, others = [], []
    for row in rows:
        rest = sorted(time for r, time in row.items() if r != rank)
        lags.append((row[rank] - rest[-1]) / 1e9)
        others.append((rest[-1] - rest[0]) / 1e9)
    starts = [min(row.values()) for row in rows]
    steps = [(b - a) / 1e9 for a, b in pairwise(starts)]
    lag, step = median(lags), median(steps)
    is_clear = lag > 5 * median(others) and lag > 0.2 * step and lag > 1e-3
    return Late(rank, lag, step, len(rows)) if is_clear and lag < 1.5 * step else None


def _arrivals(job: Job) -> list[dict[int, int]]:
    """Return when each rank came to each collective that all ranks have made."""
    rows = []
    for (group, _), calls in job.collectives().items():
        members, _ = job.ranks_of(group)
        times = {r: c.created for r, c in calls.items() if c.created is not None}
        whole = len(times) > 1 and set(members) - set(job.missing) <= set(times)
        if whole and all(c.verb in SYMMETRIC for c in calls.values()):
            rows.append(times)
    return sorted(rows, key=lambda row: min(row.values()))


def slowness(job: Job) -> str:
    """Say by how much calls that are over were slow; "" if none was.

    A call's time is counted from its last rank on, so that nobody's lateness is in it.
    """
    rates: list[float] = []
    durations: dict[tuple[str, int], list[float]] = {}
    for calls in job.collectives().values():
        seconds = _seconds(calls)
        if seconds is None or seconds <= 0:
            continue
        call = next(iter(calls.values()))
        nbytes = max(size_of(c) for c in calls.values())
        key = call.verb, nbytes
        durations.setdefault(key, []).append(seconds)
        if nbytes >= LARGE:
            rates.append(nbytes / seconds)
    recent = rates[-10:]
    if len(recent) >= 2 and median(recent) < SLOW:
        return f"large calls moved {median(recent) / 1e6:.0f} MB/s at the end"
    for (verb, _), times in durations.items():
        early, late = times[: len(times) // 2], times[-max(1, len(times) // 4) :]
        if len(times) >= 4 and min(late) > SLOWER * median(early) and min(late) > 0.01:
            factor = median(late) / median(early)
            return f"{verb} took {factor:.0f} times as long at the end as before"
    return ""


def _seconds(calls: dict[int, Call]) -> float | None:
    ends = [c.completed for c in calls.values() if c.completed]
    begins = [c.created for c in calls.values() if c.created]
    return (min(ends) - max(begins)) / 1e9 if ends and begins else None


def size_of(call: Call) -> int:
    """Return the bytes of a call's larger side."""
    count = max(elements(call.inputs), elements(call.outputs))
    dtype = (call.dtypes or call.out_dtypes or ("Float",))[0]
    return count * SIZES.get(dtype, 4)


def is_moving(job: Job) -> bool:
    """Return whether the job went on while, or just before, its dumps were written.

    So it is where the dumps of ranks differ by calls that were over within a few steps,
    or where a file is hardly older than its last call. The age of a file is a bound,
    which a copy only raises. A time-out says the contrary.
    """
    if any(f.kind == "timeout" or "timed out" in f.text.lower() for f in job.facts):
        return False
    return _moved_between(job) or all(
        len(job.calls[rank]) > CALLS and _age(job, rank) < 2 * _step(job, rank)
        for rank in job.dumps
    )


def _moved_between(job: Job) -> bool:
    if not job.stale or len(job.stale) == len(job.dumps):
        return False
    newest = {
        rank: max((c.created or 0 for c in calls), default=0)
        for rank, calls in job.calls.items()
    }
    spread = (max(newest.values()) - min(newest.values())) / 1e9
    return spread < 5 * max(_step(job, rank) for rank in job.dumps)


def _age(job: Job, rank: int) -> float:
    """Return how long a rank's last call was made before its file was written."""
    newest = max((c.created or 0 for c in job.calls[rank]), default=0) / 1e9
    try:
        age = os.stat(job.dumps[rank].path).st_mtime - newest
    except OSError:
        return DAY
    return age if newest and age >= 0 else DAY


def _step(job: Job, rank: int) -> float:
    """Return the usual time between two of a rank's calls."""
    times = sorted(c.created for c in job.calls[rank] if c.created)
    gaps = [(b - a) / 1e9 for a, b in pairwise(times)]
    return median(gaps) if gaps else 0.0

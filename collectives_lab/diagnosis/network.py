"""The network: whether calls took long though all their ranks had come.

Here `slowness` compares calls of one size with those before, messages with those
between other ranks, and large calls with what networks of GPUs do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from collectives_lab.diagnosis.job import Job, elements
from collectives_lab.diagnosis.mismatch import pairs
from collectives_lab.diagnosis.stragglers import CALLS, of_all
from collectives_lab.formats.flight_recorder import Call

LARGE = 1 << 20
"""Bytes of a call whose time is that of its bytes and not of its latency."""

SLOW = 100e6
"""Bytes a second below which a network of GPUs is slow: 0.8 Gb/s."""

SLOWER = 5.0
"""Times as long as before, for calls of the same size, that is slow."""

POLLED = 0.2
"""Seconds of which the end that a watchdog has seen says nothing: it looks ten times a
second."""

SIZES = {"Double": 8, "Long": 8, "Half": 2, "BFloat16": 2, "Short": 2, "Char": 1}

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
    transfers = []
    for calls in of_all(job):
        members, is_known = job.ranks_of(next(iter(calls.values())).group)
        seconds = _seconds(calls)
        if seconds is not None and is_known and len(calls) == len(members):
            nbytes = max(size_of(c) for c in calls.values())
            verb = next(iter(calls.values())).verb
            transfers.append(Transfer(verb, nbytes, (), seconds))
    in_batch = Counter((r, c.batch) for r in job.calls for c in job.calls[r] if c.batch)
    for (src, send), (dst, recv) in pairs(job):
        alone = in_batch[src, send.batch] < 2 and in_batch[dst, recv.batch] < 2
        seconds = _seconds({src: send, dst: recv}) if alone else None
        if seconds is not None:
            transfers.append(Transfer("send", size_of(send), (src, dst), seconds))
    return transfers


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

"""Who waits for whom in a recording, read from its own times.

Here `exposed` gives the seconds for which each rank was blocked, `own_time` a recording
from which all waiting is taken out, and `straggler` the rank for which the others wait,
with the call from which on it is late. No clocks are compared: what counts is how long
a rank itself takes from one call to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.trace.columns import Columns
from collectives_lab.trace.event import Event

T = TypeVar("T", bound=Columns)

WORTH = 0.05
"""Share of the recorded time from which a lateness is worth a name."""

ALONE = ("send", "recv", "compute")
"""Events that are no collectives."""


@dataclass(frozen=True)
class Straggler:
    """The rank for which the others wait.

    seconds: by how much longer than the median rank it takes between its calls, in all.
    first: the call before which it begins to take longer, the number-th of its group.
    late, calls: before how many of its calls it takes longer, and how many it makes.
    factor: its own time over that of the median rank.
    """

    rank: int
    seconds: float
    first: Event
    number: int
    late: int
    calls: int
    factor: float

    def __str__(self) -> str:
        call = f"{self.first.op} of {format_bytes(self.first.nbytes)}"
        place = f"{call}, number {self.number} of group {self.first.group!r}"
        if self.late == 1:
            when = f"once, before its {place}"
        else:
            calls = f"{self.late} of its {self.calls} calls"
            when = f"before {calls}, beginning with its {place}"
        return (
            f"rank {self.rank} takes {format_seconds(self.seconds)} longer than the "
            f"median rank ({self.factor:.2f} times as long): {when}"
        )


def recorded_seconds(trace: Columns) -> float:
    """Return the seconds from the first call of a recording to its last end."""
    times = [trace.columns[name] for name in ("issued", "waited", "completed")]
    known = np.concatenate(times)
    known = known[~np.isnan(known)]
    return float(known.max() - known.min()) if len(known) else 0.0


def exposed(trace: Columns) -> list[float]:
    """Return the seconds for which each rank was blocked: exposed communication."""
    seconds = [0.0] * trace.world_size
    for rank, thread in _lanes(trace):
        _, _, blocked = _waits(trace, rank, thread)
        seconds[rank] = max(seconds[rank], float(blocked[-1]) if len(blocked) else 0.0)
    return seconds


def own_time(trace: T) -> T:
    """Return the recording as if no rank had to wait: only its own time passes.

    Its replay is that of the recording, since a replay takes the waits from the fabric.
    """
    columns = {name: column.copy() for name, column in trace.columns.items()}
    completed = columns["completed"]
    for rank, thread in _lanes(trace):
        rows = _rows(trace, rank, thread)
        waits = _waits(trace, rank, thread)
        for name in ("issued", "waited"):
            times = columns[name][rows]
            columns[name][rows] = times - _blocked_until(times, *waits)
        columns["completed"][rows] = np.where(
            np.isnan(columns["waited"][rows]),
            completed[rows] - _blocked_until(completed[rows], *waits),
            columns["waited"][rows],
        )
    return type(trace)(
        trace.world_size, columns, trace.texts, trace.groups, meta=trace.meta
    )


def straggler(trace: Columns) -> Straggler | None:
    """Return the rank for which the others wait; None if none is worth a name.

    It takes longer between its calls than the median rank does, by a share `WORTH` of
    the recorded time, and by twice as much as any other rank.
    """
    own = _own_times(trace)
    extra = {
        place: {
            rank: s - float(np.median([*by_rank.values()]))
            for rank, s in by_rank.items()
        }
        for place, by_rank in own.items()
        if len(by_rank) > 1
    }
    totals = np.zeros(trace.world_size)
    for by_rank in extra.values():
        for rank, seconds in by_rank.items():
            totals[rank] += seconds
    if not extra or not len(totals):
        return None
    rank = int(totals.argmax())
    others = np.delete(totals, rank).max(initial=0.0)
    if totals[rank] < WORTH * recorded_seconds(trace) or totals[rank] < 2 * others:
        return None
    return _described(trace, rank, float(totals[rank]), extra, own)


def _described(
    trace: Columns,
    rank: int,
    seconds: float,
    extra: Mapping[tuple[str, int], Mapping[int, float]],
    own: Mapping[tuple[str, int], Mapping[int, float]],
) -> Straggler:
    """Say from which call on a rank is late: one that it comes to later than usual."""
    noise = [
        abs(s) for by_rank in extra.values() for r, s in by_rank.items() if r != rank
    ]
    excess = {
        place: by_rank[rank] for place, by_rank in extra.items() if rank in by_rank
    }
    least = max(seconds / len(excess) / 2, 3 * float(np.median(noise)))
    late = [place for place, s in excess.items() if s >= least]
    late = late or [max(excess, key=lambda place: excess[place])]
    first = next(e for p, e in _collectives(trace, rank) if p == late[0])
    total = sum(own[place][rank] for place in excess)
    median = total - seconds
    factor = total / median if median > 0 else float("inf")
    return Straggler(rank, seconds, first, late[0][1], len(late), len(excess), factor)


def _own_times(trace: Columns) -> dict[tuple[str, int], dict[int, float]]:
    """Return, by collective and rank, its own seconds since its collective before."""
    own: dict[tuple[str, int], dict[int, float]] = {}
    for rank in range(trace.world_size):
        before: dict[int, float] = {}
        waits: dict[int, tuple] = {}
        for place, event in _collectives(trace, rank):
            thread = event.thread
            if thread not in waits:
                waits[thread] = _waits(trace, rank, thread)
                before[thread] = _first(trace, rank, thread)
            if event.issued is None:
                continue
            at = np.array([event.issued])
            time = float((at - _blocked_until(at, *waits[thread]))[0])
            own.setdefault(place, {})[rank] = time - before[thread]
            before[thread] = time
    return own


def _collectives(trace: Columns, rank: int) -> list[tuple[tuple[str, int], Event]]:
    """Return the collectives of a rank, each with its group and its number there."""
    numbers: dict[str, int] = {}
    placed = []
    for event in trace.of_rank(rank):
        if event.op not in ALONE:
            number = numbers[event.group] = numbers.get(event.group, -1) + 1
            placed.append(((event.group, number), event))
    return placed


def _lanes(trace: Columns) -> list[tuple[int, int]]:
    pairs = np.stack([trace.columns["rank"], trace.columns["thread"]], axis=1)
    return [(int(r), int(t)) for r, t in np.unique(pairs, axis=0)]


def _rows(trace: Columns, rank: int, thread: int) -> np.ndarray:
    columns = trace.columns
    return np.flatnonzero((columns["rank"] == rank) & (columns["thread"] == thread))


def _first(trace: Columns, rank: int, thread: int) -> float:
    return float(np.nanmin(trace.columns["issued"][_rows(trace, rank, thread)]))


def _waits(
    trace: Columns, rank: int, thread: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return begin and end of a lane's waits, merged, and their sum up to each."""
    rows = _rows(trace, rank, thread)
    begin, end = (trace.columns[name][rows] for name in ("waited", "completed"))
    is_wait = end > begin
    begin, end = begin[is_wait], end[is_wait]
    if not len(begin):
        return begin, end, end
    order = np.argsort(begin)
    begin, end = begin[order], np.maximum.accumulate(end[order])
    starts = np.flatnonzero(np.append(True, begin[1:] > end[:-1]))
    begin, end = begin[starts], end[np.append(starts[1:] - 1, len(end) - 1)]
    return begin, end, np.cumsum(end - begin)


def _blocked_until(
    times: np.ndarray, begin: np.ndarray, end: np.ndarray, blocked: np.ndarray
) -> np.ndarray:
    """Return the seconds of waiting before each time."""
    if not len(begin):
        return np.zeros(len(times))
    points = np.stack([begin, end], axis=1).ravel()
    sums = np.stack([blocked - (end - begin), blocked], axis=1).ravel()
    return np.interp(times, points, sums)

"""One of several rounds in a trace, with what each rank computed in it.

Here you can cut a trace at its barriers (`round_of`), so that a picture of one round
begins at 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collectives_lab.trace.event import Event
from collectives_lab.trace.trace import Trace

Spans = Sequence[tuple[float, float]]
"""Begins and ends, in seconds since the barrier before them ended on the rank."""


def round_of(trace: Trace, number: int, computed: Sequence[Spans] = ()) -> Trace:
    """Return the calls after a barrier and before the next, with times since its end.

    number: of the barrier, from 0. Its end is the first one of a rank. computed: by
    rank, when it computed in this round, which the recorder cannot see; each span
    becomes a `compute` event. Raises ValueError if a rank has no such barrier that
    ended, or if there are spans of some ranks only.
    """
    if computed and len(computed) != trace.world_size:
        raise ValueError(
            f"spans of {len(computed)} ranks for a trace of {trace.world_size}; need a "
            "list of spans for each rank"
        )
    calls = [trace.of_rank(rank) for rank in range(trace.world_size)]
    cuts = [_barriers(rank, events, number) for rank, events in enumerate(calls)]
    ends = [
        events[first].completed or 0.0
        for events, (first, _) in zip(calls, cuts, strict=True)
    ]
    zero = min(ends)
    events: list[Event] = []
    for rank, ((first, last), end) in enumerate(zip(cuts, ends, strict=True)):
        own = [_since(zero, event) for event in calls[rank][first + 1 : last]]
        own += _computing(rank, end - zero, computed[rank] if computed else ())
        events += sorted(own, key=lambda event: event.issued or 0.0)
    return Trace.from_events(events, trace.world_size, trace.groups, meta=trace.meta)


def _barriers(rank: int, events: Sequence[Event], number: int) -> tuple[int, int]:
    """Return where among a rank's calls its barrier is, and where its round ends."""
    ended = [
        n
        for n, event in enumerate(events)
        if event.op == "barrier" and event.completed is not None
    ]
    if not 0 <= number < len(ended):
        raise ValueError(
            f"rank {rank} has {len(events)} calls with {len(ended)} barriers that "
            f"ended, and no barrier {number}; begin each round with dist.barrier()"
        )
    return ended[number], [*ended, len(events)][number + 1]


def _since(zero: float, event: Event) -> Event:
    names = ("issued", "waited", "completed")
    times = {name: getattr(event, name) for name in names}
    known = {name: time - zero for name, time in times.items() if time is not None}
    return replace(event, **known)


def _computing(rank: int, left: float, spans: Spans) -> Iterator[Event]:
    """Yield the computing of a rank that left the barrier at a time."""
    for begin, end in spans:
        yield Event(
            rank,
            "compute",
            issued=left + begin,
            completed=left + end,
            seconds=end - begin,
        )

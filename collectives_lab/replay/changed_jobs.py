"""Other jobs made from a recorded one: other buckets, more nodes, no slow rank.

Each of `rebucketed`, `on_more_nodes` and `without_slow_rank` gives a trace that can be
replayed with `compute=1`; its own times are those of `waiting.own_time`, so it is not
one to be drawn before it is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from collectives_lab.basics.units import format_bytes
from collectives_lab.trace import Event, Trace
from collectives_lab.trace.symmetry import as_rank
from collectives_lab.trace.waiting import own_time

BACKWARD = 2 / 3
"""Share of a step's computing that is its backward pass: two matrix products for each
one of the forward pass."""


def rebucketed(trace: Trace, nbytes: int) -> Trace:
    """Return a job of data parallelism with gradients in buckets of another size.

    Buckets are the asynchronous all_reduces of one group that a rank makes before it
    waits for the first of them. A new bucket is sent when its last gradient is ready.
    Inside of a recorded bucket gradients get ready evenly over the time since the one
    before; of the first bucket as fast as of the second, or if there is no other, over
    the last two thirds of the computing before it. Raises ValueError for a trace
    without buckets.
    """
    if nbytes < 1:
        raise ValueError(f"buckets of {nbytes} bytes; need 1 byte or more")
    own, events, has_pass = own_time(trace), [], False
    for rank in range(trace.world_size):
        own_events = own.of_rank(rank)
        for bucket_pass in _passes(own_events):
            has_pass = True
            own_events = [e for e in own_events if not any(e is b for b in bucket_pass)]
            own_events += _buckets(bucket_pass, nbytes, own_events)
        events += sorted(own_events, key=lambda e: e.issued or 0.0)
    if not has_pass:
        raise ValueError(
            "no rank makes an asynchronous all_reduce, so there are no buckets in this "
            "trace; need one of DistributedDataParallel"
        )
    return _like(own, events)


def _passes(events: Sequence[Event]) -> list[list[Event]]:
    """Return the buckets of each backward pass of a rank."""
    passes: list[list[Event]] = []
    until = -np.inf
    for event in events:
        if event.op != "all_reduce" or event.issued is None:
            continue
        is_next = bool(passes) and event.issued <= until and _alike(passes[-1], event)
        # The last bucket may be waited for at once, as a call that blocks is.
        if not is_next and event.waited == event.issued:
            continue
        if not is_next:
            passes.append([])
            until = np.inf
        passes[-1].append(event)
        until = min(until, np.inf if event.waited is None else event.waited)
    return passes


def _alike(buckets: Sequence[Event], event: Event) -> bool:
    first = buckets[0]
    return (first.group, first.dtype) == (event.group, event.dtype)


def _buckets(
    recorded: Sequence[Event], nbytes: int, others: Sequence[Event]
) -> list[Event]:
    """Return the buckets of one pass, of at most `nbytes` but for a rest."""
    ends = np.cumsum([event.nbytes for event in recorded])
    issued = np.array([event.issued for event in recorded])
    begin = _begin(recorded, issued, others)
    last = np.append(np.arange(nbytes, ends[-1], nbytes), ends[-1])
    ready = np.interp(last, np.append(0, ends), np.append(begin, issued))
    original = np.searchsorted(ends, last)
    sizes = np.diff(np.append(0, last))
    return [
        replace(recorded[o], nbytes=int(size), issued=float(at))
        for o, size, at in zip(original, sizes, ready, strict=True)
    ]


def _begin(
    recorded: Sequence[Event], issued: np.ndarray, others: Sequence[Event]
) -> float:
    """Return when the first gradient of a pass is ready."""
    before = [e.issued for e in others if e.op != "compute" and e.issued is not None]
    earliest = max((t for t in before if t <= issued[0]), default=None)
    if earliest is None:
        earliest = min((e.issued or 0.0 for e in others), default=issued[0])
    earliest = min(earliest, issued[0])
    if len(recorded) == 1:
        return float(issued[0] - BACKWARD * (issued[0] - earliest))
    pace = (issued[1] - issued[0]) / max(recorded[1].nbytes, 1)
    return float(max(earliest, issued[0] - pace * recorded[0].nbytes))


def on_more_nodes(trace: Trace, times: int, grow: Iterable[str] = ("0",)) -> Trace:
    """Return the job on `times` as many ranks: more replicas, each doing as before.

    Rank r + k P does what rank r of P does, each with as much data as before. grow: the
    groups that stretch over all replicas, the whole world for data parallelism; of the
    others each replica has its own, as of a node's tensor parallelism. Raises
    ValueError for a group that is not there.
    """
    size, grown = trace.world_size, set(grow)
    if times < 1:
        raise ValueError(f"{times} times the nodes; need 1 or more")
    if unknown := grown - trace.groups.keys():
        there = ", ".join(map(repr, trace.groups))
        raise ValueError(f"there is no group {unknown.pop()!r}; there are {there}")
    own, events = own_time(trace), []
    groups: dict[str, tuple[int, ...]] = {}
    for copy in range(times):
        for name, ranks in trace.groups.items():
            moved = tuple(r + copy * size for r in ranks)
            if name in grown:
                groups[name] = groups.get(name, ()) + moved
            else:
                groups[_copy(name, copy)] = moved
    for copy in range(times):
        events += [_copied(e, copy, size, grown) for e in own.events]
    return Trace.from_events(events, size * times, groups, meta=trace.meta)


def _copy(name: str, copy: int) -> str:
    # The whole world of the recording is no longer that of the job.
    return f"{name} of replica {copy}" if copy or name == "0" else name


def _copied(event: Event, copy: int, size: int, grown: set[str]) -> Event:
    by = copy * size
    is_grown = event.group in grown
    root = event.root
    return replace(
        event,
        rank=event.rank + by,
        group=event.group if is_grown else _copy(event.group, copy),
        peer=None if event.peer is None else event.peer + by,
        root=root if root is None or is_grown else root + by,
    )


def without_slow_rank(trace: Trace, rank: int) -> Trace:
    """Return the job with a rank that computes as the median of the others does.

    Raises ValueError for a rank that calls other things than they do.
    """
    own = own_time(trace)
    own_events = own.of_rank(rank)
    spans = {
        r: (events[-1].issued or 0.0) - (events[0].issued or 0.0)
        for r in range(own.world_size)
        if r != rank
        and _calls(events := own.of_rank(r)) == _calls(own_events)
        and events
    }
    if not spans:
        raise ValueError(
            f"no other rank makes the calls of rank {rank}, so there is nothing to "
            "compare its computing with"
        )
    donor = sorted(spans, key=lambda r: spans[r])[len(spans) // 2]
    names = {ranks: name for name, ranks in own.groups.items()}
    moved = as_rank(
        own.of_rank(donor), rank, own.world_size, own.groups, names.__getitem__
    )
    rest = (e for e in own.events if e.rank != rank)
    return _like(own, [*rest, *moved])


def _calls(events: Iterable[Event]) -> list[tuple[str, int]]:
    return [(e.op, e.nbytes) for e in events if e.op != "compute"]


def _like(trace: Trace, events: Iterable[Event]) -> Trace:
    return Trace.from_events(events, trace.world_size, trace.groups, meta=trace.meta)


def bucket_name(nbytes: int) -> str:
    """Return the name of the question for another size of buckets."""
    return f"buckets of {format_bytes(nbytes)}"

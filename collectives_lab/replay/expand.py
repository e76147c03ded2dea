"""Collectives opened: what a library call does inside, by the plan of an algorithm.

A rank runs the collectives of a group one after another in a stream of its own, as NCCL
does, so they go on while the caller computes. The stream begins a collective when the
caller has issued it, and the caller's wait ends when the stream is through: two signals
between lanes of one rank, which take no time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from collectives_lab import plans
from collectives_lab.basics.verbs import algorithms_of
from collectives_lab.plans.steps import Steps
from collectives_lab.replay.calls import Calls, by_lane
from collectives_lab.trace import Event, Trace

Plan = Callable[..., Trace]

USUAL: dict[str, str] = {
    "broadcast": "binomial",
    "scatter": "direct",
    "gather": "direct",
    "all_gather": "ring",
    "reduce": "binomial",
    "reduce_scatter": "ring",
    "all_reduce": "ring",
    "all_to_all": "pairwise",
}
"""The algorithm that stands for a library's verb unless another is asked for."""

_APART = 2.0**32
"""Between collectives on the clock of a stream; more steps than any plan has."""


def open_collectives(
    trace: Trace,
    calls: Calls,
    algorithms: Mapping[str, str | Plan],
    is_complete: bool = True,
) -> Calls:
    """Put the plan of its algorithm in the place of every collective of the trace.

    algorithms: by verb, the name of an algorithm (`"ring"`, `"ring_all_reduce"`) or a
    function `(world_size, nbytes, itemsize) -> Trace`. Raises ValueError for a verb or
    an algorithm that is not known, and for a collective that its ranks do not all call
    alike. In a trace that is not `is_complete` such a collective, and all that its
    group calls after it, stay closed: nothing answers them, so they never end.
    """
    for op in algorithms:
        if op not in USUAL:
            raise ValueError(f"{op!r} is no verb; need one of {', '.join(USUAL)}")
    inside = ~(trace.is_op("send") | trace.is_op("recv") | trace.is_op("compute"))
    if not inside.any():
        return calls
    found = _collectives(trace, np.flatnonzero(inside))
    call_of = np.empty(len(calls), dtype=np.int64)
    call_of[calls.row] = np.arange(len(calls))
    streams = _Streams(calls, call_of)
    for group, instances in found.items():
        for number, rows in enumerate(instances):
            if mismatch := _mismatch(trace, rows, group, number):
                if is_complete:
                    raise ValueError(mismatch)
                break
            plan = _plan_of(trace, rows, algorithms)
            streams.open(rows, _ranks_of(trace, group), plan, group, number)
    return by_lane(streams.calls())


def _collectives(trace: Trace, rows: np.ndarray) -> dict[str, list[dict[int, int]]]:
    """By group, its collectives in order: the row of each rank that calls it."""
    found: dict[str, list[dict[int, int]]] = defaultdict(list)
    calls: dict[tuple[str, int], int] = defaultdict(int)
    c = trace.columns
    for row in rows.tolist():
        group, rank = trace.texts[c["group"][row]], int(c["rank"][row])
        number = calls[group, rank]
        calls[group, rank] += 1
        if number == len(found[group]):
            found[group].append({})
        found[group][number][rank] = row
    return found


def _mismatch(trace: Trace, rows: dict[int, int], group: str, number: int) -> str:
    """Say which rank calls a collective unlike the others; empty if none does."""
    events = {rank: trace.event(row) for rank, row in rows.items()}
    one = next(iter(events.values()))
    for rank in _ranks_of(trace, group):
        other = events.get(rank)
        if other is None or other.op != one.op:
            does = "never comes to it" if other is None else f"calls {other.op}"
        elif one.op in _ANY_LENGTH and other.nbytes != one.nbytes:
            does = f"calls it with {other.nbytes} bytes, not {one.nbytes}"
        elif one.op in _ROOTED and (one.root is None or other.root != one.root):
            does = f"says that its root is {other.root}, not {one.root}"
        else:
            does = ""
        if does:
            return (
                f"rank {one.rank} calls {one.op}, number {number} of group {group!r}, "
                f"and rank {rank} {does}; need the same collective on all its ranks"
            )
    return ""


def _plan_of(
    trace: Trace, rows: dict[int, int], algorithms: Mapping[str, str | Plan]
) -> Trace:
    event = trace.event(next(iter(rows.values())))
    ranks = _ranks_of(trace, event.group)
    if event.op == "barrier":
        return _barrier(len(ranks))
    calls = [trace.event(rows[rank]) for rank in ranks]
    if any(call.splits for call in calls):
        return _uneven([_parts(call, len(ranks)) for call in calls])
    root = None if event.root is None else ranks.index(event.root)
    given = algorithms.get(event.op, USUAL.get(event.op))
    plan = given if callable(given) else _named(event.op, given)
    return _planned(plan, len(ranks), *_size(event, len(ranks)), root)


def _size(event: Event, world_size: int) -> tuple[int, int]:
    """Bytes and item size; shares that differ by rank are taken as equal ones."""
    itemsize = _ITEMSIZE.get(event.dtype, 1)
    whole = itemsize if event.op in _ANY_LENGTH else itemsize * world_size
    return -(-event.nbytes // whole) * whole, itemsize


def _parts(event: Event, world_size: int) -> list[int]:
    if event.splits:
        return [int(n) for n in event.splits.split(",")]
    return [event.nbytes // world_size] * world_size


def _uneven(parts: list[list[int]]) -> Trace:
    """A pairwise all_to_all, whatever was asked for, of parts with different sizes."""
    world_size = len(parts)
    steps, ranks, part = Steps(world_size), np.arange(world_size), np.array(parts)
    for k in range(1, world_size):
        to = (ranks + k) % world_size
        steps.step(ranks, to, part[ranks, to])
    return steps.trace()


def _ranks_of(trace: Trace, group: str) -> tuple[int, ...]:
    if group not in trace.groups:
        raise ValueError(
            f"no ranks are known of group {group!r}; need them in trace.groups"
        )
    return trace.groups[group]


_ANY_LENGTH = {"all_reduce", "reduce", "broadcast"}
_ROOTED = {"broadcast", "scatter", "gather", "reduce"}
_ITEMSIZE = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "complex64": 8, "complex128": 16,
}  # fmt: skip


def _named(op: str, name: str | None) -> Plan:
    known = algorithms_of(op, plans.__all__)
    short = str(name).removesuffix(f"_{op}")
    if short in known:
        return getattr(plans, f"{short}_{op}")
    have = f"there are {', '.join(known)}" if known else "there are none for this verb"
    raise ValueError(f"{op} by {name!r}: no such algorithm; {have}")


@lru_cache(maxsize=8)
def _planned(
    plan: Plan, world_size: int, nbytes: int, itemsize: int, root: int | None
) -> Trace:
    rooted = {} if root is None else {"root": root}
    made = plan(world_size, nbytes, itemsize, **rooted)
    if not isinstance(made, Trace) or made.world_size != world_size:
        raise ValueError(
            f"the plan {getattr(plan, '__name__', plan)} gives {made!r:.80}; need a "
            f"Trace of {world_size} ranks"
        )
    return made


@lru_cache(maxsize=8)
def _barrier(world_size: int) -> Trace:
    """Dissemination: in step k every rank tells the one 2**k after it, by one byte.

    Hensgen, Finkel, Manber 1988, section 4.
    """
    steps, ranks = Steps(world_size), np.arange(world_size)
    distance = 1
    while distance < world_size:
        steps.step(ranks, (ranks + distance) % world_size, 1)
        distance *= 2
    return steps.trace()


class _Streams:
    """Calls and messages that come to those of the threads."""

    def __init__(self, calls: Calls, call_of: np.ndarray):
        self._calls, self._call_of = calls, call_of
        self._lanes: dict[tuple[int, str], int] = {}
        self._new: dict[str, list] = defaultdict(list)
        self._messages: dict[str, list] = defaultdict(list)
        self._known = len(calls)

    def open(
        self,
        rows: dict[int, int],
        members: tuple[int, ...],
        plan: Trace,
        group: str,
        number: int,
    ) -> None:
        """Add one collective: its plan's calls, and the signals that frame it.

        rows: by rank, the row of the collective. members: the ranks of the group, in
        the order in which the plan numbers them.
        """
        ranks = np.array(members)
        base = number * _APART + 2
        c = plan.columns
        inner = self._add(
            ranks[c["rank"]], group, base + c["issued"], base + c["waited"]
        )
        send, recv = plan.pairs()
        self._join(inner[send], inner[recv], c["nbytes"][send], False)

        callers = self._call_of[[rows[rank] for rank in ranks.tolist()]]
        at, never = np.zeros(len(ranks)), np.full(len(ranks), np.nan)
        issued, lane = self._calls.issued[callers], self._calls.lane[callers]
        told = self._add(ranks, "", issued, never, lane)
        begins = self._add(ranks, group, at + base - 2, at + base - 1)
        done = self._add(ranks, group, at + base + _APART - 3, never)
        no_bytes = np.zeros(len(ranks), dtype=np.int64)
        self._join(told, begins, no_bytes, True)
        self._join(done, callers, no_bytes, True)

    def _add(
        self,
        rank: np.ndarray,
        group: str,
        issued: np.ndarray,
        waited: np.ndarray,
        lane: np.ndarray | None = None,
    ) -> np.ndarray:
        if lane is None:
            lanes = [(int(r), group) for r in rank.tolist()]
            for key in lanes:
                self._lanes.setdefault(key, self._calls.threads + len(self._lanes))
            lane = np.array([self._lanes[key] for key in lanes], dtype=np.int32)
        new = {"lane": lane, "rank": rank, "issued": issued, "waited": waited}
        for name, column in new.items():
            self._new[name].append(column)
        self._known += len(rank)
        return np.arange(self._known - len(rank), self._known)

    def _join(
        self, send: np.ndarray, recv: np.ndarray, nbytes: np.ndarray, is_signal: bool
    ) -> None:
        signals = np.full(len(send), is_signal)
        new = {"send": send, "recv": recv, "nbytes": nbytes, "is_signal": signals}
        for name, column in new.items():
            self._messages[name].append(column)

    def calls(self) -> Calls:
        """All calls, old and new, not yet sorted by lane."""
        c, n = self._calls, self._known - len(self._calls)
        self._new |= {"ended": [np.full(n, np.nan)], "seconds": [np.zeros(n)]}
        self._new["row"] = [np.full(n, -1, np.int32)]
        columns: dict[str, Any] = {}
        for name, parts in (self._new | self._messages).items():
            known = getattr(c, name)
            columns[name] = np.concatenate([known, *parts]).astype(known.dtype)
        return replace(c, **columns)

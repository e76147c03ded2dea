"""Expansion of collectives into messages, by the plan of an algorithm.

A rank runs the collectives of a group one after another in a separate stream, as NCCL
does, so they run while the caller computes. The stream begins a collective when the
caller has issued it, and the caller's wait ends when the stream has finished it: two
signals between lanes of one rank, which take no time.
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
"""The algorithm of each verb in a library, unless another is requested."""

_SPACING = 2.0**32
"""Time between collectives on the clock of a stream; more than the steps of a plan."""


def open_collectives(
    trace: Trace,
    calls: Calls,
    algorithms: Mapping[str, str | Plan],
    is_complete: bool = True,
) -> Calls:
    """Replace every collective of the trace by the plan of its algorithm.

    algorithms: by verb, the name of an algorithm (`"ring"`, `"ring_all_reduce"`) or a
    function `(world_size, nbytes, itemsize) -> Trace`. Raises ValueError for a verb or
    an algorithm that is not known, and for a collective that its ranks do not all call
    alike. In a trace that is not `is_complete` such a collective, and all that its
    group calls after it, stay closed: nothing answers them, so they never end.
    """
    for op in algorithms:
        if op not in USUAL:
            raise ValueError(f"{op!r} is no verb; need one of {', '.join(USUAL)}")
    is_collective = ~(
        trace.is_op("send") | trace.is_op("recv") | trace.is_op("compute")
    )
    if not is_collective.any():
        return calls
    collectives = _collectives(trace, np.flatnonzero(is_collective))
    call_of = np.empty(len(calls), dtype=np.int64)
    call_of[calls.row] = np.arange(len(calls))
    streams = _Streams(calls, call_of)
    for group, instances in collectives.items():
        for number, rows in enumerate(instances):
            if mismatch := _mismatch(trace, rows, group, number):
                if is_complete:
                    raise ValueError(mismatch)
                break
            plan = _plan_of(trace, rows, algorithms)
            streams.open(rows, _ranks_of(trace, group), plan, group, number)
    return by_lane(streams.calls())


def _collectives(trace: Trace, rows: np.ndarray) -> dict[str, list[dict[int, int]]]:
    """Return the collectives of each group in order, each as its row by rank."""
    collectives: dict[str, list[dict[int, int]]] = defaultdict(list)
    calls: dict[tuple[str, int], int] = defaultdict(int)
    columns = trace.columns
    for row in rows.tolist():
        group, rank = trace.texts[columns["group"][row]], int(columns["rank"][row])
        number = calls[group, rank]
        calls[group, rank] += 1
        if number == len(collectives[group]):
            collectives[group].append({})
        collectives[group][number][rank] = row
    return collectives


def _mismatch(trace: Trace, rows: dict[int, int], group: str, number: int) -> str:
    """Say which rank calls a collective unlike the others; empty if none does."""
    events = {rank: trace.event(row) for rank, row in rows.items()}
    first = next(iter(events.values()))
    for rank in _ranks_of(trace, group):
        other = events.get(rank)
        if other is None or other.op != first.op:
            difference = "never comes to it" if other is None else f"calls {other.op}"
        elif first.op in _ANY_LENGTH and other.nbytes != first.nbytes:
            difference = f"calls it with {other.nbytes} bytes, not {first.nbytes}"
        elif first.op in _ROOTED and (first.root is None or other.root != first.root):
            difference = f"says that its root is {other.root}, not {first.root}"
        else:
            difference = ""
        if difference:
            return (
                f"rank {first.rank} calls {first.op}, number {number} of group "
                f"{group!r}, and rank {rank} {difference}; need the same collective on "
                "all its ranks"
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
        return _uneven([_split_sizes(call, len(ranks)) for call in calls])
    root = None if event.root is None else ranks.index(event.root)
    algorithm = algorithms.get(event.op, USUAL.get(event.op))
    plan = algorithm if callable(algorithm) else _named(event.op, algorithm)
    return _planned(plan, len(ranks), *_size(event, len(ranks)), root)


def _size(event: Event, world_size: int) -> tuple[int, int]:
    """Return bytes and item size, rounded up so that the shares of ranks are equal."""
    itemsize = _ITEMSIZE.get(event.dtype, 1)
    multiple = itemsize if event.op in _ANY_LENGTH else itemsize * world_size
    return -(-event.nbytes // multiple) * multiple, itemsize


def _split_sizes(event: Event, world_size: int) -> list[int]:
    if event.splits:
        return [int(n) for n in event.splits.split(",")]
    return [event.nbytes // world_size] * world_size


def _uneven(sizes: list[list[int]]) -> Trace:
    """Plan a pairwise all_to_all of parts with different sizes."""
    world_size = len(sizes)
    steps, ranks, sizes_by_pair = (
        Steps(world_size),
        np.arange(world_size),
        np.array(sizes),
    )
    for k in range(1, world_size):
        peers = (ranks + k) % world_size
        steps.step(ranks, peers, sizes_by_pair[ranks, peers])
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
    names = algorithms_of(op, plans.__all__)
    short = str(name).removesuffix(f"_{op}")
    if short in names:
        return getattr(plans, f"{short}_{op}")
    alternatives = (
        f"there are {', '.join(names)}" if names else "there are none for this verb"
    )
    raise ValueError(f"{op} by {name!r}: no such algorithm; {alternatives}")


@lru_cache(maxsize=8)
def _planned(
    plan: Plan, world_size: int, nbytes: int, itemsize: int, root: int | None
) -> Trace:
    rooted = {} if root is None else {"root": root}
    trace = plan(world_size, nbytes, itemsize, **rooted)
    if not isinstance(trace, Trace) or trace.world_size != world_size:
        raise ValueError(
            f"the plan {getattr(plan, '__name__', plan)} gives {trace!r:.80}; need a "
            f"Trace of {world_size} ranks"
        )
    return trace


@lru_cache(maxsize=8)
def _barrier(world_size: int) -> Trace:
    """Plan a dissemination barrier: in step k rank r sends 1 byte to rank r + 2**k.

    Hensgen, Finkel, Manber 1988, section 4.
    """
    steps, ranks = Steps(world_size), np.arange(world_size)
    distance = 1
    while distance < world_size:
        steps.step(ranks, (ranks + distance) % world_size, 1)
        distance *= 2
    return steps.trace()


class _Streams:
    """Calls and messages of collectives, in addition to those of the threads."""

    def __init__(self, calls: Calls, call_of: np.ndarray):
        self._calls, self._call_of = calls, call_of
        self._lanes: dict[tuple[int, str], int] = {}
        self._new_columns: dict[str, list] = defaultdict(list)
        self._messages: dict[str, list] = defaultdict(list)
        self._call_count = len(calls)

    def open(
        self,
        rows: dict[int, int],
        members: tuple[int, ...],
        plan: Trace,
        group: str,
        number: int,
    ) -> None:
        """Add one collective: the calls of its plan, and the signals around them.

        rows: by rank, the row of the collective. members: the ranks of the group, in
        the order in which the plan numbers them.
        """
        ranks = np.array(members)
        base = number * _SPACING + 2
        columns = plan.columns
        plan_calls = self._add(
            ranks[columns["rank"]],
            group,
            base + columns["issued"],
            base + columns["waited"],
        )
        send, recv = plan.pairs()
        self._connect(
            plan_calls[send], plan_calls[recv], columns["nbytes"][send], False
        )

        callers = self._call_of[[rows[rank] for rank in ranks.tolist()]]
        zeros, never = np.zeros(len(ranks)), np.full(len(ranks), np.nan)
        issued, lane = self._calls.issued[callers], self._calls.lane[callers]
        starts = self._add(ranks, "", issued, never, lane)
        begins = self._add(ranks, group, zeros + base - 2, zeros + base - 1)
        ends = self._add(ranks, group, zeros + base + _SPACING - 3, never)
        no_bytes = np.zeros(len(ranks), dtype=np.int64)
        self._connect(starts, begins, no_bytes, True)
        self._connect(ends, callers, no_bytes, True)

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
        columns = {"lane": lane, "rank": rank, "issued": issued, "waited": waited}
        for name, column in columns.items():
            self._new_columns[name].append(column)
        self._call_count += len(rank)
        return np.arange(self._call_count - len(rank), self._call_count)

    def _connect(
        self, send: np.ndarray, recv: np.ndarray, nbytes: np.ndarray, is_signal: bool
    ) -> None:
        signals = np.full(len(send), is_signal)
        columns = {"send": send, "recv": recv, "nbytes": nbytes, "is_signal": signals}
        for name, column in columns.items():
            self._messages[name].append(column)

    def calls(self) -> Calls:
        """Return all calls, old and new, not yet sorted by lane."""
        calls, new_count = self._calls, self._call_count - len(self._calls)
        self._new_columns |= {
            "ended": [np.full(new_count, np.nan)],
            "seconds": [np.zeros(new_count)],
        }
        self._new_columns["row"] = [np.full(new_count, -1, np.int32)]
        columns: dict[str, Any] = {}
        for name, pieces in (self._new_columns | self._messages).items():
            column = getattr(calls, name)
            columns[name] = np.concatenate([column, *pieces]).astype(column.dtype)
        return replace(calls, **columns)

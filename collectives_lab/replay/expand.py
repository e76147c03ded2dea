"""Expansion of collectives into messages, by the plan of an algorithm.

A rank runs the collectives of a group one after another in a separate stream, as NCCL
does, so they run while the caller computes. The stream begins a collective when the
caller has issued it, and the caller's wait ends when the stream has finished it: two
signals between lanes of one rank, which take no time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from collectives_lab.fabrics import Fabric
from collectives_lab.replay.calls import Calls, by_lane
from collectives_lab.replay.collective_plans import (
    ANY_LENGTH,
    ROOTED,
    USUAL,
    Plan,
    plan_of,
    ranks_of,
)
from collectives_lab.trace import Trace
from collectives_lab.trace.table import KIND

MESSAGES = ("send", "recv", "is_signal")
"""Columns of `Calls` that have a row a message."""

_SPACING = 2.0**32
"""Time between collectives on the clock of a stream; more than the steps of a plan."""


def open_collectives(
    trace: Trace,
    calls: Calls,
    algorithms: Mapping[str, str | Plan],
    is_complete: bool = True,
    fabric: Fabric | None = None,
    library: str | None = None,
) -> Calls:
    """Replace every collective of the trace by the plan of its algorithm.

    algorithms: by verb, the name of an algorithm (`"ring"`, `"ring_all_reduce"`) or a
    function `(world_size, nbytes, itemsize) -> Trace`. library: whose plans they are on
    this fabric, and whose names, as in `libraries.plan`. Raises ValueError for a verb,
    algorithm or library that is not known, and for a collective that its ranks do not
    all call alike. In a trace that is not `is_complete` such a collective, and all that
    its group calls after it, stay closed: nothing answers them, so they never end.
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
            plan = plan_of(trace, rows, algorithms, fabric, library)
            streams.open(rows, ranks_of(trace, group), plan, group, number)
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
    for rank in ranks_of(trace, group):
        other = events.get(rank)
        if other is None or other.op != first.op:
            difference = "never comes to it" if other is None else f"calls {other.op}"
        elif first.op in ANY_LENGTH and other.nbytes != first.nbytes:
            difference = f"calls it with {other.nbytes} bytes, not {first.nbytes}"
        elif first.op in ROOTED and (first.root is None or other.root != first.root):
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
            nbytes=columns["nbytes"],
        )
        send, recv = plan.pairs()
        self._connect(plan_calls[send], plan_calls[recv], False)

        callers = self._call_of[[rows[rank] for rank in ranks.tolist()]]
        zeros, never = np.zeros(len(ranks)), np.full(len(ranks), np.nan)
        issued, lane = self._calls.issued[callers], self._calls.lane[callers]
        # Before the call itself, or computing that begins with it would come between.
        starts = self._add(ranks, "", np.nextafter(issued, -np.inf), never, lane=lane)
        begins = self._add(ranks, group, zeros + base - 2, zeros + base - 1)
        ends = self._add(ranks, group, zeros + base + _SPACING - 3, never)
        self._connect(starts, begins, True)
        self._connect(ends, callers, True)

    def _add(
        self,
        rank: np.ndarray,
        group: str,
        issued: np.ndarray,
        waited: np.ndarray,
        lane: np.ndarray | None = None,
        nbytes: np.ndarray | None = None,
    ) -> np.ndarray:
        nbytes = np.zeros(len(rank), np.int64) if nbytes is None else nbytes
        if lane is None:
            lanes = [(int(r), group) for r in rank.tolist()]
            for key in lanes:
                self._lanes.setdefault(key, self._calls.threads + len(self._lanes))
            lane = np.array([self._lanes[key] for key in lanes], dtype=np.int32)
        columns = {"lane": lane, "rank": rank, "nbytes": nbytes}
        for name, column in (columns | {"issued": issued, "waited": waited}).items():
            self._new_columns[name].append(column)
        self._call_count += len(rank)
        return np.arange(self._call_count - len(rank), self._call_count)

    def _connect(self, send: np.ndarray, recv: np.ndarray, is_signal: bool) -> None:
        signals = np.full(len(send), is_signal)
        columns = {"send": send, "recv": recv, "is_signal": signals}
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
            kind = KIND.get(name, column.dtype)  # a trace's own may be too narrow
            columns[name] = np.concatenate(
                [column, *pieces], dtype=kind, casting="unsafe"
            )
        calls = replace(calls, **columns)
        # Signals first, so that a message waits for what is posted at the same time.
        order = np.argsort(~calls.is_signal, kind="stable")
        messages = {name: getattr(calls, name)[order] for name in MESSAGES}
        return replace(calls, **messages)

"""A trace as a file for Perfetto, the viewer of Chrome's trace-event format.

Here you can make the rows (`chrome`), which `Trace.save_chrome` writes. The format is
documented as "Trace Event Format" by the Chromium project.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from collectives_lab.trace.columns import Columns
from collectives_lab.trace.event import Event

_LANES = 1000
"""Row numbers that a thread has in Chrome's format."""


def chrome(trace: Columns) -> dict[str, Any]:
    """Return the trace in Chrome's trace-event format, with a process for each rank.

    Open the JSON in https://ui.perfetto.dev. Messages are arrows, and overlapping calls
    have separate rows; events without times are left out.
    """
    rows: list[dict[str, Any]] = []
    for rank in range(trace.world_size):
        name = {"name": f"rank {rank}"}
        rows.append({"ph": "M", "name": "process_name", "pid": rank, "args": name})
    lanes = _lanes(trace.events)
    for event, lane in zip(trace.events, lanes, strict=True):
        rows += _slices(event, lane)
    for n, (i, j) in enumerate(zip(*trace.pairs(), strict=True)):
        rows += _arrow(n, trace.event(i), trace.event(j), lanes[i], lanes[j])
    return {"traceEvents": rows, "displayTimeUnit": "ms"}


def _lanes(events: Iterable[Event]) -> list[int]:
    """Return a row for each event: the first of its thread's rows in which it nests.

    Perfetto drops a slice that partly overlaps another.
    """
    rows: list[int] = []
    under_way: dict[tuple[int, int], list[list[tuple[float, float]]]] = {}
    for event in events:
        begin = event.issued or 0.0
        end = begin if event.completed is None else event.completed
        lanes = under_way.setdefault((event.rank, event.thread), [])
        for lane in lanes:
            while lane and lane[-1][1] <= begin:
                lane.pop()
        free = (n for n, lane in enumerate(lanes) if not lane or end <= lane[-1][0])
        number = next(free, len(lanes))
        if number == len(lanes):
            lanes.append([])
        # A nested call must end before the slice of this call's wait begins.
        begins_to_wait = end if event.waited is None else min(event.waited, end)
        lanes[number].append((begins_to_wait, end))
        rows.append(_LANES * event.thread + number)
    return rows


def _slices(event: Event, lane: int) -> list[dict[str, Any]]:
    """Return a slice for the call and, nested in it, one for its blocked time."""
    if event.issued is None:
        return []
    end = event.issued if event.completed is None else event.completed
    place = {"pid": event.rank, "tid": lane, "ph": "X", "cat": "comm"}
    args = {
        name: value
        for name in ("nbytes", "peer", "root", "tag", "group", "variant", "where")
        if (value := getattr(event, name)) not in (None, "")
    }
    start, duration = event.issued * 1e6, (end - event.issued) * 1e6
    rows = [place | {"name": event.op, "ts": start, "dur": duration, "args": args}]
    waited = event.waited
    # A call may have ended before it is waited for.
    if waited is not None and event.completed is not None and waited <= end:
        blocked = {"name": "blocked", "ts": waited * 1e6, "dur": (end - waited) * 1e6}
        rows.append(place | blocked)
    return rows


def _arrow(
    number: int, send: Event, recv: Event, tail: int, tip: int
) -> list[dict[str, Any]]:
    if send.issued is None or recv.completed is None:
        return []
    arrow = {"name": "message", "cat": "message", "id": number}
    start = {"ph": "s", "pid": send.rank, "tid": tail, "ts": send.issued * 1e6}
    end = {"ph": "f", "bp": "e", "pid": recv.rank, "tid": tip}
    return [arrow | start, arrow | end | {"ts": recv.completed * 1e6}]

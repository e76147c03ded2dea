"""The calls of a rank as nodes of a Chakra trace, and what each depends on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from collectives_lab.formats.chakra_schema import COLLECTIVES, NODE_TYPES, messages
from collectives_lab.trace import Event, Trace

SCHEMA = "1.0.2-chakra.0.0.4"
OWN = "collectives_lab"
"""The attribute that holds what Chakra has no field for."""

TYPES = {"send": "COMM_SEND_NODE", "recv": "COMM_RECV_NODE", "compute": "COMP_NODE"}
NUMBERS = {verb: number for number, verb in reversed(COLLECTIVES.items())}
GAP = "between calls"
SHORTEST = 0.5e-6
"""Seconds of computing between calls that become a node; Chakra counts microseconds."""

_DEFAULTS = {f.name: f.default for f in fields(Event)}


def metadata_of(trace: Trace, rank: int) -> Any:
    """Return the first message of a rank's file."""
    metadata = messages().GlobalMetadata(version=SCHEMA.rpartition("chakra.")[2])
    own = {
        "rank": rank,
        "world_size": trace.world_size,
        "groups": trace.groups,
        "meta": trace.meta,
    }
    for name, value in (("schema", SCHEMA), (OWN, json.dumps(own))):
        metadata.attr.add(name=name).string_val = value
    return metadata


def write_groups(trace: Trace, path: Path) -> None:
    """Write the ranks of groups other than all; no file if there is none."""
    others = {str(n): list(trace.groups[name]) for name, n in numbered(trace).items()}
    if others:
        path.write_text(json.dumps(others))


def numbered(trace: Trace) -> dict[str, int]:
    """Return a number for each group other than all ranks: ASTRA-sim has no names."""
    return {name: n for n, name in enumerate((g for g in trace.groups if g != "0"), 1)}


def comm_size(event: Event, ranks: int) -> int:
    """Return the bytes that ASTRA-sim counts: of an all_gather, what one rank has."""
    return event.nbytes // ranks if event.op == "all_gather" else event.nbytes


def nodes_of(trace: Trace, rank: int) -> Iterator[Any]:
    """Yield the nodes of a rank in the order of its calls.

    A node depends on all that its thread has waited for before, directly or by others.
    """
    events = trace.of_rank(rank)
    groups = numbered(trace)
    is_timed = trace.meta.get("clock") != "steps"
    for thread in sorted({event.thread for event in events}):
        numbers = [n for n, e in enumerate(events) if e.thread == thread]
        needed: dict[int, set[int]] = {}
        anchors: set[int] = set()
        since: float | None = None
        for kind, n in _points(events, numbers):
            event, number = events[n], 3 * n
            now = event.waited if kind == "wait" else event.issued
            is_known = is_timed and now is not None and since is not None
            gap = (now or 0.0) - (since or 0.0) if is_known else 0.0
            if gap > SHORTEST:
                number += 2 * (kind == "wait")
                yield _node(number, GAP, "COMP_NODE", anchors, gap)
                anchors = {number}
            if kind == "wait":
                anchors = (anchors - needed[n]) | {3 * n + 1}
                since = _end(event)
            else:
                needed[n] = set(anchors)
                yield _call(trace, event, 3 * n + 1, anchors, groups, n)
                since = event.issued


def _end(event: Event) -> float | None:
    """Return when a rank went on after a call or a compute, where that is known."""
    if event.op == "compute" and event.issued is not None:
        return event.issued + (event.seconds or 0.0)
    return event.completed


def _points(events: list[Event], numbers: list[int]) -> Iterator[tuple[str, int]]:
    """Yield the calls and waits of a thread, by time; at one time calls come first.

    A call without times is waited for at once, unless it is an isend or irecv.
    """
    points: list[tuple[float, int, int, str]] = []
    is_timed = all(events[n].issued is not None for n in numbers)
    for place, n in enumerate(numbers):
        event = events[n]
        issued = event.issued if is_timed and event.issued is not None else place
        waited = event.waited if is_timed else None
        is_late = event.variant in ("isend", "irecv") and waited is None
        points.append((issued, 0, n, "call"))
        if event.op == "compute" or (not is_timed and not is_late):
            points.append((issued, 1, n, "wait"))
        elif waited is not None:
            points.append((waited, 1, n, "wait"))
    return ((kind, n) for _, _, n, kind in sorted(points))


def _node(
    number: int, name: str, kind: str, anchors: set[int], seconds: float | None
) -> Any:
    node = messages().Node(id=number, name=name, type=NODE_TYPES[kind])
    node.data_deps.extend(sorted(anchors))
    if seconds is not None:
        node.duration_micros = max(round(seconds * 1e6), 1)
    node.attr.add(name="is_cpu_op").bool_val = False
    return node


def _call(
    trace: Trace,
    event: Event,
    number: int,
    anchors: set[int],
    groups: dict[str, int],
    place: int,
) -> Any:
    """Return the node of a call, with the attributes that ASTRA-sim reads."""
    kind = TYPES.get(event.op, "COMM_COLL_NODE")
    node = _node(number, event.op, kind, anchors, _seconds(event))
    values = {f: v for f, v in asdict(event).items() if v != _DEFAULTS.get(f)}
    own = {"place": place, "event": values}
    if kind == "COMM_COLL_NODE":
        if event.op not in NUMBERS:
            raise ValueError(
                f"rank {event.rank}: {event.op} is no verb of Chakra; need one of "
                f"{', '.join(sorted(NUMBERS))}"
            )
        ranks = len(trace.groups.get(event.group, trace.groups["0"]))
        node.attr.add(name="comm_type").int64_val = NUMBERS[event.op]
        node.attr.add(name="comm_size").int64_val = comm_size(event, ranks)
        if event.root is not None:
            node.attr.add(name="root").int64_val = event.root
    elif event.op != "compute":
        ends = (event.rank, event.peer if event.peer is not None else -1)
        src, dst = ends if event.op == "send" else ends[::-1]
        node.attr.add(name="comm_src").int32_val = src
        node.attr.add(name="comm_dst").int32_val = dst
        node.attr.add(name="comm_size").int64_val = event.nbytes
        node.attr.add(name="comm_tag").int32_val = event.tag
    if event.group in groups:
        node.attr.add(name="pg_name").string_val = str(groups[event.group])
    node.attr.add(name=OWN).string_val = json.dumps(own)
    return node


def _seconds(event: Event) -> float | None:
    """Return how long a call took, where that is known."""
    if event.op == "compute":
        return event.seconds or 0.0
    if event.issued is None or event.completed is None:
        return None
    return max(event.completed - event.issued, 0.0)

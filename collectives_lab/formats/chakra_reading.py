"""Nodes of Chakra traces as the events of a Trace."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from collectives_lab.formats.chakra_schema import COLLECTIVES, NODE_TYPES
from collectives_lab.formats.chakra_writing import OWN
from collectives_lab.trace import Event, Trace

KINDS = {number: name for name, number in NODE_TYPES.items()}
MESSAGES = {"COMM_SEND_NODE": "send", "COMM_RECV_NODE": "recv"}
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def trace_of_files(files: Sequence[Path], parts: Sequence[tuple[Any, list]]) -> Trace:
    """Return the Trace of the metadata and nodes of all ranks."""
    own = _attributes(parts[0][0]).get(OWN)
    if own is not None:
        return _own_trace(files, parts)
    groups = _groups(files[0], len(files))
    events = [
        event
        for rank, (file, (_, nodes)) in enumerate(zip(files, parts, strict=True))
        for event in _events(file, rank, len(files), nodes, groups)
    ]
    return Trace.from_events(events, len(files), groups, meta={"clock": "steps"})


def _attributes(message: Any) -> dict[str, Any]:
    """Return the values of attributes by name."""
    values: dict[str, Any] = {}
    for attribute in message.attr:
        kind = attribute.WhichOneof("value")
        if kind is not None:
            value = getattr(attribute, kind)
            values[attribute.name] = list(value.values) if "list" in kind else value
    return values


# -- what we wrote ourselves -----------------------------------------------------------


def _own_trace(files: Sequence[Path], parts: Sequence[tuple[Any, list]]) -> Trace:
    """Return a trace that `write_chakra` wrote, as it was."""
    try:
        heads = [json.loads(_attributes(head)[OWN]) for head, _ in parts]
        head = heads[0]
        if head["world_size"] != len(files):
            raise ValueError(f"{head['world_size']} ranks, and {len(files)} files")
        calls = [
            [
                json.loads(values[OWN])
                for values in map(_attributes, nodes)
                if OWN in values
            ]
            for _, nodes in parts
        ]
        events = [
            Event(**call["event"])
            for of_rank in calls
            for call in sorted(of_rank, key=lambda call: call["place"])
        ]
        groups = {name: tuple(ranks) for name, ranks in head["groups"].items()}
        return Trace.from_events(events, len(files), groups, meta=head["meta"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{files[0].parent}: the attribute {OWN!r} is not as `write_chakra` writes "
            f"it: {error}"
        ) from None


# -- what others wrote -----------------------------------------------------------------


def _groups(file: Path, world_size: int) -> dict[str, tuple[int, ...]]:
    """Return the groups of the file beside the traces that ASTRA-sim reads."""
    path = file.with_name(file.name.removesuffix(".0.et") + ".groups.json")
    if not path.exists():
        return {}
    try:
        groups = json.loads(path.read_text())
        members = {str(name): tuple(map(int, ranks)) for name, ranks in groups.items()}
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"{path}: need ranks by group, {{'1': [0, 1]}}") from None
    for name, ranks in members.items():
        if not ranks or not all(0 <= rank < world_size for rank in ranks):
            raise ValueError(
                f"{path}: group {name} has {ranks}; need ranks of the trace"
            )
    return members


def _events(
    file: Path,
    rank: int,
    world_size: int,
    nodes: list,
    groups: dict[str, tuple[int, ...]],
) -> Iterator[Event]:
    """Yield the calls of a rank: issued in order, waited for by the first that needs.

    Times are places in the order: a wait comes just before the call that needs it. A
    recv is posted before all else, since ASTRA-sim keeps what arrives early, so that a
    send ends whether or not its receiver has come to the recv.
    """
    ordered = _in_order(file, nodes)
    place = {node.id: n for n, node in enumerate(ordered)}
    waited = [len(ordered)] * len(ordered)
    for n, node in enumerate(ordered):
        for needed in (*node.data_deps, *node.ctrl_deps):
            waited[place[needed]] = min(waited[place[needed]], n)
    for n, node in enumerate(ordered):
        event = _event(file, rank, world_size, node, groups)
        if event is not None:
            is_recv = event["op"] == "recv"
            event["issued"] = float(n - len(ordered)) if is_recv else 2.0 * n
            if event["op"] != "compute":
                event["waited"] = 2.0 * waited[n] - 1
            yield Event(rank, **event)


def _in_order(file: Path, nodes: list) -> list:
    """Return the nodes, each after those that it needs; of several, the lowest id."""
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        raise ValueError(f"{file}: two nodes have one id; need each once")
    needs = {node.id: {*node.data_deps, *node.ctrl_deps} for node in nodes}
    users: dict[int, list[int]] = {}
    for number, needed in needs.items():
        for other in needed:
            if other not in by_id:
                raise ValueError(
                    f"{file}: node {number} depends on node {other}, which is not there"
                )
            users.setdefault(other, []).append(number)
    ready = [number for number, needed in needs.items() if not needed]
    heapq.heapify(ready)
    ordered = []
    while ready:
        number = heapq.heappop(ready)
        ordered.append(by_id[number])
        for user in users.get(number, ()):
            needs[user].discard(number)
            if not needs[user]:
                heapq.heappush(ready, user)
    if len(ordered) < len(nodes):
        stuck = sorted(set(by_id) - {node.id for node in ordered})
        raise ValueError(
            f"{file}: nodes {stuck[:4]} depend on each other in a circle, so none of "
            "them can begin"
        )
    return ordered


def _event(
    file: Path,
    rank: int,
    world_size: int,
    node: Any,
    groups: dict[str, tuple[int, ...]],
) -> dict[str, Any] | None:
    """Return the fields of a node's event; None for a node that is no call."""
    kind, values = KINDS.get(node.type, ""), _attributes(node)
    if kind == "COMP_NODE":
        return {"op": "compute", "seconds": node.duration_micros * 1e-6}
    if kind in MESSAGES:
        peer = _number(file, node, values, "comm_dst" if kind[5] == "S" else "comm_src")
        return {
            "op": MESSAGES[kind],
            "nbytes": _number(file, node, values, "comm_size"),
            "peer": peer,
            "tag": int(values.get("comm_tag", 0)),
        }
    if kind != "COMM_COLL_NODE":
        return None
    number = _number(file, node, values, "comm_type")
    if number not in COLLECTIVES:
        raise ValueError(f"{file}: node {node.id} has comm_type {number}; need 0 to 9")
    op, group = COLLECTIVES[number], str(values.get("pg_name", "")) or "0"
    ranks = groups.get(group, tuple(range(world_size)) if group == "0" else None)
    if ranks is None:
        raise ValueError(
            f"{file}: node {node.id} is in group {group!r}, whose ranks are not known; "
            "need them in NAME.groups.json beside the files, {'1': [0, 1]}"
        )
    size = _number(file, node, values, "comm_size") if op != "barrier" else 0
    root = int(values.get("root", ranks[0])) if op in ROOTED else None
    nbytes = size * len(ranks) if op == "all_gather" else size
    return {"op": op, "nbytes": nbytes, "group": group, "root": root}


def _number(file: Path, node: Any, values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(
            f"{file}: node {node.id} ({node.name!r:.40}) has {name} {value!r:.20}; "
            "need a whole number, 0 or more"
        )
    return value

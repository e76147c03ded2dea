"""Parts of a Flight Recorder dump, in the form in which NCCL's process group writes it.

For dumps of jobs that are played on paper. The fields are those of torch's
`FlightRecorderDetail.hpp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Shapes = Sequence[Sequence[int]]


def config(groups: Mapping[str, tuple[str, list[int]]], rank: int) -> dict[str, Any]:
    """Return the groups that a rank is in; groups: by name, description and ranks."""
    return {
        name: {"name": name, "desc": description, "ranks": str(ranks)}
        for name, (description, ranks) in groups.items()
        if rank in ranks
    }


def status(
    enqueued: Sequence[int], started: Sequence[int], completed: Sequence[int]
) -> dict[str, int]:
    """Return how far a group is, by the numbers of its collectives."""
    return {
        "last_enqueued_collective": max(enqueued, default=-1),
        "last_started_collective": max(started, default=-1),
        "last_completed_collective": max(completed, default=-1),
    }


def tensors(inputs: Shapes, outputs: Shapes, dtype: str) -> dict[str, Any]:
    """Return what an entry says of its tensors."""
    fields: dict[str, Any] = {}
    for way, shapes in (("input", inputs), ("output", outputs)):
        fields[f"{way}_sizes"] = [list(shape) for shape in shapes]
        fields[f"{way}_dtypes"] = [dtype] * len(shapes)
    return fields


def progress(started: int | None, ended: int | None) -> dict[str, Any]:
    """Return how far an entry is, by the times at which that was discovered."""
    return {
        "state": "completed" if ended else "started" if started else "scheduled",
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": ended,
        "retired": bool(ended),
    }


def frames(*places: tuple[str, str, int]) -> list[dict[str, Any]]:
    """Return a stack, innermost first, of function, file and line."""
    return [{"name": n, "filename": f, "line": line} for n, f, line in places]


def as_json(dump: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dump as JSON has it: no frames, 0 for no time, numbers as text."""
    times = ("time_discovered_started_ns", "time_discovered_completed_ns")
    entries = []
    for entry in dump["entries"]:
        kept = {name: value for name, value in entry.items() if name != "frames"}
        entries.append(kept | {name: entry[name] or 0 for name in times})
    numbers = {
        name: {key: str(value) for key, value in numbers.items()}
        for name, numbers in dump["pg_status"].items()
    }
    return {**dump, "entries": entries, "pg_status": numbers}

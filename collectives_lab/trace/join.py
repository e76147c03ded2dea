"""A recording in a folder: one part a rank, joined to one Trace.

Each rank of a job on several machines writes its own part, `rank_2_of_4.npz`: a Trace
with the events of that rank and what the others need to fit theirs to it. Here you can
`write` a part and `join` those of a folder, with all times on rank 0's clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from collectives_lab.trace.clocks import Clock, Reading
from collectives_lab.trace.columns import Columns
from collectives_lab.trace.event import Event
from collectives_lab.trace.wire_bytes import wire_matrix

T = TypeVar("T", bound=Columns)

NAME = re.compile(r"rank_\d+_of_\d+\.npz")
"""What a part is called, and nothing else is."""

TIMES = ("issued", "waited", "completed")

TEXTS = tuple(f.name for f in fields(Event) if f.type == "str")
"""Columns that hold numbers of a trace's texts."""

ALL_WAIT = ("all_reduce", "all_gather", "reduce_scatter", "barrier")
"""Verbs that end on no rank before all have called them."""


@dataclass
class Part:
    """What is known of one rank beside its events.

    run: the same for all parts of one recording. clock: what its clock is called.
    readings: of that clock against rank 0's. began, ended: on that clock. how: the
    error that ended the block; empty if it went well. wire: bytes sent on each
    connection meanwhile. environment: host, versions and backend.
    """

    rank: int
    world_size: int
    run: str
    clock: str
    readings: list[Reading]
    began: float
    ended: float = 0.0
    how: str = ""
    wire: list = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)

    def path(self, folder: Path) -> Path:
        return folder / f"rank_{self.rank}_of_{self.world_size}.npz"


def write(
    folder: Path,
    part: Part,
    events: Iterable[Event],
    groups: Mapping[str, tuple[int, ...]],
) -> Path:
    """Write a rank's part, all of it or nothing; an older one is replaced."""
    trace = Columns.from_events(
        events, part.world_size, groups, meta={"part": asdict(part)}
    )
    unfinished, path = folder / f".rank_{part.rank}.unfinished.npz", part.path(folder)
    try:
        os.replace(trace.save(unfinished), path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return path


def clear(folder: Path, run: str) -> None:
    """Remove the parts of other recordings from a folder."""
    for path in _found(folder.iterdir()):
        try:
            if Columns.load(path).meta["part"]["run"] == run:
                continue
        except FileNotFoundError:
            continue  # another rank was quicker
        except (ValueError, KeyError):
            pass
        path.unlink(missing_ok=True)


def _found(paths: Iterable[Path]) -> list[Path]:
    """Those that are called as parts are, in order."""
    return sorted(path for path in paths if NAME.fullmatch(path.name))


def join(folder: str | Path, of: type[T], partial: bool = False) -> T:
    """Join the parts in a folder, and in the folders in it, to one trace of type `of`.

    Times are those of rank 0's clock, seconds from when the first rank began.
    `meta["clocks"]` says how well that is known: `error`, a bound in seconds for any
    time, and by rank, if clocks went evenly from the beginning to the end; `early`, how
    many messages and collectives seem to end before another rank has begun them, and
    `earliest`, by how much at most: what exceeds the bound shows how far they did not.
    partial: take what is there, where parts are missing.
    Raises ValueError for parts that are missing, doubled or of several recordings.
    """
    found = _found(Path(folder).rglob("*.npz"))
    parts = [_read(path) for path in found]
    if not parts:
        raise ValueError(
            f"{folder} holds no part of a recording (rank_0_of_4.npz, ...); each rank "
            "writes its own when it leaves `with lab.record(folder):`"
        )
    _check_runs(folder, found, [part for part, _ in parts])
    _check(folder, parts, partial)
    parts.sort(key=lambda part: part[0].rank)
    clocks = _clocks([part for part, _ in parts])
    begun = min(_there(clocks[p.clock], p.began) for p, _ in parts)
    traces = [_aligned(trace, clocks[p.clock], begun) for p, trace in parts]
    return _one(of, [part for part, _ in parts], traces, clocks)


def _read(path: Path) -> tuple[Part, Columns]:
    trace = Columns.load(path)
    try:
        part = Part(**trace.meta["part"])
    except (KeyError, TypeError):
        raise ValueError(f"{path} is a trace, but no part of a recording") from None
    part.readings = [Reading(*reading) for reading in part.readings]
    return part, trace


def _check_runs(folder: str | Path, paths: list[Path], parts: list[Part]) -> None:
    """All parts are of one recording, or the error says where each one lies."""
    runs: dict[str, list[tuple[int, Path]]] = {}
    for path, part in zip(paths, parts, strict=True):
        runs.setdefault(part.run, []).append((part.rank, path))
    if len(runs) == 1:
        return
    told, alone = [], True
    for found in runs.values():
        home = Path(os.path.commonpath([path.parent for _, path in found]))
        told.append(f"{_ranks(rank for rank, _ in found)} in {home}")
        alone &= sum(path.is_relative_to(home) for path in paths) == len(found)
    advice = f'Load one of them: Trace.load("{home}")'
    if not alone:
        advice = "Keep each in a folder of its own"
    raise ValueError(
        f"{folder} holds parts of {len(runs)} recordings: {'; '.join(told)}. {advice}"
    )


def _check(
    folder: str | Path, parts: list[tuple[Part, Columns]], partial: bool
) -> None:
    world_size = parts[0][0].world_size
    there = [part.rank for part, _ in parts]
    if doubled := {rank for rank in there if there.count(rank) > 1}:
        raise ValueError(f"{folder} holds the part of {_ranks(doubled)} twice")
    missing = set(range(world_size)) - set(there)
    if missing and not partial:
        raise ValueError(
            f"{folder} lacks {_ranks(missing)} of {world_size}: killed before it could "
            "write, or its folder is on another host and was not copied here. "
            "Trace.load(folder, partial=True) takes what there is"
        )


def _ranks(ranks: Iterable[int]) -> str:
    numbers = sorted(ranks)
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _clocks(parts: list[Part]) -> dict[str, Clock]:
    """One clock for all ranks that share it."""
    reference = {part.clock for part in parts if part.rank == 0}
    shared: dict[str, list[list[Reading]]] = {}
    for part in parts:
        shared.setdefault(part.clock, []).append(part.readings)
    return {name: Clock.of(r, name in reference) for name, r in shared.items()}


def _there(clock: Clock, time: float) -> float:
    return float(clock.at_reference(np.array(time)))


def _aligned(trace: Columns, clock: Clock, begun: float) -> Columns:
    for name in TIMES:
        trace.columns[name] = clock.at_reference(trace.columns[name]) - begun
    return trace


def _one(
    of: type[T], parts: list[Part], traces: list[Columns], clocks: Mapping[str, Clock]
) -> T:
    groups = {name: ranks for trace in traces for name, ranks in trace.groups.items()}
    world_size = parts[0].world_size
    joined = of(world_size, *_columns(traces), groups, _wire(parts))
    joined.meta["clocks"] = _told(parts, clocks) | early(joined)
    joined.meta["environment"] = {str(part.rank): part.environment for part in parts}
    if failed := {str(part.rank): part.how for part in parts if part.how}:
        joined.meta["ended"] = failed
    if missing := sorted(set(range(world_size)) - {part.rank for part in parts}):
        joined.meta["missing"] = missing
    return joined


def _columns(traces: list[Columns]) -> tuple[dict[str, np.ndarray], list[str]]:
    """The columns of several traces, one below the other, and their texts."""
    texts: dict[str, int] = {}
    columns: dict[str, list] = {name: [] for name in traces[0].columns}
    for trace in traces:
        known = [texts.setdefault(text, len(texts)) for text in trace.texts]
        for name, column in trace.columns.items():
            columns[name].append(np.array(known)[column] if name in TEXTS else column)
    return {name: np.concatenate(some) for name, some in columns.items()}, list(texts)


def _told(parts: list[Part], clocks: Mapping[str, Clock]) -> dict[str, Any]:
    """How well the clocks are known."""
    errors = {str(p.rank): clocks[p.clock].error(p.ended) for p in parts}
    drifts = {str(p.rank): clocks[p.clock].drift for p in parts}
    return {
        "count": len(clocks),
        "reference": 0,
        "error": max(errors.values()),
        "error_by_rank": errors,
        "drift_by_rank": drifts,
    }


def early(trace: Columns) -> dict[str, Any]:
    """How many calls seem to end before another rank's part began, and by what at most.

    None can. So where this is more than the error, the clocks went unevenly.
    """
    sends, recvs = trace.pairs()
    times = trace.columns
    took = [times["completed"][recvs] - times["issued"][sends], *_took(trace)]
    wrong = np.concatenate(took)
    wrong = wrong[wrong < 0]
    return {"early": len(wrong), "earliest": float(np.abs(wrong).max(initial=0.0))}


def _took(trace: Columns) -> Iterator[np.ndarray]:
    """Measure collectives that wait for all: from the last call to the first end."""
    times, ranks = trace.columns, trace.columns["rank"]
    for op in ALL_WAIT:
        moves = trace.is_op(op) & ((times["nbytes"] > 0) | (op == "barrier"))
        for group in np.unique(times["group"][moves]):
            rows = np.flatnonzero(moves & (times["group"] == group))
            by_rank = [rows[ranks[rows] == rank] for rank in np.unique(ranks[rows])]
            n = min(map(len, by_rank))
            calls = np.stack([rows[:n] for rows in by_rank])
            ended = np.fmin.reduce(times["completed"][calls])
            yield ended - np.fmax.reduce(times["issued"][calls])


def _wire(parts: list[Part]) -> np.ndarray | None:
    """Bytes on the wire between the ranks; None where somebody's are not known."""
    counted: list[dict] = [{} for _ in range(parts[0].world_size)]
    for part in parts:
        host = part.environment.get("host", "")
        for local, remote, sent in part.wire:
            counted[part.rank][_end(local, host), _end(remote, host)] = sent
    return wire_matrix([{} for _ in counted], counted)


def _end(address: list, host: str) -> tuple:
    """One end of a connection, by a name that no other host has for another."""
    is_loopback = str(address[0]).startswith("127.") or address[0] == "::1"
    return (host if is_loopback else "", *address)

"""A recording in a folder: one part a rank, joined to one Trace.

Each rank of a job on several machines writes its own part, `rank_2_of_4.npz`: a Trace
with the events of that rank and the readings of its clock. Here you can
`write` a part and `join` those of a folder, with all times on rank 0's clock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.trace.clocks import Clock, Reading
from collectives_lab.trace.columns import Columns
from collectives_lab.trace.table import TIMES, Table, concatenate
from collectives_lab.trace.wire_bytes import wire_matrix

T = TypeVar("T", bound=Columns)

NAME = re.compile(r"rank_\d+_of_\d+\.npz")
"""The file name of a part, and of no other file."""

SYNCHRONIZING = ("all_reduce", "all_gather", "reduce_scatter", "barrier")
"""Verbs that end on no rank before all ranks have called them."""


@dataclass
class Part:
    """The metadata of one rank's part of a recording.

    run: an id that all parts of one recording share. clock: the name of its clock.
    readings: that clock against rank 0's. began, ended: times on that clock. how: the
    error that ended the block; empty if there was none. wire: bytes sent on each
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
    events: Table,
    groups: Mapping[str, tuple[int, ...]],
) -> Path:
    """Write a rank's part atomically; an older one is replaced."""
    meta = {"part": asdict(part)}
    trace = Columns(part.world_size, *events, groups, meta=meta)
    unfinished, path = folder / f".rank_{part.rank}.unfinished.npz", part.path(folder)
    try:
        os.replace(trace.save(unfinished), path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return path


def clear(folder: Path, run: str) -> None:
    """Remove the parts of other recordings from a folder."""
    for path in _part_paths(folder.iterdir()):
        try:
            if Columns.load(path).meta["part"]["run"] == run:
                continue
        except FileNotFoundError:
            continue  # another rank was quicker
        except (ValueError, KeyError):
            pass
        path.unlink(missing_ok=True)


def _part_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the paths with the name of a part, sorted."""
    return sorted(path for path in paths if NAME.fullmatch(path.name))


def join(folder: str | Path, of: type[T], partial: bool = False) -> T:
    """Join the parts in a folder, and in the folders in it, to one trace of type `of`.

    Times are those of rank 0's clock, in seconds since the first rank began.
    `meta["clocks"]` bounds their error. `error` is a bound in seconds for any time, if
    all clocks had a constant rate; `error_by_rank` has it for each rank. `early` counts
    the messages and collectives that seem to end before another rank has begun them,
    `earliest` is the largest such time; more than `error` shows uneven clocks.
    partial: join the parts that exist, though others are missing.
    Raises ValueError for parts that are missing, doubled or of several recordings.
    """
    paths = _part_paths(Path(folder).rglob("*.npz"))
    parts = [_read(path) for path in paths]
    if not parts:
        raise ValueError(
            f"{folder} holds no part of a recording (rank_0_of_4.npz, ...); each rank "
            "writes its own when it leaves `with lab.record(folder):`"
        )
    _check_runs(folder, paths, [part for part, _ in parts])
    _check(folder, parts, partial)
    parts.sort(key=lambda part: part[0].rank)
    clocks = _clocks([part for part, _ in parts])
    earliest = min(_reference_time(clocks[p.clock], p.began) for p, _ in parts)
    traces = [_aligned(trace, clocks[p.clock], earliest) for p, trace in parts]
    return _joined(of, [part for part, _ in parts], traces, clocks)


def _read(path: Path) -> tuple[Part, Columns]:
    trace = Columns.load(path)
    try:
        part = Part(**trace.meta["part"])
    except (KeyError, TypeError):
        raise ValueError(f"{path} is a trace, but no part of a recording") from None
    part.readings = [Reading(*reading) for reading in part.readings]
    return part, trace


def _check_runs(folder: str | Path, paths: list[Path], parts: list[Part]) -> None:
    """Raise ValueError with the folder of each recording if there are several."""
    runs: dict[str, list[tuple[int, Path]]] = {}
    for path, part in zip(paths, parts, strict=True):
        runs.setdefault(part.run, []).append((part.rank, path))
    if len(runs) == 1:
        return
    locations, separate = [], True
    for members in runs.values():
        folder_of_run = Path(os.path.commonpath([path.parent for _, path in members]))
        ranks = name_ranks([rank for rank, _ in members])
        locations.append(f"{ranks} in {folder_of_run}")
        inside = [path for path in paths if path.is_relative_to(folder_of_run)]
        separate &= len(inside) == len(members)
    advice = f'Load one of them: Trace.load("{folder_of_run}")'
    if not separate:
        advice = "Keep each in a folder of its own"
    raise ValueError(
        f"{folder} holds parts of {len(runs)} recordings: "
        f"{'; '.join(locations)}. {advice}"
    )


def _check(
    folder: str | Path, parts: list[tuple[Part, Columns]], partial: bool
) -> None:
    world_size = parts[0][0].world_size
    ranks = [part.rank for part, _ in parts]
    if doubled := {rank for rank in ranks if ranks.count(rank) > 1}:
        raise ValueError(f"{folder} holds the part of {name_ranks([*doubled])} twice")
    missing = set(range(world_size)) - set(ranks)
    if missing and not partial:
        raise ValueError(
            f"{folder} lacks {name_ranks([*missing])} of {world_size}: killed before "
            "it could write, or its folder is on another host and was not copied here. "
            "Trace.load(folder, partial=True) takes what there is"
        )


def _clocks(parts: list[Part]) -> dict[str, Clock]:
    """Return one clock by its name for all ranks that share it."""
    reference = {part.clock for part in parts if part.rank == 0}
    shared: dict[str, list[list[Reading]]] = {}
    for part in parts:
        shared.setdefault(part.clock, []).append(part.readings)
    return {
        name: Clock.of(readings, name in reference) for name, readings in shared.items()
    }


def _reference_time(clock: Clock, time: float) -> float:
    return float(clock.at_reference(np.array(time)))


def _aligned(trace: Columns, clock: Clock, earliest: float) -> Columns:
    for name in TIMES:
        trace.columns[name] = clock.at_reference(trace.columns[name]) - earliest
    return trace


def _joined(
    of: type[T], parts: list[Part], traces: list[Columns], clocks: Mapping[str, Clock]
) -> T:
    groups = {name: ranks for trace in traces for name, ranks in trace.groups.items()}
    world_size = parts[0].world_size
    table = concatenate(Table(trace.columns, trace.texts) for trace in traces)
    joined = of(world_size, *table, groups, _wire(parts))
    joined.meta["clocks"] = _clock_quality(parts, clocks) | early(joined)
    joined.meta["environment"] = {str(part.rank): part.environment for part in parts}
    if failed := {str(part.rank): part.how for part in parts if part.how}:
        joined.meta["ended"] = failed
    if missing := sorted(set(range(world_size)) - {part.rank for part in parts}):
        joined.meta["missing"] = missing
    return joined


def _clock_quality(parts: list[Part], clocks: Mapping[str, Clock]) -> dict[str, Any]:
    """Return the number of clocks and the bounds of their errors, by rank."""
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
    """Count the calls that seem to end before another rank began its part of them.

    That is impossible, so times above the error bound show that the clocks ran
    unevenly. earliest: the largest such time in seconds.
    """
    sends, recvs = trace.pairs()
    times = trace.columns
    durations = [
        times["completed"][recvs] - times["issued"][sends],
        *_collective_durations(trace),
    ]
    negative = np.concatenate(durations)
    negative = negative[negative < 0]
    return {
        "early": len(negative),
        "earliest": float(np.abs(negative).max(initial=0.0)),
    }


def _collective_durations(trace: Columns) -> Iterator[np.ndarray]:
    """Yield the seconds of synchronizing collectives, from last call to first end."""
    times, ranks = trace.columns, trace.columns["rank"]
    for op in SYNCHRONIZING:
        is_communicating = trace.is_op(op) & ((times["nbytes"] > 0) | (op == "barrier"))
        for group in np.unique(times["group"][is_communicating]):
            rows = np.flatnonzero(is_communicating & (times["group"] == group))
            by_rank = [rows[ranks[rows] == rank] for rank in np.unique(ranks[rows])]
            common = min(map(len, by_rank))
            calls = np.stack([rows[:common] for rows in by_rank])
            first_ends = np.fmin.reduce(times["completed"][calls])
            yield first_ends - np.fmax.reduce(times["issued"][calls])


def _wire(parts: list[Part]) -> np.ndarray | None:
    """Return the bytes on the wire between the ranks; None if no part has any."""
    sent_by_connection: list[dict] = [{} for _ in range(parts[0].world_size)]
    for part in parts:
        host = part.environment.get("host", "")
        for local, remote, sent in part.wire:
            sent_by_connection[part.rank][
                _endpoint(local, host), _endpoint(remote, host)
            ] = sent
    return wire_matrix([{} for _ in sent_by_connection], sent_by_connection)


def _endpoint(address: list, host: str) -> tuple:
    """Return one end of a connection, unique among all hosts."""
    is_loopback = str(address[0]).startswith("127.") or address[0] == "::1"
    return (host if is_loopback else "", *address)

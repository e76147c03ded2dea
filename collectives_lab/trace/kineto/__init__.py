"""Profiles of torch.profiler (Kineto's JSON), read as one Trace of a job.

Here `load` joins the files of all ranks: their calls with verb, bytes, dtype and group,
and the computing between them, on one clock. A rank's profile says more than a replay
needs, and of waits less: `times` says how those are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.trace import table
from collectives_lab.trace.columns import Columns
from collectives_lab.trace.event import Event
from collectives_lab.trace.kineto.names import itemsize
from collectives_lab.trace.kineto.rank_events import WORLD, RankEvents, events_of
from collectives_lab.trace.kineto.stream import ProfileError, is_profile
from collectives_lab.trace.symmetry import as_rank, donor_of, uncalled

__all__ = ["ProfileError", "is_profile", "load", "profiles_in"]

T = TypeVar("T", bound=Columns)

ALONE = ("send", "recv", "compute")
"""Events that are no collectives."""

SYNCHRONIZING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Verbs that end on all ranks at about the same time."""


def profiles_in(folder: Path) -> list[Path]:
    """Return the files in a folder that a profiler may have written, by name."""
    endings = (".json", ".json.gz")
    return sorted(p for p in folder.iterdir() if p.name.lower().endswith(endings))


def load(paths: Sequence[Path], cls: Callable[..., T], symmetric: bool = False) -> T:
    """Read the files of all ranks of a job as one trace.

    symmetric: let ranks without a file make the calls of one that has a file, as in
    `symmetry.as_rank`; `meta["completed"]` names them. Raises ProfileError for a file
    that lacks what is needed, two files of one rank or of different jobs, ranks without
    a file, and ranks of a group that make different numbers of calls.
    """
    ranks = [events_of(path) for path in paths]
    world_size = _world_size(ranks)
    by_rank = {one.rank: one for one in ranks}
    missing = [r for r in range(world_size) if r not in by_rank]
    if missing and not symmetric:
        raise ProfileError(
            f"of {world_size} ranks there is no file of {name_ranks(missing)}; need "
            "those of all ranks in one folder, or Trace.load(path, symmetric=True), "
            "which lets them do what the others did"
        )
    names = _Names()
    events = {one.rank: names.events(one) for one in ranks}
    events = _with_dtypes(events)
    shifts = _shifts(ranks, events)
    for rank in missing:
        donor = donor_of(rank, sorted(by_rank))
        shifts[rank] = shifts[donor]
        events[rank] = as_rank(events[donor], rank, world_size, names.groups, names.of)
    _check_even(events, names.groups)
    notes = list(dict.fromkeys(note for one in ranks for note in one.notes))
    meta: dict[str, Any] = {"profiler": {"files": len(ranks), "notes": notes}}
    meta |= {"completed": missing} if missing else {}
    groups = {name: r for name, r in names.groups.items() if name != WORLD}
    return cls(world_size, *_on_one_clock(events, shifts), groups, meta=meta)


def _on_one_clock(
    events: dict[int, list[Event]], shifts: dict[int, float]
) -> table.Table:
    """Return the events of all ranks, with their times since the first of them."""
    together = table.concatenate(
        table.moved(table.of(events[rank]), partial(np.add, shifts[rank]))
        for rank in sorted(events)
    )
    first = np.nanmin(together.columns["issued"], initial=np.inf)
    return table.moved(together, lambda times: times - first)


def _world_size(ranks: Sequence[RankEvents]) -> int:
    """Return the number of ranks; ProfileError unless the files are of one job."""
    if not ranks:
        raise ProfileError("no files of a profiler; need .json or .json.gz files")
    first = ranks[0]
    seen: dict[int, Path] = {}
    for one in ranks:
        if one.world_size != first.world_size:
            raise ProfileError(
                f"{first.path} is of a job of {first.world_size} ranks and {one.path} "
                f"of one of {one.world_size}; need the files of one job"
            )
        if other := seen.get(one.rank):
            raise ProfileError(
                f"{other} and {one.path} are both of rank {one.rank}; need one a rank"
            )
        seen[one.rank] = one.path
    return first.world_size


class _Names:
    """One name for each group of the job, whatever its ranks call it."""

    def __init__(self) -> None:
        self.groups: dict[str, tuple[int, ...]] = {}

    def events(self, one: RankEvents) -> list[Event]:
        """Return the events of a rank with the job's names of its groups."""
        self.groups.setdefault(WORLD, tuple(range(one.world_size)))
        names = {name: self._of(ranks, name) for name, ranks in one.groups.items()}
        if all(name == own for own, name in names.items()):
            return one.events
        return [replace(e, group=names.get(e.group, e.group)) for e in one.events]

    def of(self, ranks: tuple[int, ...]) -> str:
        """Return the name of a group by its ranks."""
        names = (name for name, members in self.groups.items() if members == ranks)
        return next(names, "") or self._of(ranks, f"ranks {name_list(ranks)}")

    def _of(self, ranks: tuple[int, ...], name: str) -> str:
        if self.groups.setdefault(name, ranks) == ranks:
            return name
        return self._of(ranks, f"{name} of {name_list(ranks)}")


def name_list(ranks: Iterable[int]) -> str:
    """Return ranks as text, `0,1,2`."""
    return ",".join(map(str, ranks))


def _shifts(
    ranks: Sequence[RankEvents],
    events: dict[int, list[Event]],
) -> dict[int, float]:
    """Return the seconds to add to the times of each rank, so that clocks agree.

    Files of one host share its clock. Clocks of other hosts are set by the calls that
    end on all ranks at the same time: the median of the differences.
    """
    first = min(ranks, key=lambda one: one.rank)
    if all(o.host == first.host and o.host and o.epoch is not None for o in ranks):
        origin = first.epoch or 0
        return {o.rank: ((o.epoch or 0) - origin) * 1e-9 for o in ranks}
    shifts, todo = {first.rank: 0.0}, [first.rank]
    ends = {one.rank: _ends(events[one.rank]) for one in ranks}
    while todo:
        known = todo.pop()
        for one in ranks:
            shared = ends[known].keys() & ends[one.rank].keys()
            if one.rank not in shifts and shared:
                apart = [ends[known][key] - ends[one.rank][key] for key in shared]
                shifts[one.rank] = shifts[known] + float(np.median(apart))
                todo.append(one.rank)
    return {one.rank: shifts.get(one.rank, 0.0) for one in ranks}


def _ends(events: Iterable[Event]) -> dict[tuple[str, int], float]:
    """Return when the calls of a rank end that end everywhere at once."""
    return {
        place: event.completed
        for place, event in _placed(events)
        if event.op in SYNCHRONIZING and event.completed is not None and place
    }


def _placed(
    events: Iterable[Event],
) -> Iterator[tuple[tuple[str, int] | None, Event]]:
    """Yield the events of a rank; a collective with its group and its number there."""
    numbers: dict[str, int] = {}
    for event in events:
        if event.op in ALONE:
            yield None, event
        else:
            number = numbers[event.group] = numbers.get(event.group, -1) + 1
            yield (event.group, number), event


def _with_dtypes(events: dict[int, list[Event]]) -> dict[int, list[Event]]:
    """Give calls without a dtype that of the same call on another rank.

    Gloo writes the dtypes of what a rank puts in: of a scatter only its root's.
    """
    placed = {rank: [*_placed(own)] for rank, own in events.items()}
    known = {
        place: event.dtype
        for own in placed.values()
        for place, event in own
        if place and event.dtype
    }
    return {
        rank: [
            _with_dtype(event, known.get(place) if place else None)
            for place, event in own
        ]
        for rank, own in placed.items()
    }


def _with_dtype(event: Event, dtype: str | None) -> Event:
    if event.dtype or event.op in ("compute", "barrier") or not event.nbytes:
        return event
    if dtype is None:
        raise ProfileError(
            f"rank {event.rank} has no dtype for {event.op} ({event.variant}): profile "
            "with record_shapes=True, and on all ranks; NCCL's calls have it without"
        )
    return replace(event, dtype=dtype, nbytes=event.nbytes * itemsize(dtype))


def _check_even(
    events: dict[int, list[Event]], groups: dict[str, tuple[int, ...]]
) -> None:
    """Raise ProfileError if the ranks of a group do not make as many calls."""
    together = (event for own in events.values() for event in own)
    if uneven := uncalled(together, groups):
        group, counts = uneven
        listed = ", ".join(f"{n} by rank {r}" for r, n in list(counts.items())[:8])
        raise ProfileError(
            f"group {group!r} has different numbers of calls: {listed}. Profiles must "
            "begin and end at the same step on all ranks (torch.profiler.schedule); "
            "where ranks call different things none can be completed by symmetry; and "
            "Gloo's calls of a smaller group look like those of the whole world"
        )

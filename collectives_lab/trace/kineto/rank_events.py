"""The events of one rank, from its profile: calls, and the computing between them.

Here `events_of` gives them in seconds of the rank's own clock, with groups by the name
that the file has for them; `ranks` joins those of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collectives_lab.trace.event import Event
from collectives_lab.trace.kineto.calls import Call, calls_of
from collectives_lab.trace.kineto.lanes import Lane
from collectives_lab.trace.kineto.profile import Profile, read
from collectives_lab.trace.kineto.stream import ProfileError
from collectives_lab.trace.kineto.times import Timed, timed

Group = tuple[str, tuple[int, ...]]
"""The name of a group and its ranks."""

WORLD = "0"


@dataclass
class RankEvents:
    """What one file says: its rank, that of the job, its events and their groups.

    epoch: nanoseconds since 1970 at second 0 of the events, None if the file does not
    say so. notes: what it lacks.
    """

    path: Path
    rank: int
    world_size: int
    events: list[Event]
    groups: dict[str, tuple[int, ...]]
    host: str
    epoch: int | None
    notes: list[str]


def events_of(path: Path) -> RankEvents:
    """Read the file of one rank; ProfileError says which option would write more."""
    profile = read(path)
    info = profile.info
    if "rank" not in info or "world_size" not in info:
        raise ProfileError(
            f"{path} does not say which rank wrote it (no distributedInfo): call "
            "torch.distributed.init_process_group before the profiler starts"
        )
    calls = calls_of(profile)
    made, lanes = timed(profile, calls)
    groups = _Groups(profile)
    rank = int(info["rank"])
    events = [_event(rank, one, groups, path) for one in made]
    events += _computing(rank, made, lanes)
    events.sort(key=lambda event: event.issued or 0.0)
    return RankEvents(
        path,
        rank,
        int(info["world_size"]),
        events,
        groups.used,
        str(profile.job.get("host_name", "")),
        _epoch(profile),
        _notes(profile, made),
    )


def _epoch(profile: Profile) -> int | None:
    base = profile.job.get("baseTimeNanoseconds")
    return None if base is None else int(base) + round(profile.began * 1000)


def _notes(profile: Profile, made: list[Timed]) -> list[str]:
    notes = []
    on_gpu = profile.kernels or profile.gpu.begin
    if profile.info.get("backend") == "nccl" and made and not on_gpu:
        notes.append(
            "no kernels, so calls have the CPU's times: profile with "
            "ProfilerActivity.CUDA too"
        )
    return notes


class _Groups:
    """The groups of a file: their names, and their ranks in the whole world."""

    def __init__(self, profile: Profile):
        info = profile.info
        self.path = profile.path
        self.world = tuple(range(int(info["world_size"])))
        self.known = {
            str(g["pg_name"]): tuple(g.get("ranks") or ())
            for g in info.get("pg_config") or ()
            if isinstance(g, dict) and "pg_name" in g
        }
        self.used: dict[str, tuple[int, ...]] = {}

    def of(self, call: Call) -> Group:
        """Return the group of a call; ProfileError if the file does not say it."""
        ranks = call.ranks or self.known.get(call.group, ())
        if not ranks and call.size in (0, len(self.world)):
            self._check_only_one(call)
            ranks = self.world
        if not ranks:
            raise ProfileError(
                f"{self.path} does not say which ranks are in group {call.group!r} of "
                f"{call.op}; need torch 2.4 or newer, which writes its process groups "
                "(pg_config) into the file"
            )
        name = WORLD if ranks == self.world else call.group or str(list(ranks))
        name = f"group {name}" if name == WORLD and ranks != self.world else name
        self.used[name] = ranks
        return name, ranks

    def _check_only_one(self, call: Call) -> None:
        smaller = [n for n, r in self.known.items() if r and r != self.world]
        if not call.group and smaller:
            raise ProfileError(
                f"{self.path}: {call.op} does not say in which group it is, and this "
                f"job has {', '.join(map(repr, smaller))} beside the whole world. Gloo "
                "writes no group; NCCL does, and so does collectives_lab.record"
            )


def _event(rank: int, one: Timed, groups: _Groups, path: Path) -> Event:
    call = one.call
    name, ranks = groups.of(call)
    call.size = call.size or len(ranks)
    if call.nbytes is None:
        raise ProfileError(
            f"{path} has no bytes for {call.op} ({call.span.name}): profile with "
            "record_shapes=True; NCCL's calls have them without it since torch 2.2"
        )
    root = _in_world(call.root, ranks)
    if root is None and call.op in ("broadcast", "reduce", "gather", "scatter"):
        root = ranks[0]
    return Event(
        rank,
        call.op,
        call.nbytes,
        _in_world(call.peer, ranks),
        root,
        call.tag,
        name,
        call.variant,
        call.dtype,
        issued=one.issued,
        waited=one.waited,
        completed=one.completed,
        thread=one.thread,
        splits=_splits(call),
    )


def _in_world(number: int | None, ranks: tuple[int, ...]) -> int | None:
    return None if number is None or not 0 <= number < len(ranks) else ranks[number]


def _splits(call: Call) -> str:
    rows, nbytes = call.splits, call.nbytes or 0
    if len(rows) != call.size or not sum(rows) or len(set(rows)) == 1:
        return ""
    return ",".join(str(n * nbytes // sum(rows)) for n in rows)


_AFTER = 1e-9
"""Seconds by which computing begins after the call or wait that it follows: of two
things at one time, a replay would not know which came first."""


def _computing(rank: int, made: list[Timed], lanes: dict[int, Lane]) -> Iterator[Event]:
    """Yield the computing between the calls and waits of each lane."""
    by_lane: dict[int, list[Timed]] = {}
    lane_of: dict[int, Lane] = {}
    for one in made:
        lane = lanes[one.thread]
        lane_of[id(lane)] = lane
        by_lane.setdefault(id(lane), []).append(one)
    for key, calls in by_lane.items():
        lane = lane_of[key]
        begin = float(lane.begin[0]) if len(lane.begin) else 0.0
        end = float(lane.end[-1]) if len(lane.end) else 0.0
        for first, last in _free(calls, begin, end):
            at, seconds = lane.busy(first, last)
            if seconds > 0:
                at += min(_AFTER, seconds / 2)
                yield Event(
                    rank,
                    "compute",
                    issued=at,
                    completed=at + seconds,
                    seconds=seconds,
                    thread=calls[0].thread,
                )


def _free(
    calls: list[Timed], begin: float, end: float
) -> Iterator[tuple[float, float]]:
    """Yield the stretches between the points of a lane at which it calls or waits."""
    points = [(one.issued, one.issued) for one in calls]
    points += [
        (one.waited, max(one.waited, one.completed or one.waited))
        for one in calls
        if one.waited is not None
    ]
    free = begin
    for start, stop in sorted(points):
        if start > free:
            yield free, start
        free = max(free, stop)
    if end > free:
        yield free, end

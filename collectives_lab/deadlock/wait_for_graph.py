"""The wait-for graph: which ranks can still move, and which never will.

A rank that waits can move only if what it waits for has been posted or still may be.
Here `stuck_ranks(snapshots)` removes from the waiting ranks every one that can move
until nothing changes; what stays is deadlocked, which is a proof and no time-out.
Pure: a `Snapshot` holds only numbers, so every case can be tested without processes.
`explanation` says why in words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

SYMMETRIC = {
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "barrier",
    "new_group",
}
"""Verbs of which no rank can finish before every rank has begun."""

GATHERING = {"reduce", "gather"}
"""Verbs of which the root cannot finish before every rank has begun."""

SPREADING = {"broadcast", "scatter"}
"""Verbs of which no rank but the root can finish before the root has begun."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that one thread of a rank is blocked in.

    number: it is the number-th send to, recv from `peer` with this tag, or the
    number-th collective of the group, counted from 1. peer: None for a recv from any
    rank. where: the reader's line. text: the call in the reader's words. empty: it
    moves no bytes.
    """

    op: str
    group: str
    number: int
    peer: int | None = None
    root: int | None = None
    tag: int = 0
    where: str = ""
    text: str = ""
    empty: bool = False


Key = tuple[str, str, int | None, int]
"""("send" or "recv", group, peer or None for any, tag)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The calls of one rank: posted so far, and waited for.

    posted: how many sends and recvs by key. collectives: how many, by group. taken:
    recvs that have ended, by (group, tag). waiting: one call a blocked thread; empty
    while the rank can move by itself or has finished. epoch: the rank's steps at this
    moment. dropped: the lines of isends and irecvs by key and number, whose handles are
    gone: the library forgets such a message, unless it has left or come before.
    """

    rank: int
    posted: Mapping[Key, int] = field(default_factory=dict)
    collectives: Mapping[str, int] = field(default_factory=dict)
    taken: Mapping[tuple[str, int], int] = field(default_factory=dict)
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()
    finished: bool = False
    epoch: int = 0
    dropped: Mapping[tuple[str, str, int | None, int, int], str] = field(
        default_factory=dict
    )


class Dropped(NamedTuple):
    """An isend or irecv of a rank whose handle is gone: key as posted, and number."""

    rank: int
    key: tuple[str, str, int | None, int, int]
    line: str


def _is_lost_to(rank: int, w: Waiting, lost: Dropped) -> bool:
    """Return whether a wait of a rank cannot end because a message was dropped."""
    kind, _, peer, tag, number = lost.key
    if w.op == "barrier":
        return kind == "recv"
    if tag != w.tag or w.op not in ("send", "recv"):
        return False
    if lost.rank == rank:
        return w.op == kind == "recv" and peer == w.peer and number < w.number
    is_counterpart = kind != w.op and peer in (rank, None)
    return is_counterpart and lost.rank == w.peer and number == w.number


class World:
    """All snapshots together, and the ranks not yet shown to be able to move."""

    def __init__(self, snapshots: Iterable[Snapshot], quiet: bool):
        self.snapshots = {s.rank: s for s in snapshots}
        self.quiet = quiet
        self.dead = {r for r, s in self.snapshots.items() if s.waiting or s.finished}

    def may_move(self, rank: int) -> bool:
        return rank not in self.dead

    def members(self, waiting: Waiting) -> Sequence[int]:
        for snapshot in self.snapshots.values():
            if waiting.group in snapshot.groups:
                return snapshot.groups[waiting.group]
        return sorted(self.snapshots)

    def posted(self, rank: int, kind: str, w: Waiting, peer: int | None) -> int:
        snapshot = self.snapshots.get(rank)
        return snapshot.posted.get((kind, w.group, peer, w.tag), 0) if snapshot else 0

    def dropped(self, rank: int, w: Waiting) -> Dropped | None:
        """Return the isend or irecv without a handle for which a wait is in vain.

        A recv waits for a dropped isend, or for what went to an irecv before it that
        was dropped; a send for a dropped irecv; a barrier for the messages before it.
        """
        lost = [
            Dropped(owner, key, line)
            for owner in sorted(self.snapshots)
            for key, line in self.snapshots[owner].dropped.items()
            if key[1] == w.group
        ]
        return next((one for one in lost if _is_lost_to(rank, w, one)), None)

    def absent(self, waiting: Waiting) -> list[int]:
        """Return the members that have not come to this collective and never will."""
        return [
            rank
            for rank in self.members(waiting)
            if not self.may_move(rank)
            and self.snapshots[rank].collectives.get(waiting.group, 0) < waiting.number
        ]

    def can_end(self, rank: int, w: Waiting) -> bool:
        """Return whether this wait can end by what is posted or may still be.

        A dropped message may have arrived before, until nothing moves any more.
        """
        is_lost = self.quiet and self.dropped(rank, w) is not None
        if w.op == "send" and w.peer is not None:
            arrived = self.posted(w.peer, "recv", w, rank)
            arrived += self.posted(w.peer, "recv", w, None)
            return (arrived >= w.number and not is_lost) or self.may_move(w.peer)
        if w.op == "recv" and w.peer is not None:
            was_sent = self.posted(w.peer, "send", w, rank) >= w.number
            return (was_sent and not is_lost) or self.may_move(w.peer)
        if w.op == "recv":
            others = [r for r in self.members(w) if r != rank]
            sent = sum(self.posted(r, "send", w, rank) for r in others)
            received = self.snapshots[rank].taken.get((w.group, w.tag), 0)
            return sent > received or any(self.may_move(r) for r in others)
        return not (is_lost or self._needs(rank, w, self.absent(w)))

    def _needs(self, rank: int, w: Waiting, absent: list[int]) -> bool:
        """Return whether a collective cannot end for `rank` without the absent ones.

        Where it depends on the library's tree, the answer is yes only once nothing has
        moved for a while: then what could have arrived has arrived.
        """
        if not absent:
            return False
        if not w.empty:
            if w.op in SYMMETRIC or (w.op in GATHERING and w.root == rank):
                return True
            if w.op in SPREADING and w.root in absent:
                return True
        return self.quiet


def stuck_ranks(snapshots: Iterable[Snapshot], quiet: bool = False) -> list[int]:
    """Return the ranks that wait and can never move again, in order.

    Empty without a proof.

    Takes a snapshot of every rank that waits or has finished, all of the same moment; a
    rank without one is taken to be able to move. quiet: no rank has moved for about a
    second, and every rank waits or has finished.
    """
    world = World(snapshots, quiet)
    changed = True
    while changed:
        movable = {
            rank
            for rank in world.dead
            if world.snapshots[rank].waiting
            and any(world.can_end(rank, w) for w in world.snapshots[rank].waiting)
        }
        world.dead -= movable
        changed = bool(movable)
    return sorted(r for r in world.dead if world.snapshots[r].waiting)


def balanced(snapshots: Iterable[Snapshot]) -> bool:
    """Return whether each send has its recv, and members made the same collectives."""
    snapshots = list(snapshots)
    sends: dict[tuple, int] = {}
    recvs: dict[tuple, int] = {}
    for s in snapshots:
        for (kind, group, peer, tag), n in s.posted.items():
            if n and kind == "send":
                sends[group, tag, s.rank, peer] = n
            elif n:
                recvs[group, tag, peer, s.rank] = n
    members = {name: ranks for s in snapshots for name, ranks in s.groups.items()}
    calls = {(name, s.rank): n for s in snapshots for name, n in s.collectives.items()}
    alike = all(
        len({calls.get((name, rank), 0) for rank in members[name]}) == 1
        for name, _ in calls
    )
    return sends == recvs and alike


def waits_for(snapshots: Iterable[Snapshot], rank: int) -> list[int]:
    """Return the ranks that a stuck rank waits for in vain."""
    world = World(snapshots, quiet=True)
    targets: list[int] = []
    for w in world.snapshots[rank].waiting:
        if w.peer is not None:
            targets.append(w.peer)
        elif w.op == "recv":
            targets += [r for r in world.members(w) if r != rank]
        else:
            targets += world.absent(w)
    return sorted(set(targets))


def find_cycle(edges: Mapping[int, Sequence[int]]) -> list[int]:
    """Return a shortest cycle of the graph, smallest rank first.

    Empty if there is none.
    """
    cycles = filter(None, (_cycle_from(start, edges) for start in edges))
    cycle = min(cycles, key=len, default=[])
    first = cycle.index(min(cycle)) if cycle else 0
    return cycle[first:] + cycle[:first]


def _cycle_from(start: int, edges: Mapping[int, Sequence[int]]) -> list[int]:
    """Return a shortest cycle through `start`, which comes first; empty if none."""
    paths, seen = deque([[start]]), {start}
    while paths:
        path = paths.popleft()
        for peer in edges.get(path[-1], ()):
            if peer == start:
                return path
            if peer not in seen:
                seen.add(peer)
                paths.append([*path, peer])
    return []

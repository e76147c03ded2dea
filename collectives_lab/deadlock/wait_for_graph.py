"""The wait-for graph: who can still move, who never will, and why, in words.

A rank that waits can move only if what it waits for has been posted or still may be.
Here `stuck_ranks(snapshots)` removes from the waiting ranks every one that can move
until nothing changes; what stays is deadlocked, which is a proof and no time-out.
`explain` says it in words. Pure: a `Snapshot` holds only numbers, so every case can be
tested without processes.
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


class _World:
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
        """Members that have not come to this collective and never will."""
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
    world = _World(snapshots, quiet)
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
    world = _World(snapshots, quiet=True)
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


def name_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0 and 2`, `ranks 0-3`: ranks as a person would name them."""
    ranks = sorted(set(ranks))
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts: list[str] = []
    for run in runs:
        texts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(r) for r in run]
    if len(texts) == 1:
        return f"ranks {texts[0]}"
    return f"ranks {', '.join(texts[:-1])} and {texts[-1]}"


def _waits(snapshots: dict[int, Snapshot], ranks: Sequence[int]) -> list[str]:
    """Return a sentence for each different wait, with the ranks that wait so."""
    alike: dict[str, list[int]] = {}
    differ = len({snapshots[rank].waiting[0].group for rank in ranks}) > 1
    for rank in ranks:
        alike.setdefault(_wait_in_words(snapshots, rank, differ), []).append(rank)
    return [
        f"{name_ranks(waiting)} {'waits' if len(waiting) == 1 else 'wait'} {what}"
        for what, waiting in alike.items()
    ]


def _wait_in_words(
    snapshots: dict[int, Snapshot], rank: int, groups_differ: bool
) -> str:
    """Return what one rank waits in, for whom and where."""
    (w, *_) = snapshots[rank].waiting
    targets = waits_for(snapshots.values(), rank)
    finished = [r for r in targets if r in snapshots and snapshots[r].finished]
    peer = "any rank" if w.peer is None else f"rank {w.peer}"
    if w.op == "send":
        what = f"in send to {peer}"
    elif w.op == "recv":
        what = f"in recv from {peer}"
    else:
        what = f"in {w.op}"
        members = _World(snapshots.values(), quiet=True).members(w)
        if w.op == "new_group":
            what += f"({list(members)})"
        elif groups_differ:
            what += f" of group {w.group} ({name_ranks(members)})"
        what += f" for {name_ranks(targets)}" if targets else ""
    if finished:
        verb = "has" if len(finished) == 1 else "have"
        what += f", but {name_ranks(finished)} {verb} finished"
    return f"{what} ({w.where})" if w.where else what


def _cure(
    snapshots: dict[int, Snapshot], ranks: Sequence[int], cycle: list[int]
) -> str:
    calls = [snapshots[r].waiting[0] for r in ranks]
    ops = {w.op for w in calls}
    if any(w.peer == r for r, w in zip(ranks, calls, strict=True)):
        return "A message from a rank to itself never meets: copy, and send nothing."
    world = _World(snapshots.values(), quiet=True)
    for rank, call in zip(ranks, calls, strict=True):
        lost = world.dropped(rank, call)
        if lost is not None:
            verb, line = f"i{lost.key[0]}", f" ({lost.line})" if lost.line else ""
            return (
                f"rank {lost.rank} kept nothing of its {verb}{line}, and torch forgets "
                f"a message whose handle is gone: keep what {verb} returns, and wait() "
                "for it."
            )
    if ops & {"send", "recv"} and _pass_by(snapshots, ranks):
        return "A send and its recv need the same tag and group: check both."
    if cycle and ops == {"recv"}:
        return "Every one receives first: let one side send before it receives."
    if cycle and ops == {"send"}:
        return (
            "Every one sends first, and a send ends only when its recv is posted: let "
            "one side receive first, or use isend, recv, then wait."
        )
    if ops <= {"send", "recv"}:
        targets = {t for r in ranks for t in waits_for(snapshots.values(), r)}
        if any(t in snapshots and snapshots[t].finished for t in targets):
            return "Every send needs one recv, and every recv one send: count both."
        return "Order the calls so that each send meets its recv, or use isend."
    if ops & {"send", "recv"}:
        return (
            "A collective needs every rank of its group: finish the sends and recvs on "
            "all ranks first."
        )
    if ops == {"new_group"}:
        return (
            "Every rank must make every group, in the same order, also the groups that "
            "it is not in."
        )
    if cycle and len({w.group for w in calls}) > 1:
        return "Ranks that are in several groups must use them in the same order."
    if len({(w.op, w.group) for w in calls}) > 1:
        return "All ranks of a group must call the same collectives in the same order."
    return (
        "A collective needs every rank of its group: do not call "
        f"{calls[0].op} under a condition on rank, nor leave before it."
    )


def _pass_by(snapshots: dict[int, Snapshot], ranks: Sequence[int]) -> bool:
    """Return whether a send and a recv of the same two ranks do not meet."""
    calls = [(r, w) for r in ranks for w in snapshots[r].waiting]
    recvs = {(r, w.peer) for r, w in calls if w.op == "recv"}
    return any(
        (w.peer, r) in recvs or (w.peer, None) in recvs
        for r, w in calls
        if w.op == "send"
    )


def explain(snapshots: Iterable[Snapshot], ranks: Sequence[int], limit: int = 8) -> str:
    """Say who waits for whom, in which line, and the usual cure."""
    by_rank = {s.rank: s for s in snapshots}
    edges = {
        r: [t for t in waits_for(by_rank.values(), r) if t in ranks] for r in ranks
    }
    cycle = find_cycle(edges)
    waits = _waits(by_rank, [*cycle, *(r for r in ranks if r not in cycle)])
    lines = [f"  {sentence}" for sentence in waits[:limit]]
    if len(waits) > limit:
        lines.append(f"  ... and {len(waits) - limit} more")
    head = f"{name_ranks(ranks)} can never go on"
    if len(cycle) > 1:
        head += ": " + " -> ".join(map(str, [*cycle, cycle[0]])) + " wait in a circle"
    return "\n".join([head + ".", *lines, _cure(by_rank, ranks, cycle)])

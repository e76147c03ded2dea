"""The matching of posted sends, recvs and collectives.

Pure bookkeeping, without sockets: a `Traffic` takes operations in the order in which
the switch receives them, lists which could be carried out now (`candidates`), and knows
enough for the wait-for graph (`snapshots`). Messages of one source, destination, group
and tag never overtake each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectives_lab import deadlock
from collectives_lab.deadlock import Key, Snapshot, Waiting
from collectives_lab.trace import Event
from collectives_lab.wire import carried
from collectives_lab.wire.codec import DTYPES
from collectives_lab.wire.operations import ANY, ROOTED
from collectives_lab.wire.posted import Posted, World, size_of


@dataclass(frozen=True)
class Meeting:
    """Operations that belong together: a send and its recv, or one collective."""

    operations: tuple[Posted, ...]

    @property
    def is_message(self) -> bool:
        return self.operations[0].verb in ("send", "recv")


@dataclass
class Traffic:
    """All that `world_size` ranks have posted in one call."""

    world_size: int
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    posted: list[Posted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups[World] = tuple(range(self.world_size))
        self._sends: dict[tuple, deque[Posted]] = defaultdict(deque)
        self._recvs: dict[tuple, list[Posted]] = defaultdict(list)
        self._rounds: dict[tuple, list[Posted]] = defaultdict(list)
        self._counts: list[Counter[Key]] = [Counter() for _ in range(self.world_size)]
        self._collectives: list[Counter[str]] = [
            Counter() for _ in range(self.world_size)
        ]
        self._taken: list[Counter] = [Counter() for _ in range(self.world_size)]

    def post(self, op: Posted) -> None:
        """Take an operation; which of its kind it is becomes known."""
        self.posted.append(op)
        if op.verb in ("send", "recv"):
            key = (op.verb, op.group, op.peer, op.tag)
            self._counts[op.rank][key] += 1
            op.number = self._counts[op.rank][key]
        if op.verb == "send":
            self._sends[op.group, op.rank, op.peer, op.tag].append(op)
        elif op.verb == "recv":
            self._recvs[op.group, op.rank, op.tag].append(op)
        else:
            self._collectives[op.rank][op.group] += 1
            op.number = self._collectives[op.rank][op.group]
            self._rounds[op.group, op.number].append(op)

    def compute(self, op: Posted) -> None:
        """Take what only a replay looks at: that a rank computes."""
        op.matched, op.completed = True, op.issued
        self.posted.append(op)

    def candidates(self) -> list[Meeting]:
        """Return all that could be carried out next, in a fixed order."""
        meetings: list[Meeting] = []
        for inbox in sorted(self._recvs):  # not as they came: no two runs are alike
            meetings += self._messages(inbox)
        for number in sorted(self._rounds):
            meetings += self._whole_round(number)
        return meetings

    def possible(self, op: Posted) -> list[Meeting]:
        """Return what could be carried out now that this has been posted."""
        if op.verb == "send":
            return list(self._messages((op.group, op.peer, op.tag)))
        if op.verb == "recv":
            return list(self._messages((op.group, op.rank, op.tag)))
        return list(self._whole_round((op.group, op.number)))

    def _messages(self, inbox: tuple) -> Iterator[Meeting]:
        """Yield what a rank could receive with one tag in one group."""
        group, dst, tag = inbox
        free = set(self.groups[group])
        for recv in self._recvs.get(inbox, ()):
            for src in sorted(free) if recv.peer is None else [recv.peer]:
                sends = self._sends.get((group, src, dst, tag))
                if src in free and sends:
                    yield Meeting((sends[0], recv))
            if recv.peer is None:
                return  # what comes first is its, whoever sends
            free.discard(recv.peer)

    def _whole_round(self, number: tuple) -> Iterator[Meeting]:
        ops = self._rounds.get(number, ())
        if len(ops) == len(self.groups[number[0]]):
            place = self.groups[number[0]].index
            yield Meeting(tuple(sorted(ops, key=lambda op: place(op.rank))))

    def take(self, meeting: Meeting) -> None:
        """Remove what is carried out now."""
        first, *_ = meeting.operations
        for op in meeting.operations:
            op.matched = True
        if meeting.is_message:
            send, recv = meeting.operations
            queue = (send.group, send.rank, recv.rank, send.tag)
            inbox = (recv.group, recv.rank, recv.tag)
            self._sends[queue].popleft()
            self._recvs[inbox].remove(recv)
            if not self._recvs[inbox]:
                del self._recvs[inbox]
            self._taken[recv.rank][recv.group, recv.tag] += 1
            if recv.peer is None:
                recv.peer = send.rank
        else:
            del self._rounds[first.group, first.number]
            carried.note(meeting.operations)

    def quarrel(self, meeting: Meeting) -> str:
        """Return why these do not fit together, in words; empty if they do."""
        ops = meeting.operations
        if meeting.is_message:
            send, recv = ops
            if (send.nbytes, send.dtype) != (recv.nbytes, recv.dtype):
                return (
                    f"rank {send.rank} sends {_amount(send)} to rank {recv.rank}, "
                    f"which receives {_amount(recv)}; they must be alike"
                )
            return ""
        first = ops[0]
        for op in ops[1:]:
            for what in ("verb", "root", "reduce_op"):
                own, other_value = getattr(op, what), getattr(first, what)
                if own != other_value:
                    named = "" if what == "verb" else f" with {what} {other_value}"
                    other = own if what == "verb" else f"it with {what} {own}"
                    return (
                        f"rank {first.rank} calls {first.verb}{named} ({first.where}), "
                        f"rank {op.rank} calls {other} ({op.where}); all ranks of a "
                        "group must make the same call"
                    )
        return _unequal_sides(ops, len(self.groups[first.group]))

    def snapshots(
        self, waiting: Mapping[int, Sequence[Posted]], done: set[int]
    ) -> list[Snapshot]:
        """Return snapshots for the wait-for graph; waiting: by rank, what blocks it."""
        return [
            Snapshot(
                rank,
                dict(self._counts[rank]),
                dict(self._collectives[rank]),
                dict(self._taken[rank]),
                {n: g for n, g in self.groups.items() if rank in g},
                tuple(map(_waiting, waiting.get(rank, ()))),
                rank in done,
            )
            for rank in range(self.world_size)
        ]

    def explain(self, waiting: Mapping[int, Sequence[Posted]], done: set[int]) -> str:
        """Explain which rank waits for which, where every rank waits or is done."""
        return deadlock.explain(self.snapshots(waiting, done), sorted(waiting))

    def left(self) -> list[Posted]:
        """Return what nobody has answered."""
        return [op for op in self.posted if not op.matched]

    def events(self) -> Iterator[Event]:
        for op in self.posted:
            yield op.event(len(self.groups[op.group]))


def _waiting(op: Posted) -> Waiting:
    return Waiting(
        op.verb,
        op.group,
        op.number,
        op.peer,
        op.root,
        op.tag,
        op.where,
        "",
        not op.nbytes,
    )


def _amount(op: Posted) -> str:
    return f"{op.nbytes // _itemsize(op.dtype)} of {op.dtype} ({op.where})"


def _itemsize(dtype: str) -> int:
    return next((d.itemsize for d in DTYPES if str(d) == f"torch.{dtype}"), 1)


def _unequal_sides(ops: Sequence[Posted], size: int) -> str:
    """Return whether the tensors of a collective fit those of the other ranks."""
    verb, root = ops[0].verb, ops[0].root
    for op in ops:
        if op.dtype and ops[0].dtype and op.dtype != ops[0].dtype:
            return (
                f"rank {ops[0].rank} calls {verb} with {ops[0].dtype}, rank {op.rank} "
                f"with {op.dtype} ({op.where}); all ranks need one dtype"
            )
        sent, received = op.sides
        expected = _expected(verb, op, ops, size)
        for what, actual, need in (
            ("gives", sent, expected[0]),
            ("takes", received, expected[1]),
        ):
            actual_size = size_of(actual)
            if need is not None and actual_size != need:
                return (
                    f"rank {op.rank} {what} {actual_size} bytes in {verb}, "
                    f"where the other ranks' calls need {need}; sizes must fit"
                )
    if verb in ROOTED and root is None:
        return f"{verb} without a root"
    return carried.unequal_parts(ops) if verb == "all_to_all" else ""


def _expected(
    verb: str, op: Posted, ops: Sequence[Posted], size: int
) -> tuple[int | None, int | None]:
    """Return bytes that a rank must give and take, from what the first or the root
    has.
    """
    by_rank = {o.rank: [size_of(side) for side in o.sides] for o in ops}
    first = by_rank[ops[0].rank]
    root = by_rank.get(op.root if op.root is not None else ANY, first)
    if verb in ("all_reduce", "reduce"):
        return first[0], None
    if verb == "broadcast":
        return root[0], None
    if verb == "all_gather":
        return None, sum(sent for sent, _ in by_rank.values())
    if verb == "reduce_scatter":
        return sum(received for _, received in by_rank.values()), None
    if verb == "gather":
        return None, sum(g for g, _ in by_rank.values()) if op.rank == op.root else 0
    if verb == "scatter":
        return sum(t for _, t in by_rank.values()) if op.rank == op.root else 0, None
    return None, None

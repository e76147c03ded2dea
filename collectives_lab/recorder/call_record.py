"""The record of a call while it is under way, and the number by which it is matched.

A `Record` is one call of one rank, in a `Group`; a `Meeting` is a call that is no
operator and that all of its ranks must make. The recorder keeps them, makes events of
the first, and shows both to the wait-for graph.

The nth send from `src` to `dst` with a tag is for the nth such recv there, and the nth
collective of a group is one with everyone's nth. So `Counts` gives every record its
number, and a key that it shares with its counterparts and with nobody else.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

from collectives_lab.deadlock import Waiting
from collectives_lab.deadlock.status_board import digest
from collectives_lab.recorder import call_arguments
from collectives_lab.recorder.cuda_timing import Stamps
from collectives_lab.trace import Event

now = time.perf_counter

MOST_PARTS = 8
"""Parts of an all_to_all that a message to people lists."""


class Group(NamedTuple):
    """A process group: its name in the trace, its ranks in the world, its key.

    on_nccl: whether it sends CUDA tensors by NCCL, whose calls return when queued.
    timeout: seconds after which the library ends a call in it by an error.
    """

    name: str
    ranks: tuple[int, ...]
    source: Any
    key: int
    on_nccl: bool = False
    timeout: float = math.inf


@dataclass(eq=False, slots=True)
class Record:
    """One call while it is under way; `row` makes the event of it.

    Its times are the host's; with `stamps` the GPU's, as soon as it has come by.

    peer: its rank in the world. None for a collective, and for a recv from any rank
    until it has ended.
    """

    op: str
    call: call_arguments.Call
    group: Group
    where: tuple[str, int] | None
    variant: str
    issued: float
    thread: int
    peer: int | None
    waited: float | None = None
    completed: float | None = None
    stamps: Stamps | None = None
    key: int = 0
    number: int = 0

    @property
    def root(self) -> int | None:
        """The rank in the world from or to which a collective goes, if it has one."""
        root = self.call.root
        return None if root is None else self.group.ranks[root]

    @property
    def timeout(self) -> float:
        """Seconds after which the library ends the call by an error."""
        own = self.call.timeout
        return self.group.timeout if own is None else own

    @property
    def blocks(self) -> bool:
        """Whether whoever made the call waits for its end there and then."""
        return self.call.waits or self.variant in ("send", "recv")

    @property
    def is_message(self) -> bool:
        """Whether it is one end of a message."""
        return self.op in ("send", "recv")

    @property
    def posted_as(self) -> tuple[str, str, int | None, int, int]:
        """Which message it is: the number-th with this op, group, peer and tag."""
        return self.op, self.group.name, self.peer, self.call.tag, self.number

    def ends(self, rank: int) -> tuple[int, int]:
        """Return the (src, dst) of a message whose end at `rank` this is."""
        assert self.peer is not None
        return (rank, self.peer) if self.op == "send" else (self.peer, rank)

    def on_stream(self, begun: float, waited: float | None, ended: float) -> None:
        """Take the times at which the GPU came by, on the host's clock."""
        self.issued, self.completed = begun, ended
        self.waited = begun if self.blocks else waited

    def text(self) -> str:
        """Return the call as a person would name it: `all_reduce(8 float32, SUM)`."""
        call, inside = self.call, []
        if call.dtype:
            inside.append(f"{call.count} {call.dtype}")
        if call.reduce_op:
            inside.append(call.reduce_op)
        if self.is_message:
            side = "dst" if self.op == "send" else "src"
            inside.append(f"{side}={'any' if self.peer is None else self.peer}")
        elif self.root is not None:
            side = "dst" if self.op in ("reduce", "gather") else "src"
            inside.append(f"{side}={self.root}")
        if call.splits is not None and len(set(call.splits[0] + call.splits[1])) > 1:
            size = call.nbytes // max(call.count, 1) or 1
            for side, parts in zip(("sends", "takes"), call.splits, strict=True):
                counts = [str(nbytes // size) for nbytes in parts]
                more = ", ..." if len(counts) > MOST_PARTS else ""
                inside.append(f"{side} [{', '.join(counts[:MOST_PARTS])}{more}]")
        return f"{self.op}({', '.join(inside)})"

    def described(self) -> tuple[str, str]:
        """Return the call in words, and the reader's line."""
        return self.text(), place(self.where)

    def waiting(self) -> Waiting:
        """Return the call as the wait-for graph sees it."""
        return Waiting(
            self.op,
            self.group.name,
            self.number,
            self.peer,
            self.root,
            self.call.tag,
            place(self.where),
            self.text(),
            self.call.nbytes == 0 and self.op != "barrier",
        )

    def row(self, rank: int, thread: int) -> Event:
        """Return the event that this call was, on the clock of `now`."""
        call = self.call
        sent = received = None
        splits = ""
        if call.splits is not None:
            me = self.group.ranks.index(rank)
            sent, received = (float(sum(s) - s[me]) for s in call.splits)
            if len(set(call.splits[0] + call.splits[1])) > 1:
                splits = ",".join(map(str, call.splits[0]))
        return Event(
            rank,
            self.op,
            call.nbytes,
            self.peer,
            self.root,
            call.tag,
            self.group.name,
            self.variant,
            call.dtype,
            call.reduce_op,
            self.issued,
            self.waited,
            self.completed,
            place(self.where),
            thread,
            sent,
            received,
            None,
            splits,
        )


class Meeting(NamedTuple):
    """A call under way that is no operator, and that all of its ranks must make."""

    op: str
    name: str
    number: int
    where: str

    def waiting(self) -> Waiting:
        """Return the call as the wait-for graph sees it."""
        return Waiting(self.op, self.name, self.number, where=self.where)


class Counts:
    """The calls of one rank so far, as numbers.

    posted: ends of messages, by (op, group, peer, tag). collectives: by group, and the
    meetings by name. taken: recvs that have ended, by (group, tag).
    """

    def __init__(self, rank: int):
        """Count the calls of `rank`."""
        self.rank = rank
        self.posted: dict[tuple, int] = defaultdict(int)
        self.collectives: dict[str, int] = defaultdict(int)
        self.taken: dict[tuple, int] = defaultdict(int)
        self._refused: dict[str, int] = defaultdict(int)

    def add(self, record: Record) -> None:
        """Give a call its number, and its key if its counterpart is known."""
        group, tag = record.group, record.call.tag
        if record.is_message:
            self._number(record)
            # While a recv from any rank is open, as this one may be, nobody knows which
            # send is whose.
            open_to_any = self.posted.get(("recv", group.name, None, tag), 0) > 0
            if record.op == "send" or not open_to_any:
                base = digest("message", group.name, *record.ends(self.rank), tag)
                record.key = mixed(base, record.number)
        else:
            record.number = self.meet(group.name)
            # A call that all ranks were refused is no counterpart of the next one.
            refused = self._refused[group.name] << 32
            record.key = mixed(group.key, record.number + refused)

    def meet(self, name: str) -> int:
        """Return the number of a collective of the group, or of a meeting, of this
        name.
        """
        number = self.collectives[name] = self.collectives[name] + 1
        return number

    def parts(self, record: Record) -> list[tuple[int, int]]:
        """Return what an all_to_all leaves on the board beside its own key.

        A key for each part, which only its src and its dst have, with a signature of
        its bytes: what one sends the other must take.
        """
        me, splits = record.group.ranks.index(self.rank), record.call.splits
        assert splits is not None
        return [
            (mixed(record.key, digest("part", src, dst)), digest(nbytes))
            for sends, sizes in zip((True, False), splits, strict=True)
            for peer, nbytes in enumerate(sizes)
            for src, dst in [(me, peer) if sends else (peer, me)]
        ]

    def take_back(self, record: Record) -> None:
        """Forget a call that torch has refused: nothing was sent."""
        group = record.group.name
        if record.is_message:
            self.posted[record.op, group, record.peer, record.call.tag] -= 1
        else:
            self.collectives[group] -= 1
            self._refused[group] += 1

    def take(self, record: Record, src: int) -> None:
        """Count a recv that has ended, with a message from `src`."""
        group, tag = record.group.name, record.call.tag
        self.taken[group, tag] += 1
        if record.peer is None:
            self.posted["recv", group, None, tag] -= 1
            record.peer = src
            self._number(record)

    def _number(self, record: Record) -> None:
        *key, _ = record.posted_as
        record.number = self.posted[tuple(key)] = self.posted[tuple(key)] + 1


def mixed(base: int, number: int) -> int:
    """Return the key of the call with this number, of those whose digest is `base`."""
    return ((base + number) * 0x9E3779B97F4A7C15) % 2**64


def place(where: tuple[str, int] | None) -> str:
    """Return a line as one writes it: `"file:line"`."""
    return f"{where[0]}:{where[1]}" if where else ""

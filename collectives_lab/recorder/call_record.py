"""The record of a call while it is under way.

A `Record` is one call of one rank, in a `Group`; a `Meeting` is a call that is no
operator and that all of its ranks must make. The recorder keeps them, makes events of
the first, and shows both to the wait-for graph.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collectives_lab.deadlock import Waiting
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
    """

    op: str
    call: call_arguments.Call
    group: Group
    where: tuple[str, int] | None
    variant: str
    issued: float = field(default_factory=now)
    waited: float | None = None
    completed: float | None = None
    stamps: Stamps | None = None
    key: int = 0
    number: int = 0
    thread: int = 0
    peer: int | None = field(init=False)
    root: int | None = field(init=False)
    timeout: float = field(init=False)

    def __post_init__(self) -> None:
        call, ranks = self.call, self.group.ranks
        self.peer = None if call.peer is None else ranks[call.peer]
        self.root = None if call.root is None else ranks[call.root]
        self.timeout = self.group.timeout

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


def place(where: tuple[str, int] | None) -> str:
    """Return a line as one writes it: `"file:line"`."""
    return f"{where[0]}:{where[1]}" if where else ""

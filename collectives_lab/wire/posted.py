"""An operation that a rank has posted, and the sizes of its tensors.

Here are `Posted`, which becomes an event of a trace, and `read_sides`, which reads the
sizes that a rank sends with a collective.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from collectives_lab.trace import Event
from collectives_lab.wire.codec import DTYPES, Malformed

World = "0"

SIZES = range(1 << 40)
"""Bytes that a tensor may have: their sums fit into the integers of a trace."""

Sides = tuple[tuple[tuple[int, int], ...], ...]
"""For what goes in and what comes out: (dtype code, bytes) of each tensor."""


@dataclass(eq=False)
class Posted:
    """An operation of one rank. Ranks are numbers in the world; times in seconds.

    where: the line of the call, or of a wait for it; called: of the call. data:
    the bytes it sends, until they have been carried to where they go. polled: whether
    the rank has asked for its end without waiting for it; polled_again: whether it did
    so again and again, which is waiting. sent, received, whole: of a collective that
    has met, the bytes that `carried` computed.
    """

    rank: int
    id: int
    verb: str
    group: str
    issued: float
    where: str = ""
    peer: int | None = None
    tag: int = 0
    nbytes: int = 0
    dtype: str = ""
    blocks: bool = False
    root: int | None = None
    reduce_op: str = ""
    sides: Sides = ((), ())
    number: int = 0
    waited: float | None = None
    completed: float | None = None
    matched: bool = False
    seconds: float | None = None
    called: str = ""
    data: bytes = b""
    polled: bool = False
    polled_again: bool = False
    sent: float | None = None
    received: float | None = None
    whole: int | None = None

    @property
    def lane(self) -> str:
        """Where its rank runs it after others: a group's collectives; empty: alone."""
        return "" if self.verb in ("send", "recv") else self.group

    @property
    def input_bytes(self) -> int:
        """Bytes of `data`."""
        if self.verb in ("send", "recv"):
            return self.nbytes if self.verb == "send" else 0
        if self.verb == "broadcast" and self.rank != self.root:
            return 0
        return size_of(self.sides[0])

    def event(self, size: int) -> Event:
        """Return the operation as a trace holds it; size: ranks in its group."""
        message = self.verb in ("send", "recv")
        variant = self.verb if self.blocks or not message else f"i{self.verb}"
        to_itself = message and self.peer == self.rank
        nbytes = self.nbytes if message else self._whole(size)
        return Event(
            self.rank,
            self.verb,
            nbytes,
            self.peer if message else None,
            self.root,
            self.tag,
            self.group,
            variant,
            self.dtype,
            self.reduce_op,
            self.issued,
            self.waited,
            self.completed,
            self.where,
            sent=0.0 if to_itself else self.sent,
            received=0.0 if to_itself else self.received,
            seconds=self.seconds,
            splits=self._splits(),
        )

    def _whole(self, size: int) -> int:
        """Return S of a collective; before it has met as if its parts were even."""
        if self.whole is not None:
            return self.whole
        return full_bytes(self.verb, self.sides, size)

    def _splits(self) -> str:
        parts = [n for _, n in self.sides[0]]
        uneven = self.verb == "all_to_all" and len(set(parts)) > 1
        return ",".join(map(str, parts)) if uneven else ""


def full_bytes(verb: str, sides: Sides, size: int) -> int:
    """Return S of a collective: the bytes of the full logical tensor."""
    sent, received = map(size_of, sides)
    if verb == "all_gather":
        return received
    if verb in ("scatter", "gather"):
        return size * (received if verb == "scatter" else sent)
    return sent


def read_sides(body: bytes) -> tuple[Sides, bytes]:
    """Return what `group.shape_of` has written, and the data after it.

    Raises Malformed.
    """
    sides, at = [], 0
    for _ in range(2):
        side, at = _read_side(body, at)
        sides.append(side)
    return tuple(sides), body[at:]


def _read_side(body: bytes, at: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the tensors of a side that begins there, and where it ends."""
    count = struct.unpack_from("<q", body, at)[0] if at + 8 <= len(body) else -1
    end = at + 8 + 16 * count
    if count < 0 or end > len(body):
        raise Malformed("a collective without its tensors")
    side = tuple(struct.iter_unpack("<qq", body[at + 8 : end]))
    for code, nbytes in side:
        if not 0 <= code < len(DTYPES) or nbytes not in SIZES:
            raise Malformed("a collective with impossible tensors")
        if nbytes % DTYPES[code].itemsize:
            raise Malformed(f"a tensor of {nbytes} bytes of {DTYPES[code]}")
    return side, end


def size_of(side: Sequence[tuple[int, int]]) -> int:
    """Return bytes of all tensors of a side."""
    return sum(n for _, n in side)

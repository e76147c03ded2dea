"""The language between a rank and the switch: frames of a header, a line and a body.

A header holds the kind, the number of the operation and four integers; `where` is the
student's line and `body` raw bytes. The switch reads a rank's frames by a `Reader`,
which believes nothing: a frame of a kind that a rank may not send, or longer than this
kind may be, raises `Malformed` before its bytes are kept.
"""

from __future__ import annotations

import enum
import hashlib
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from collectives_lab.wire.codec import Malformed

MiB = 1 << 20
LONGEST_WHERE = 512
DIGEST = 16
"""Bytes of `digest`."""
MOST_SENT = 16 * MiB
"""Bytes of what one call gives, or of one result."""
LONGEST_SHAPE = 256 * 1024
MOST_REPORTED = 300
"""Statements of a notebook on which a rank reports."""

Ran = tuple[str, int, float, float, str]
"""A statement that a rank has run: its cell, the how manieth of it, seconds of its
processor and of the clock, and its error in words."""


class Kind(enum.IntEnum):
    """The kind of a frame; a is the first of its integers.

    From a rank: SEND and RECV (a: peer in the world, -1 for any, b: tag, c: bytes,
    d: group), COLLECTIVE (a: verb, b: root, c: reduce op, d: group, body: shape of it),
    where the body of a SEND or COLLECTIVE ends with the data that is given;
    WAIT (for an operation; a: how many threads the rank has), POLL (it asks whether an
    operation has ended; a: whether again and again, and does nothing else), DIGEST (of
    what the tensors of an operation hold by now), ASK (a: the number of a function that
    is outside, body: what to give it), GROUP (a: its number, b: the how
    manieth of these ranks, body: its ranks), COMPUTE (a: nanoseconds that it declares
    to compute for), STEP (where: the cell that it runs, a: the how manieth statement of
    it), LOADED (body: its report on a notebook's statements), RETURNED (body:
    values) and RAISED (body: the error).
    To a rank: LOAD (body: the program), CALL (a: whether strict, body: name and
    arguments), READ (send the digest of what an operation sends), DONE (a: source,
    body: what came) and REFUSED (body: why).
    """

    SEND = 1
    RECV = 2
    COLLECTIVE = 3
    WAIT = 4
    DIGEST = 5
    GROUP = 6
    POLL = 10
    COMPUTE = 11
    STEP = 12
    ASK = 13
    LOADED = 7
    RETURNED = 8
    RAISED = 9
    LOAD = 20
    CALL = 21
    READ = 22
    DONE = 23
    REFUSED = 24


class Frame(NamedTuple):
    """One message between a rank and the switch."""

    kind: Kind
    id: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    where: str = ""
    body: bytes = b""


_HEADER = struct.Struct("<BxHIqqqqQ")

LONGEST = {
    **dict.fromkeys((Kind.RECV, Kind.WAIT, Kind.POLL, Kind.COMPUTE, Kind.STEP), 0),
    Kind.DIGEST: DIGEST,
    **dict.fromkeys((Kind.GROUP, Kind.RAISED, Kind.LOADED), 256 * 1024),
    **dict.fromkeys((Kind.SEND, Kind.RETURNED, Kind.ASK), MOST_SENT),
    Kind.COLLECTIVE: LONGEST_SHAPE + MOST_SENT,
}
"""The kinds that a rank may send, and how many bytes the body of each may have."""


def digest(data: bytes) -> bytes:
    """Return the digest by which the switch sees whether a tensor is as it was."""
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


def pack(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    where = frame.where.encode("utf-8", "replace")[:LONGEST_WHERE]
    head = _HEADER.pack(
        *(frame.kind, len(where), frame.id, frame.a, frame.b, frame.c, frame.d),
        len(frame.body),
    )
    return b"".join((head, where, frame.body))


class Reader:
    """Cuts what one rank sends into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def __len__(self) -> int:
        """Bytes of the frame that is not whole yet."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now; raises Malformed."""
        self._held += data
        at = 0
        try:
            while (end := self._end(at)) is not None:
                yield self._cut(at, end)
                at = end
        finally:
            del self._held[:at]

    def _end(self, at: int) -> int | None:
        """Return where the frame that begins here ends.

        None where that is not there yet.
        """
        if len(self._held) - at < _HEADER.size:
            return None
        kind, where, *_, body = _HEADER.unpack_from(self._held, at)
        if kind not in LONGEST:
            raise Malformed(f"a frame of kind {kind}")
        if where > LONGEST_WHERE or body > LONGEST[kind]:
            raise Malformed(f"{body} bytes in a frame {Kind(kind).name}")
        end = at + _HEADER.size + where + body
        return end if end <= len(self._held) else None

    def _cut(self, at: int, end: int) -> Frame:
        kind, length, id_, a, b, c, d, _ = _HEADER.unpack_from(self._held, at)
        begin = at + _HEADER.size
        where = str(self._held[begin : begin + length], "utf-8", "replace")
        body = bytes(self._held[begin + length : end])
        return Frame(Kind(kind), id_, a, b, c, d, where, body)


def read(sock: socket.socket) -> Frame:
    """Return the next frame of a blocking socket, in a rank.

    EOFError: the switch has left.
    """
    kind, length, id_, a, b, c, d, size = _HEADER.unpack(_exactly(sock, _HEADER.size))
    where = str(_exactly(sock, length), "utf-8", "replace")
    return Frame(Kind(kind), id_, a, b, c, d, where, bytes(_exactly(sock, size)))


def _exactly(sock: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = sock.recv_into(view)
        if not got:
            raise EOFError("the switch has closed the wire")
        view = view[got:]
    return data

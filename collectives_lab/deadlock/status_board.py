"""The status board: shared memory in which every rank says what it is doing.

Each rank counts its steps in `epoch` and raises a flag in `blocked` while all its
threads wait; the launcher reads both for free. Each call also leaves a signature under
a key that its counterparts on other ranks share, so that whoever comes second sees a
mismatch before anything is sent. Here you can make a board (`create`), open it
(`Board`), and `meet`.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from functools import lru_cache
from hashlib import blake2b

SLOTS = 4096
"""Recent calls on the board; a later one may take an older one's place."""

LANES = 8
"""Ranks that can leave the same call at the same moment and not miss each other."""


def anonymous_file(name: str) -> int:
    """Open a file that has no name and is gone with its last descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def create(world_size: int) -> int:
    """Return the descriptor of an empty board for `world_size` ranks."""
    fd = anonymous_file("collectives_lab-board")
    os.ftruncate(fd, 8 * (3 * world_size + SLOTS * LANES))
    return fd


@lru_cache(maxsize=4096)
def digest(*parts: object) -> int:
    """Return a 64-bit number that is the same in every process for the same parts."""
    data = blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(data, "little")


class Board:
    """The board behind a descriptor.

    epoch[rank]: steps taken so far. blocked[rank]: 1 while no thread of the rank can
    move by itself. line[rank]: the line of the last communication call.
    """

    def __init__(self, fd: int, world_size: int):
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)
        words = memoryview(self._map).cast("Q")
        self.epoch = words[:world_size]
        self.blocked = words[world_size : 2 * world_size]
        self.line = words[2 * world_size : 3 * world_size]
        self._calls = words[3 * world_size :]
        self._lanes = struct.Struct(f"{min(LANES, world_size)}Q")
        self._begin = 8 * 3 * world_size

    def meet(self, rank: int, key: int, signature: int) -> bool:
        """Leave a call's signature under its key; False if a counterpart's differs.

        A call is one word, 40 bits of the key and 24 of the signature, so it is written
        at once. Of two ranks that call at the same moment, each writes to its own lane
        before it reads the other's: one of them sees both.
        """
        calls, name = self._calls, key >> 24
        call = name << 24 | signature & 0xFFFFFF
        first = key % SLOTS * LANES
        own = first + rank % LANES
        before = calls[own]
        calls[own] = call
        if before >> 24 == name and before != call:
            return False
        for other in self._lanes.unpack_from(self._map, self._begin + 8 * first):
            if other != call and other >> 24 == name:
                return False
        return True

    def leave(self, rank: int, key: int) -> None:
        """Take back what `meet` has left: the call was not made after all."""
        own = key % SLOTS * LANES + rank % LANES
        if self._calls[own] >> 24 == key >> 24:
            self._calls[own] = 0

    def post(self, rank: int, epoch: int, blocked: int, line: int) -> None:
        """Copy the words of a rank from its own board on another host."""
        self.blocked[rank], self.line[rank], self.epoch[rank] = blocked, line, epoch

    def clear(self) -> None:
        """Forget all calls; for when no rank is communicating."""
        for words in (self.epoch, self.blocked, self.line, self._calls):
            words[:] = memoryview(bytes(words.nbytes)).cast("Q")

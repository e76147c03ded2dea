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
import tempfile
from functools import lru_cache
from hashlib import blake2b

import numpy as np

SLOTS = 256
"""Calls a rank keeps on the board; an older one is overwritten, and not compared."""


def anonymous_file(name: str) -> int:
    """Open a file that has no name and is gone with its last descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def create(world_size: int) -> int:
    """Return the descriptor of an empty board for `world_size` ranks."""
    fd = anonymous_file("collectives_lab-board")
    os.ftruncate(fd, 8 * world_size * (3 + 2 * SLOTS))
    return fd


@lru_cache(maxsize=4096)
def digest(*parts: object) -> int:
    """A 63-bit number that is the same in every process for the same parts, never 0."""
    data = blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(data, "little") >> 1 | 1


class Board:
    """The board behind a descriptor, one column a rank.

    epoch[rank]: steps taken so far. blocked[rank]: 1 while no thread of the rank can
    move by itself. line[rank]: the line of the last communication call.
    """

    def __init__(self, fd: int, world_size: int):
        size = os.fstat(fd).st_size
        self._map = mmap.mmap(fd, size)
        rows = np.frombuffer(self._map, dtype=np.uint64).reshape(-1, world_size)
        self._rows = rows
        self.epoch, self.blocked, self.line = rows[0], rows[1], rows[2]
        self._keys, self._signatures = rows[3 : 3 + SLOTS], rows[3 + SLOTS :]

    def meet(self, rank: int, key: int, signature: int) -> bool:
        """Leave a call's signature under its key; False if another rank's differs."""
        slot = (key >> 1) % SLOTS  # every key is odd
        keys, signatures = self._keys[slot], self._signatures[slot]
        # A slot without a key is being written; so no signature is ever read with the
        # key of another call, if the keys are read again afterwards.
        keys[rank] = 0
        signatures[rank] = signature
        keys[rank] = key
        differ = (keys == key) & (signatures != signature)
        return not (differ.any() and (differ & (keys == key)).any())

    def clear(self) -> None:
        """Forget all calls; for when no rank is communicating."""
        self._rows[:] = 0

"""The network in shared memory: every rank sees the one of the group.

Whoever posts a call takes the lock, brings the network to that moment, and leaves it
there together with a forecast: when everything under way will end if nobody else calls.
Who waits reads the forecast, sleeps, and looks again, so a call costs what it costs
once, and no process serves the others. Here you can make the memory (`create`) and open
it (`SharedNetwork`).
"""

from __future__ import annotations

import fcntl
import marshal
import mmap
import os
import pickle
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from collectives_lab.deadlock.status_board import anonymous_file
from collectives_lab.emulation.network import Network
from collectives_lab.fabrics import Fabric

MOST = 0.02
"""Seconds that a thread can be behind the network; what is more, it has lost.

By so much a wait can seem shorter than it should, to a clock that began late too; not
after a barrier, where clocks are started: there nothing is caught up. And so long what
happens on the network is open: a call that is made later may count from before it.
"""

REMEMBERED = 0.05
"""Seconds for which the end of what is over can still be read."""

ROOM = 2**25
"""Bytes for each of the two parts, the state and the forecast; used as needed."""

_HEAD = struct.Struct("<QQ")
"""Before the data of a part: how often it was written, and how long it is."""


def create() -> int:
    """Return the descriptor of an empty network."""
    fd = anonymous_file("collectives_lab-network")
    os.ftruncate(fd, 2 * ROOM)
    return fd


class SharedNetwork:
    """The network behind a descriptor, which it keeps."""

    def __init__(self, fd: int, fabric: Fabric):
        self.fabric = fabric
        self._fd = fd
        self._map = mmap.mmap(fd, 2 * ROOM)
        self._threads = threading.Lock()
        self._forecast: tuple[int, Mapping[tuple, float]] = 0, {}

    def change(self, act: Callable[[Network], None], time: float) -> None:
        """Let `act` make a call on the network as it is at `time`."""
        with self._locked():
            data = self._read(0)
            network = Network(self.fabric, pickle.loads(data) if data else None)
            network.run(time - MOST)
            network.forget(time - REMEMBERED)
            act(network)
            self._write(0, pickle.dumps(network.state, pickle.HIGHEST_PROTOCOL))
            network.run()
            ends = {tuple(key): end for key, end in network.ends.items()}
            self._write(1, marshal.dumps(ends))

    def forecast(self) -> Mapping[tuple, float]:
        """When everything ends; what is not in it has been over for a while.

        Who has read it since it was last written keeps that, and needs no lock.
        """
        if self._head(1)[0] != self._forecast[0]:
            with self._locked():
                data = self._read(1)
                ends = marshal.loads(data) if data else {}
                self._forecast = self._head(1)[0], ends
        return self._forecast[1]

    def clear(self) -> None:
        """Forget everything; for when no rank is communicating."""
        with self._locked():
            for part in (0, 1):
                self._write(part, b"")

    def close(self) -> None:
        """Give the memory back."""
        self._map.close()
        os.close(self._fd)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the network for one thread of one process; a dead one holds no lock."""
        with self._threads:
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def _head(self, part: int) -> tuple[int, int]:
        written, length = _HEAD.unpack_from(self._map, part * ROOM)
        return written, length

    def _read(self, part: int) -> bytes:
        begin, length = part * ROOM + _HEAD.size, self._head(part)[1]
        return self._map[begin : begin + length]

    def _write(self, part: int, data: bytes) -> None:
        size = _HEAD.size + len(data)
        if size > ROOM:
            raise MemoryError(f"{len(data)} bytes of calls under way; room for {ROOM}")
        begin, head = part * ROOM, _HEAD.pack(self._head(part)[0] + 1, len(data))
        # At once: an interrupt may come between two statements, not inside of one.
        self._map[begin : begin + size] = head + data

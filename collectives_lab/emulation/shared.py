"""The network in shared memory: every rank sees the one of the group.

Whoever posts a call takes the lock, brings the network to that moment, and leaves it
there together with a forecast: when everything under way will end if nobody else calls.
Who waits reads the forecast, sleeps, and looks again, so a call costs what it costs
once, and no process serves the others. Here you can make the memory (`create`) and open
it (`SharedNetwork`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from collectives_lab.deadlock.status_board import anonymous_file
from collectives_lab.emulation.network import Message, Network, Share
from collectives_lab.fabrics import Fabric

REMEMBERED = 0.1
"""Seconds for which the end of what is over can still be read."""

ROOM = 2**25
"""Bytes for each of the two parts, the state and the forecast; used as needed."""

_LENGTH = struct.Struct("<Q")


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

    def change(self, act: Callable[[Network], None], time: float) -> None:
        """Let `act` make a call on the network as it is at `time`."""
        with self._locked():
            network = Network(self.fabric, self._read(0))
            network.run(time)
            network.forget(time - REMEMBERED)
            act(network)
            self._write(0, network.state)
            network.run()
            self._write(1, dict(network.ends))

    def forecast(self) -> Mapping[Message | Share, float]:
        """When everything ends; what is not in it has been over for a while."""
        with self._locked():
            return self._read(1) or {}

    def clear(self) -> None:
        """Forget everything; for when no rank is communicating."""
        with self._locked():
            for part in (0, 1):
                self._map[part * ROOM : part * ROOM + _LENGTH.size] = _LENGTH.pack(0)

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

    def _read(self, part: int) -> Any:
        begin = part * ROOM
        (length,) = _LENGTH.unpack_from(self._map, begin)
        if not length:
            return None
        begin += _LENGTH.size
        return pickle.loads(self._map[begin : begin + length])

    def _write(self, part: int, value: Any) -> None:
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        if len(data) + _LENGTH.size > ROOM:
            raise MemoryError(f"{len(data)} bytes of calls under way; room for {ROOM}")
        begin = part * ROOM
        # At once: an interrupt may come between two statements, not inside of one.
        self._map[begin : begin + _LENGTH.size + len(data)] = (
            _LENGTH.pack(len(data)) + data
        )

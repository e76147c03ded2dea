"""The network in shared memory: every rank sees the one of the group.

Whoever posts a call takes the lock and leaves a forecast: when everything under way
will end if nobody else calls. Who waits reads the forecast, sleeps, and looks again, so
a call costs what it costs once, and no process serves the others. A call that is made
late may count from before others, and then it goes before them; but an end that has
passed stays, since somebody may have gone on at it. Here you can make the memory
(`create`) and open it (`SharedNetwork`).
"""

from __future__ import annotations

import fcntl
import marshal
import math
import mmap
import os
import pickle
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from collectives_lab.deadlock.status_board import anonymous_file
from collectives_lab.emulation.network import Message, Network, Share
from collectives_lab.fabrics import Fabric
from collectives_lab.recorder.call_record import now

MOST = 0.02
"""Seconds that a thread can be behind the network; what is more, it has lost.

By so much a wait can seem shorter than it should, to a clock that began late too; not
after a barrier, where clocks are started: there nothing is caught up.
"""

REMEMBERED = 0.04
"""Seconds for which the end of what is over can still be read."""

ROOM = 2**25
"""Bytes for each of the two parts, the state and the forecast; used as needed."""

_HEAD = struct.Struct("<QQ")
"""Before the data of a part: how often it was written, and how long it is."""


class _Forecast(NamedTuple):
    """over: the ends of what is over for good, by key. ends: those that are forecast.

    decided: for each of these, when the network decides it, and the end.
    """

    over: dict[tuple, float]
    ends: dict[tuple, float]
    decided: list[tuple[float, float]]


def create() -> int:
    """Return the descriptor of an empty network."""
    fd = anonymous_file("collectives_lab-network")
    os.ftruncate(fd, 2 * ROOM)
    return fd


class SharedNetwork:
    """The network behind a descriptor, which it keeps."""

    def __init__(self, fd: int, fabric: Fabric, library: str | None = None):
        self.fabric, self.library = fabric, library
        self._fd = fd
        self._map = mmap.mmap(fd, 2 * ROOM)
        self._threads = threading.Lock()
        self._seen = 0, _Forecast({}, {}, [])
        self._ends: Mapping[tuple, float] = {}

    def change(self, act: Callable[[Network], None]) -> None:
        """Let `act` make a call on the network."""
        with self._locked():
            time = now()
            state = self._read(0)
            known = pickle.loads(state) if state else None
            network = Network(self.fabric, known, self.library)
            network.run(max(time - MOST, self._decided(time)))
            act(network)
            over = self._forecast().over
            over = {key: end for key, end in over.items() if end > time - REMEMBERED}
            over |= _plain(network.take_ended())
            self._write(0, pickle.dumps(network.state, pickle.HIGHEST_PROTOCOL))
            network.decided.clear()
            network.run()
            forecast = _Forecast(over, _plain(network.ends), network.decided)
            self._write(1, marshal.dumps(tuple(forecast)))

    def forecast(self) -> Mapping[tuple, float]:
        """Return when everything ends; what is not in it has been over for a while.

        What is over by a moment before this call stays as it is.
        """
        with self._locked():
            self._forecast()
            return self._ends

    def _decided(self, time: float) -> float:
        """Return until when the network has run if all ends by `time` are decided."""
        decided = self._forecast().decided
        return max((at for at, end in decided if end <= time), default=-math.inf)

    def _forecast(self) -> _Forecast:
        """Read the forecast, unless it is the one that was read before."""
        written = self._head(1)[0]
        if written != self._seen[0]:
            data = self._read(1)
            forecast = (
                _Forecast(*marshal.loads(data)) if data else _Forecast({}, {}, [])
            )
            self._seen, self._ends = (written, forecast), forecast.over | forecast.ends
        return self._seen[1]

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


def _plain(ends: Mapping[Message | Share, float]) -> dict[tuple, float]:
    return {tuple(key): end for key, end in ends.items()}

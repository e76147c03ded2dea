"""The box from outside: one server in a sandbox, and sealed ranks from it.

`with Box() as box, box.ranks(4, program) as ranks: ranks.call("f", args)`. The server
has imported torch, so ranks cost milliseconds; it is started when the box is opened, or
again where it was killed from inside. All that comes out is data: what a server says is
read as JSON of known fields, what a rank says as frames.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from collectives_lab.basics.errors import LabError
from collectives_lab.sandbox import tiers
from collectives_lab.wire import server
from collectives_lab.wire.outcome import Broken, Failure
from collectives_lab.wire.program import Program
from collectives_lab.wire.sealed_ranks import SealedRanks
from collectives_lab.wire.switch import Switch

FILES = tuple(f"basics/{name}.py" for name in ("own_cluster", "units")) + tuple(
    f"wire/{name}.py"
    for name in (
        *("cells", "codec", "frames", "futures", "group", "operations", "pending"),
        *("program", "rank_client", "rank_main", "server"),
        "student_package",
    )
)
"""What the server imports of this package beside the sandbox, and no more."""

DATAGRAMS = getattr(socket, "SOCK_SEQPACKET", socket.SOCK_DGRAM)
if sys.platform == "darwin":  # which knows the name, and has no such sockets
    DATAGRAMS = socket.SOCK_DGRAM

STARTING = 120.0
"""Seconds that the import of torch may take."""

ENDING = 10.0
CPU_SECONDS = 5.0
"""CPU time of all ranks of one session together, without what loading took.

A right solution that prints all that it sends takes some 1.2 s on 8 ranks, and twice as
much where another program has the other half of each core."""

LOADING = 2.0
"""CPU time in which a rank may run the program itself, on the average."""

WALL_SECONDS = 20.0
"""For a session that sleeps, or a machine that is busy with something else."""

IDLE, IDLE_TICKS, BUSY = 2.0, 5, 0.02
"""Silence of so many seconds, over so many messages of the CPU time used (one each half
second), with less than so much of it: a rank sleeps."""

LOOKING = 0.05
"""Seconds between two looks at the memory of a box that no cgroup bounds."""

MEMORY = 512 << 20
"""Bytes that a rank may take for itself."""


class BoxError(LabError):
    """The box does not work: nothing is known of what was to be checked."""


class Box:
    """A sandbox with a warm server; tier: `"A"` to `"D"`, None for the best that works.

    Raises ValueError for another tier, BoxError where it cannot be started.
    """

    def __init__(self, tier: str | None = None):
        if tier is not None and tier not in tiers.TIERS:
            raise ValueError(f"tier {tier!r}; need one of {', '.join(tiers.TIERS)}")
        self.tier = tier or tiers.best()
        self.description = tiers.describe(self.tier)
        """The tier and its layers, in words."""
        self._started: Any = None
        self._jobs = 0
        self._messages: list[dict[str, Any]] = []
        self._looked = 0.0
        self._limit = 0.0
        self._words: set[str] = set()

    def __enter__(self) -> Box:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Start the server, if none runs."""
        if self._started is not None:
            if self._started.process.poll() is None:
                return
            self.close()
        if reason := tiers.probe(self.tier):
            raise BoxError(f"tier {self.tier} is not to be had here: {reason}")
        own_end, server_end = socket.socketpair(socket.AF_UNIX, DATAGRAMS)
        mode = "open" if self.tier == "D" else "sealed"
        fd, root = server_end.fileno(), tiers.root(self.tier)
        argv = tiers.bare_python(server.START, fd, mode, root)
        try:
            self._started = tiers.start(self.tier, argv, [fd], files=FILES)
        except OSError as error:
            own_end.close()
            raise BoxError(f"tier {self.tier} cannot be started: {error}") from error
        finally:
            server_end.close()
        self.control = own_end
        if self._await(STARTING, "ready") is None:
            self.close()
            raise BoxError(
                f"the server in the box (tier {self.description}) did not start; try "
                "another tier"
            )

    def close(self) -> None:
        """End the server and all that runs in the box."""
        if self._started is not None:
            self._started.kill()
            self.control.close()
            self._started = None
        self._messages.clear()
        self._words.clear()

    def _preload(self, program: Program) -> None:
        """Have the server import what ranks would else spend their own time on."""
        words = set(program.words) - self._words
        if not words:
            return
        self._send({"do": "import", "words": sorted(words)})
        if self._await(STARTING, "imported") is None:
            self.close()
            raise BoxError("the server in the box ended while it imported torch")
        self._words |= words

    @contextlib.contextmanager
    def ranks(
        self,
        world_size: int,
        program: Program,
        cpu_seconds: float = CPU_SECONDS,
        wall_seconds: float = WALL_SECONDS,
        loading: float = LOADING,
        until: float = math.inf,
    ) -> Iterator[SealedRanks]:
        """Yield fresh ranks that have run the program; they end with the block.

        loading: CPU seconds a rank for that; they do not count for what is called.
        until: when all of it is over at the latest, on the clock of time.monotonic.
        """
        self.open()
        self._preload(program)
        pairs = [socket.socketpair() for _ in range(world_size)]
        pipes = [os.pipe() for _ in range(world_size)]
        self._jobs += 1
        try:
            self._limit = world_size * loading
            order = {"do": "start", "job": self._jobs, "world_size": world_size}
            order |= {"cpu": self._limit, "most": self._limit + cpu_seconds}
            order |= {"memory": MEMORY}
            fds = [rank_end.fileno() for _, rank_end in pairs]
            fds += [writing for _, writing in pipes]
            self._send(order, fds)
        finally:
            for _, rank_end in pairs:
                rank_end.close()
            for _, writing in pipes:
                os.close(writing)
        outputs = [reading for reading, _ in pipes]
        socks = [own_end for own_end, _ in pairs]
        switch = Switch(socks, outputs, self.watch, [self.control.fileno()])
        ranks = SealedRanks(switch, self.status_of, wall_seconds, until)
        try:
            ranks.load(program)
            if ranks.failure is None:
                self._limit = cpu_seconds
                with contextlib.suppress(BoxError):  # which the first call will find
                    self._send({"do": "limit", "cpu": cpu_seconds})
            yield ranks
        finally:
            ranks.switch.close()
            for reading in outputs:
                os.close(reading)
            self._end()

    def _end(self) -> None:
        """Have the ranks killed; a server that does not answer is replaced."""
        with contextlib.suppress(BoxError):
            self._send({"do": "end"})
            if self._await(ENDING, "ended") is not None:
                self._messages.clear()
                return
        self.close()

    def _send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self.control, [json.dumps(message).encode()], list(fds))
        except OSError as error:
            self.close()
            raise BoxError(f"the server in the box has ended: {error}") from None

    def _await(self, seconds: float, key: str) -> dict[str, Any] | None:
        """Wait for a message with this key; None if the server ends or is silent."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.control.settimeout(left)
            try:
                message = self._read()
            except (OSError, ValueError):
                return None
            finally:
                self.control.settimeout(None)
            if key in message:
                return message
            self._messages.append(message)
        return None

    def _read(self, flags: int = 0) -> dict[str, Any]:
        data = self.control.recv(server.LONGEST_MESSAGE, flags)
        message = json.loads(data) if data else None
        if not isinstance(message, dict):
            raise ValueError("the server has ended")
        return message

    def watch(self, silent: float = 0.0) -> None:
        """Raise Broken where the server says that a limit was reached, or has died.

        silent: seconds for which no rank has sent anything; ranks that use no processor
        either are asleep.
        """
        try:
            while True:
                self._messages.append(self._read(socket.MSG_DONTWAIT))
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self.close()
            text = "it ended the box that it runs in"
            raise Broken(Failure("died", text)) from None
        own_messages = [m for m in self._messages if m.get("job") == self._jobs]
        if any("over" in m for m in own_messages):
            raise Broken(Failure("cpu", f"more than {self._limit} s of CPU time"))
        self._watch_memory()
        used = [m["used"] for m in own_messages if "used" in m][-IDLE_TICKS:]
        if silent > IDLE and len(used) == IDLE_TICKS and used[-1] - used[0] < BUSY:
            text = f"the ranks neither compute nor communicate for {IDLE:g} s"
            raise Broken(Failure("idle", text))

    def _watch_memory(self) -> None:
        """Bound the memory of all processes of the box, as a cgroup does in tier A."""
        now = time.monotonic()
        if (
            self.tier not in "BCU"
            or self._started is None
            or now < self._looked + LOOKING
        ):
            return
        self._looked = now
        if too_much := self._started.excess():
            raise Broken(Failure("memory", too_much))

    def status_of(self, rank: int) -> int | None:
        """Return how a rank ended: its exit code, or minus the signal.

        None if unknown.
        """
        # A server that had no core knows of it now: it looks before it answers.
        with contextlib.suppress(BoxError):
            self._send({"do": "look"})
            self._await(ENDING, "looked")
        deadline = time.monotonic() + 0.5
        while True:
            for message in self._messages:
                if (message.get("job"), message.get("rank")) == (self._jobs, rank):
                    return int(message["status"])
            left = deadline - time.monotonic()
            if self._started is None or left <= 0:
                return None
            if (news := self._await(left, "status")) is None:
                return None
            self._messages.append(news)

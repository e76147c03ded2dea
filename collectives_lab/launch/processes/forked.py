"""Ranks forked from the warm server: the usual kind, ready in milliseconds.

A server is started once and hands out ranks, as `ForkedRanks`. When ranks import parts
of torch that it has not, it imports them too; when they import a library for the second
time, another server that has imported it takes its place. Here you can `fork` ranks;
`servers` holds the servers of this process, of which `fork_server` is the other end.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from collectives_lab.basics.errors import LaunchError
from collectives_lab.launch.processes.handles import (
    START_DEADLINE,
    LocalRanks,
    RankHandles,
)
from collectives_lab.launch.processes.interpreter import python
from collectives_lab.launch.rank.channel import Channel, ChannelClosed

WORDS = (b"DistributedDataParallel", b"FullyShardedDataParallel", b"fully_shard")
"""Names in a pickled call of what imports torch's compiler."""

LOOKED_AT = 2**16
"""Bytes of each part of a call in which they are looked for."""


class Server:
    """Our end of a fork server of this process, which has imported `modules` too.

    modules: parts of torch and of this package. libraries: modules of others, in the
    order of imports.
    """

    def __init__(
        self, modules: Collection[str] = (), libraries: Sequence[str] = ()
    ) -> None:
        own_end, server_end = socket.socketpair()
        self.pid = os.getpid()
        self.modules = set(modules)
        self.libraries = tuple(libraries)
        self._surroundings = _surroundings({})
        self.process = python(
            "collectives_lab.launch.processes.fork_server",
            server_end,
            ",".join(sorted(modules)),
            ",".join(libraries),
        )
        server_end.close()
        self.control = Channel(own_end)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Return whether libraries would be imported as they were.

        With the same variables and paths, and nothing installed since.
        """
        return _surroundings(env) == self._surroundings

    def learn(self, modules: Collection[str]) -> None:
        """Have it import modules before it starts more ranks."""
        if new := set(modules) - self.modules:
            self.modules |= new
            with contextlib.suppress(ChannelClosed):  # it has gone: the next one learns
                self.control.send(sorted(new))

    def alive(self) -> bool:
        return self.pid == os.getpid() and self.process.poll() is None

    def ready(self) -> bool:
        """Return whether it has imported everything.

        It says so once, by its first byte.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            return bool(selector.select(0))

    def retire(self) -> None:
        """Let it end as soon as the ranks that it has started have ended."""
        self.control.close()

    def stop(self) -> None:
        """End it, and its ranks with it."""
        if self.pid != os.getpid():
            return
        with contextlib.suppress(ChannelClosed, OSError, ValueError):  # retired, say
            if self.ready():
                self.control.send("stop")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(5)
        self.process.kill()  # which ends its ranks too: they ask for that signal
        self.process.wait()
        self.control.close()


def _surroundings(env: Mapping[str, str]) -> tuple[Any, ...]:
    """Return what decides on an import: variables, paths, and when pip last changed."""
    folders = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    changed = {folder: os.stat(folder).st_mtime_ns for folder in folders}
    return dict(os.environ) | dict(env), list(sys.path), changed


class Servers:
    """The fork servers in use, one that learns libraries, and those that retire.

    current: it has imported torch. with_libraries: one that has also imported what
    ranks import again and again; its ranks are for runs in the same environment.
    coming: one that imports more of them, to take its place. modules: the parts of
    torch and of this package that all of them import, later ones too.
    """

    def __init__(self) -> None:
        self.current: Server | None = None
        self.with_libraries: Server | None = None
        self.coming: Server | None = None
        self.retired: list[Server] = []
        self.modules: set[str] = set()
        self.lock = threading.Lock()
        self._once: set[str] = set()
        self._refused: set[str] = set()

    def all(self) -> list[Server]:
        """Return those that there are."""
        some = self.current, self.with_libraries, self.coming
        return [server for server in (*some, *self.retired) if server is not None]

    def get(self, env: Mapping[str, str] | None = None) -> Server:
        """Return the server to use for ranks with more environment variables.

        A new one if it has gone or this process was forked.
        """
        with self.lock:
            self._settle()
            self.retired = [s for s in self.retired if s.alive()]
            if self.with_libraries is not None and self.with_libraries.fits(env or {}):
                return self.with_libraries
            if self.current is None or not self.current.alive():
                self.current = Server(self.modules)
            return self.current

    def _settle(self) -> None:
        """Let the server that comes take its place, once it is ready."""
        if self.coming is not None and not self.coming.alive():
            self._refused |= set(self.coming.libraries)
            self.coming = None
        if self.coming is not None and self.coming.ready():
            if self.with_libraries is not None:
                self.with_libraries.retire()
                self.retired.append(self.with_libraries)
            self.with_libraries, self.coming = self.coming, None
        if self.with_libraries is not None and not self.with_libraries.alive():
            self.with_libraries = None

    def learn(self, modules: Collection[str], libraries: Sequence[str]) -> None:
        """Have servers import what ranks did, once for all later ranks.

        modules: parts of torch and of this package, by the servers themselves.
        libraries: those that came before, by a new server in the background, which may
        refuse them.
        """
        with self.lock:
            self.modules.update(modules)
            if self.current is None:  # the first one begins with these modules
                return
            for server in (self.current, self.with_libraries, self.coming):
                if server is not None:
                    server.learn(modules)
            again = [name for name in libraries if name in self._once]
            self._once.update(libraries)
            before = self.with_libraries
            known = () if before is None else before.libraries
            new = [n for n in again if n not in known and n not in self._refused]
            is_other = before is not None and again and not before.fits({})
            if (new or is_other) and self.coming is None:
                self.coming = Server(self.modules, [*known, *new])

    def stop(self) -> None:
        """End all of them."""
        with self.lock:
            for server in self.all():
                server.stop()


servers = Servers()
atexit.register(servers.stop)


def prepare(parts: Iterable[Any]) -> None:
    """Have the servers import what a call is going to, once and not on each rank.

    DDP and FSDP import torch's compiler for a second and more. All servers, since
    another one may take over before the ranks start.
    """
    if any(
        word in bytes(memoryview(part)[:LOOKED_AT]) for part in parts for word in WORDS
    ):
        servers.learn(["torch._dynamo"], ())


class ServerGone(LaunchError):
    """The fork server ended before it had handed out the ranks."""


def server_gone(server: Server) -> ServerGone:
    # Its socket closes before it has ended, and meanwhile it would be taken again.
    server.process.kill()
    status = server.process.wait(10)
    return ServerGone(
        f"the fork server of the ranks could not serve (exit status {status}); its "
        "last words are above, on standard error. The next run starts a new one."
    )


def fork(count: int, env: Mapping[str, str], parts: Iterable[Any] = ()) -> ForkedRanks:
    """Fork `count` ranks; env: more variables, which they get when they join.

    parts: of the pickled call that they will do first; the server imports for it.
    """
    prepare(parts)
    try:
        return ForkedRanks(count, env)
    except ServerGone:  # between two runs, say; a new one is started now
        return ForkedRanks(count, env)


class ForkedRanks(LocalRanks):
    """Ranks forked from the warm server, which is their parent."""

    def __init__(self, count: int, env: Mapping[str, str]):
        own_end, server_end = socket.socketpair()
        self._channel = Channel(own_end)
        self.handles: list[RankHandles] = []
        self.ended: dict[int, int | str] = {}
        self._lost = False
        self._count = count
        server = servers.get(env)
        try:
            server.control.send(count, None, [server_end.fileno()])
        except ChannelClosed:
            raise server_gone(server) from None
        finally:
            server_end.close()
        try:
            self._receive(server)
        except BaseException:
            self.close()
            raise

    def _receive(self, server: Server) -> None:
        self._channel.sock.settimeout(START_DEADLINE)
        try:
            while len(self.handles) < self._count:
                message, _, fds = self._channel.recv()
                if message[0] == "ended":
                    self.ended[message[1]] = message[2]
                    continue
                channel = Channel(socket.socket(fileno=fds[0]))
                self.handles.append(RankHandles(channel, fds[1], fds[2], message[2]))
        except ChannelClosed:
            raise server_gone(server) from None
        self._channel.sock.settimeout(5.0)

    def fileno(self) -> int:
        return self._channel.fileno()

    def poll(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            while not self._lost and selector.select(0):
                self._note_end()

    def _note_end(self) -> None:
        try:
            (_, rank, status), _, _ = self._channel.recv()
            self.ended[rank] = status
        except ChannelClosed:
            # The server has gone, and its ranks with it.
            self._lost = True
            for rank in range(len(self.handles)):
                self.ended.setdefault(rank, -signal.SIGKILL)

    def learn(self, report: Mapping[str, Any]) -> None:
        """Have the server import what these ranks have imported.

        DDP alone imports for three seconds in every fresh rank.
        """
        modules, libraries = report.get("imported", ()), report.get("libraries", ())
        if modules or libraries:
            servers.learn(modules, libraries)

    def kill(self) -> None:
        with contextlib.suppress(ChannelClosed):
            self._channel.send("kill")

    def close(self, deadline: float = 10.0) -> None:
        try:
            self.kill()
            until = time.monotonic() + deadline
            while len(self.ended) < len(self.handles) and time.monotonic() < until:
                self._note_end()
        finally:
            self._channel.close()
            self.release()

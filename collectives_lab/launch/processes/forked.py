"""Ranks forked from the warm server: the usual kind, ready in milliseconds."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from collectives_lab.launch.processes.fork_server_client import (
    Server,
    ServerGone,
    prepare,
    server_gone,
    servers,
)
from collectives_lab.launch.processes.handles import (
    START_DEADLINE,
    LocalRanks,
    RankHandles,
)
from collectives_lab.launch.rank.channel import Channel, ChannelClosed


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

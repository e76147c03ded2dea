"""The launcher's side of the fork server: start it, ask it for ranks, replace it.

A server is started once and hands out ranks; when ranks import much that it has not,
one that has imported it too takes its place. Here you can have it `learn` modules;
`servers` holds those of this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from collectives_lab.basics.errors import LaunchError
from collectives_lab.launch.processes.handles import python
from collectives_lab.launch.rank.channel import Channel, ChannelClosed


class Server:
    """Our end of a fork server of this process, which has imported `modules` too."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        own_end, server_end = socket.socketpair()
        self.pid = os.getpid()
        self.modules = set(modules)
        names = ",".join(sorted(modules))
        self.process = python(
            "collectives_lab.launch.processes.fork_server", server_end, names
        )
        server_end.close()
        self.control = Channel(own_end)

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


class Servers:
    """The fork server in use, one that learns to replace it, and those that retire."""

    def __init__(self) -> None:
        self.current: Server | None = None
        self.coming: Server | None = None
        self.retired: list[Server] = []
        self.lock = threading.Lock()

    def get(self) -> Server:
        """Return the server to use.

        A new one if it has gone or this process was forked.
        """
        with self.lock:
            if self.coming is not None and not self.coming.alive():
                self.coming = None
            if self.coming is not None and self.coming.ready():
                self._replace(self.coming)
                self.coming = None
            if self.current is None or not self.current.alive():
                self.current = Server()
            self.retired = [s for s in self.retired if s.alive()]
            return self.current

    def _replace(self, server: Server) -> None:
        if self.current is not None:
            self.current.retire()
            self.retired.append(self.current)
        self.current = server

    def learn(self, modules: Sequence[str]) -> None:
        """Start a server in the background that has imported these too."""
        with self.lock:
            current = self.current
            if current is None or self.coming is not None:
                return
            if not set(modules) <= current.modules:
                self.coming = Server(sorted(current.modules | set(modules)))

    def stop(self) -> None:
        """End all of them."""
        with self.lock:
            for server in (self.current, self.coming, *self.retired):
                if server is not None:
                    server.stop()


servers = Servers()
atexit.register(servers.stop)


def learn(reports: Mapping[int, Mapping[str, Any]]) -> None:
    """Have later ranks forked from a server that has imported what these ranks did.

    DDP alone imports for three seconds in every fresh rank.
    """
    modules = reports[min(reports)].get("imported") if reports else None
    if modules:
        servers.learn(modules)


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

"""The processes of a group: forked from the warm server, or spawned afresh.

Both hand out the same three ends a rank (a channel, its output, its errors), say how
ranks ended, and end all of them by handle. Here you can `start` either kind and `warm`
the server before it is needed.
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
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from collectives_lab.launch import ending
from collectives_lab.launch.channel import Channel, ChannelClosed
from collectives_lab.launch.errors import LaunchError

START_DEADLINE = 60.0
"""Seconds in which the fork server, or a spawned rank, must have imported torch."""

_PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])


@dataclass
class Ends:
    """Our ends of one rank: its channel, its standard output, its standard error."""

    channel: Channel
    out: int
    err: int
    pid: int

    def close(self) -> None:
        """Close all three."""
        self.channel.close()
        for fd in (self.out, self.err):
            with contextlib.suppress(OSError):
                os.close(fd)


class Processes(Protocol):
    """The processes of one group. `ended`: exit status by rank, as they end."""

    ends: list[Ends]
    ended: dict[int, int]

    def fileno(self) -> int:
        """A descriptor that becomes readable when a rank ends; -1 if there is none."""

    def look(self) -> None:
        """Bring `ended` up to date without waiting."""

    def kill(self) -> None:
        """Kill all ranks at once; does not wait."""

    def close(self, deadline: float = 10.0) -> None:
        """Kill all ranks, wait until the last one has ended, and close our ends."""


def _python(
    module: str, sock: socket.socket, *args: str, **kwargs: Any
) -> subprocess.Popen:
    """Call a module's `main(fd, *args)` in a fresh interpreter and session."""
    fd = sock.fileno()
    begin = (
        f"import sys; sys.path.insert(0, {_PACKAGE_PARENT!r}); "
        f"from {module} import main; main({fd}, *{args!r})"
    )
    environment = os.environ | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", begin],  # -P: the reader's folder is no library
        stdin=subprocess.DEVNULL,
        pass_fds=[fd],
        start_new_session=True,
        env=environment,
        **kwargs,
    )


# -- the fork server -----------------------------------------------------------------


class _Server:
    """Our end of a fork server of this process, which has imported `modules` too."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        ours, theirs = socket.socketpair()
        self.pid = os.getpid()
        self.modules = set(modules)
        names = ",".join(sorted(modules))
        self.process = _python("collectives_lab.launch.zygote", theirs, names)
        theirs.close()
        self.control = Channel(ours)

    def alive(self) -> bool:
        return self.pid == os.getpid() and self.process.poll() is None

    def ready(self) -> bool:
        """Whether it has imported everything; it says so once, by its first byte."""
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


class _Servers:
    """The fork server in use, one that learns to replace it, and those that retire."""

    def __init__(self) -> None:
        self.current: _Server | None = None
        self.coming: _Server | None = None
        self.retired: list[_Server] = []
        self.lock = threading.Lock()

    def get(self) -> _Server:
        """The server to use; a new one if it has gone or this process was forked."""
        with self.lock:
            if self.coming is not None and not self.coming.alive():
                self.coming = None
            if self.coming is not None and self.coming.ready():
                self._replace(self.coming)
                self.coming = None
            if self.current is None or not self.current.alive():
                self.current = _Server()
            self.retired = [s for s in self.retired if s.alive()]
            return self.current

    def _replace(self, server: _Server) -> None:
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
                self.coming = _Server(sorted(current.modules | set(modules)))

    def stop(self) -> None:
        """End all of them."""
        with self.lock:
            for server in (self.current, self.coming, *self.retired):
                if server is not None:
                    server.stop()


_servers = _Servers()
atexit.register(_servers.stop)


def learn(modules: Sequence[str]) -> None:
    """Have later ranks forked from a server that has imported these modules already.

    DDP alone imports for three seconds in every fresh rank.
    """
    if modules:
        _servers.learn(modules)


def warm() -> None:
    """Start the fork server without waiting for it, if ranks will be forked here."""
    if default_start_method() == "fork":
        _servers.get()


def default_start_method() -> str:
    """`"fork"` on Linux; `"spawn"` on macOS, where a fork may abort."""
    if sys.platform == "win32":
        raise LaunchError(
            "Collectives Lab needs Linux or macOS: its ranks do not run on Windows. "
            "Install WSL2 and run JupyterLab inside it."
        )
    return "fork" if sys.platform.startswith("linux") else "spawn"


class ForkedRanks:
    """Ranks forked from the warm server, which is their parent."""

    def __init__(self, count: int):
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        self.ends: list[Ends] = []
        self.ended: dict[int, int] = {}
        self._lost = False
        self._count = count
        server = _servers.get()
        try:
            server.control.send(count, None, [theirs.fileno()])
        except ChannelClosed:
            raise _server_gone(server) from None
        finally:
            theirs.close()
        try:
            self._receive(server)
        except BaseException:
            self.close()
            raise

    def _receive(self, server: _Server) -> None:
        self._channel.sock.settimeout(START_DEADLINE)
        try:
            while len(self.ends) < self._count:
                message, _, fds = self._channel.recv()
                if message[0] == "ended":
                    self.ended[message[1]] = message[2]
                    continue
                channel = Channel(socket.socket(fileno=fds[0]))
                self.ends.append(Ends(channel, fds[1], fds[2], message[2]))
        except ChannelClosed:
            raise _server_gone(server) from None
        self._channel.sock.settimeout(5.0)

    def fileno(self) -> int:
        return self._channel.fileno()

    def look(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            while not self._lost and selector.select(0):
                self._hear()

    def _hear(self) -> None:
        try:
            (_, rank, status), _, _ = self._channel.recv()
            self.ended[rank] = status
        except ChannelClosed:
            # The server has gone, and its ranks with it.
            self._lost = True
            for rank in range(len(self.ends)):
                self.ended.setdefault(rank, -signal.SIGKILL)

    def kill(self) -> None:
        with contextlib.suppress(ChannelClosed):
            self._channel.send("kill")

    def close(self, deadline: float = 10.0) -> None:
        try:
            self.kill()
            until = time.monotonic() + deadline
            while len(self.ended) < len(self.ends) and time.monotonic() < until:
                self._hear()
        finally:
            self._channel.close()
            for ends in self.ends:
                ends.close()
            self.ends = []


class ServerGone(LaunchError):
    """The fork server ended before it had handed out the ranks."""


def _server_gone(server: _Server) -> ServerGone:
    # Its socket closes before it has ended, and meanwhile it would be taken again.
    server.process.kill()
    status = server.process.wait(10)
    return ServerGone(
        f"the fork server of the ranks could not serve (exit status {status}); its "
        "last words are above, on standard error. The next run starts a new one."
    )


# -- fresh interpreters ----------------------------------------------------------------


class SpawnedRanks:
    """Ranks in interpreters of their own: slower, and possible everywhere."""

    def __init__(self, count: int):
        self.ends: list[Ends] = []
        self.ended: dict[int, int] = {}
        self._processes: list[subprocess.Popen] = []
        try:
            for _ in range(count):
                self._spawn()
        except BaseException:
            self.close()
            raise

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            process = _python(
                "collectives_lab.launch.rank", theirs, stdout=out_end, stderr=err_end
            )
        finally:
            theirs.close()
            os.close(out_end)
            os.close(err_end)
        self._processes.append(process)
        self.ends.append(Ends(Channel(ours), out, err, process.pid))

    def fileno(self) -> int:
        return -1

    def look(self) -> None:
        for rank, process in enumerate(self._processes):
            status = ending.reap(process)
            if status is not None:
                self.ended[rank] = status

    def kill(self) -> None:
        for process in self._processes:
            if ending.reap(process) is None:  # so its group is still its own
                for pid in _descendants(process.pid):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                ending.kill(process.pid)

    def close(self, deadline: float = 10.0) -> None:
        try:
            self.kill()
            for rank, process in enumerate(self._processes):
                self.ended[rank] = process.wait(deadline)
        finally:
            for ends in self.ends:
                ends.close()
            self.ends = []


def _descendants(pid: int) -> list[int]:
    """The processes that a process and its children have started; Linux only."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def start(count: int, start_method: str) -> Processes:
    """Start `count` ranks by `"fork"` or `"spawn"`; LaunchError if that fails."""
    if start_method == "spawn":
        return SpawnedRanks(count)
    try:
        return ForkedRanks(count)
    except ServerGone:  # between two runs, say; a new one is started now
        return ForkedRanks(count)

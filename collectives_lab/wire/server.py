"""The server in the box: it has imported torch and forks ranks that are sealed.

Trusted code: it runs nothing of a student's and reads nothing that a rank has written.
The checker asks by JSON over a socket, one message a datagram: `import` names what a
program will need of torch (`program.preload`), `start` brings a socket for each rank
and a pipe for what it prints, `limit` allows the ranks more CPU time, `look` is
answered once all that have ended are reported, `end` kills them all. The server is the
ranks' parent: it ends them by handle, counts the CPU time of all together, and reports
how each one ended. Start it by `tiers.bare_python(START)`, so that the rest of the
package, which holds the solutions, is not even imported.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import select
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import cloudpickle  # noqa: F401  (a rank must not read it from the disk later)
import torch

import collectives_lab.basics.units  # noqa: F401  (what is offered)
from collectives_lab.basics import linux
from collectives_lab.sandbox import limits, lockdown
from collectives_lab.wire import rank_main as rank_module
from collectives_lab.wire.program import preload

START = (
    "from collectives_lab.wire import server\n"
    "server.main(int(sys.argv[1]), sys.argv[2] == 'sealed', sys.argv[3])"
)
"""Its arguments: the socket, `sealed` or `open`, and what ranks have as /."""

LONGEST_MESSAGE = 1 << 16
TICK = 0.02
"""Seconds between two looks at the CPU time that the ranks have used."""

REPORT_EVERY = 0.5
"""Seconds between two messages of it."""


@dataclass
class Job:
    """The ranks that run, by process, and what they may use together."""

    number: int
    cpu_seconds: float
    ranks: dict[int, int] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)
    reported: float = field(default_factory=time.monotonic)

    def cpu(self) -> float:
        """Return the CPU seconds of all ranks so far."""
        for pid in self.ranks:
            with contextlib.suppress(OSError, AttributeError):
                self.spent[pid] = time.clock_gettime(_cpu_clock(pid))
        return sum(self.spent.values())


def _cpu_clock(pid: int) -> int:
    """Return the clock of a process's CPU time, as clock_getcpuclockid(3) makes it."""
    return (~pid << 3) | 2


class Server:
    """Answers the checker until it has gone."""

    def __init__(self, control: socket.socket, sealed: bool, root: str):
        self.control = control
        self.sealed = sealed
        self.root = root
        has_landlock = sealed and "Landlock" not in lockdown.why_missing()
        self.readable = lockdown.ruleset(root) if has_landlock else None
        self.checker = os.getppid()
        self.job: Job | None = None
        self.woken, wake = socket.socketpair()
        for sock in (self.woken, wake):
            sock.setblocking(False)
        self.wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Take commands, reap ranks and watch their CPU time."""
        self.report(ready=True)
        while True:
            watched = [self.control, self.woken]
            ready, _, _ = select.select(watched, [], [], TICK if self.job else 1.0)
            if os.getppid() != self.checker:  # no system but Linux ends us with it
                self.kill()
                return
            if self.woken in ready:
                with contextlib.suppress(BlockingIOError):
                    while self.woken.recv(4096):
                        pass
            self.reap()
            if self.control in ready and not self.obey():
                self.kill()
                return
            if self.job:
                self.inspect(self.job)

    def inspect(self, job: Job) -> None:
        """Tell now and then what the ranks have used, and end them at their limit."""
        used = job.cpu()
        if used > job.cpu_seconds:
            self.report(job=job.number, over="cpu", limit=job.cpu_seconds)
            self.kill()
        elif time.monotonic() - job.reported > REPORT_EVERY:
            job.reported = time.monotonic()
            self.report(job=job.number, used=used)

    def report(self, **message: Any) -> None:
        with contextlib.suppress(OSError):
            self.control.send(json.dumps(message).encode())

    def obey(self) -> bool:
        """Carry out one command; False once the checker has gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self.control, LONGEST_MESSAGE, 64)
        except OSError:
            return False
        if not data:
            return False
        command = json.loads(data)
        if command["do"] == "start":
            self.start(command, list(fds))
        elif command["do"] == "import":
            preload(command["words"])
            _share_what_is_there()
            self.report(imported=True)
        elif command["do"] == "limit" and self.job:
            self.job.cpu_seconds = self.job.cpu() + command["cpu"]
        elif command["do"] == "look":
            self.report(looked=True)
        else:
            number, cpu = (self.job.number, self.job.cpu()) if self.job else (0, 0.0)
            self.kill()
            self.report(job=number, ended=True, cpu=cpu)
        return True

    def start(self, command: dict[str, Any], fds: list[int]) -> None:
        """Fork ranks; the descriptors are their sockets, then their outputs.

        Ranks share none: a pipe that two of them hold carries data between them.
        """
        self.kill()
        world_size = command["world_size"]
        self.job = Job(command["job"], command["cpu"])
        for rank in range(world_size):
            pid = os.fork()
            if not pid:
                self.become(rank, fds[rank], fds[world_size + rank], command)
            self.job.ranks[pid] = rank
        for fd in fds:
            os.close(fd)

    def become(self, rank: int, fd: int, output: int, command: dict[str, Any]) -> None:
        """Become a rank in the child: give up all rights, then serve the switch."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdin = os.fdopen(0, closefd=False)
            sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            memory, seconds = command["memory"], math.ceil(command["most"]) + 1
            if self.sealed:
                held = (1, 2, fd)
                lockdown.enter(
                    held, memory, seconds, root=self.root, readable=self.readable
                )
            elif linux.IS_LINUX:
                limits.apply(memory, seconds)
            rank_module.main(socket.socket(fileno=fd), rank, command["world_size"])
        finally:
            os._exit(0)

    def reap(self) -> None:
        """Tell how ranks have ended."""
        job = self.job
        if job is None:
            return
        for pid in list(job.ranks):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                rank = job.ranks.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                self.report(job=job.number, rank=rank, status=code)

    def kill(self) -> None:
        """End every rank, and whatever else runs in a PID namespace of our own."""
        job, self.job = self.job, None
        if job is None:
            return
        for pid in job.ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in job.ranks:
            os.waitpid(pid, 0)


def _share_what_is_there() -> None:
    """Keep collections in a rank from touching, and so copying, the server's pages."""
    gc.collect()
    gc.freeze()


def main(fd: int, sealed: bool, root: str) -> None:
    """Serve the checker on the socket `fd`; sealed: ranks give up all rights."""
    lockdown.harden_server()
    torch.set_num_threads(1)
    tempfile.tempdir = "/tmp"  # parts of torch ask for one, and a rank can try none
    (torch.ones(4) + torch.ones(4)).sum().item()
    rank_module.prepare()
    _share_what_is_there()
    sys.stdin = open(os.devnull)  # noqa: SIM115  (as long as we live)
    Server(socket.socket(fileno=fd), sealed, root).serve()

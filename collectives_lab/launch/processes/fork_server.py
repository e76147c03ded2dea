"""The fork server: a process that has imported torch and hands out ranks by forking.

It serves one launcher over a Unix socket and ends with it. Every group of ranks has a
socket of its own to the launcher: when that closes, for whatever reason, the group is
killed. The server is the ranks' parent, so it ends them by handle and says how each one
ended. When it is idle it forks a few ranks ahead of need.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch

from collectives_lab import recorder
from collectives_lab.basics import devices
from collectives_lab.launch.processes import handles
from collectives_lab.launch.processes.reap import end_all, has_ended, kill, kill_group
from collectives_lab.launch.rank import process_setup
from collectives_lab.launch.rank import rank_process as rank_module
from collectives_lab.launch.rank.channel import Channel, ChannelClosed, pack, unpack
from collectives_lab.launch.rank.library_imports import BY_RANK, Unfit, import_all

PARKED = 16
"""Ranks kept ready at most; each holds about 6 MB."""

IDLE = 0.02
"""Seconds without a request after which a rank is forked ahead of need."""


@dataclass
class Forked:
    """A rank's process and the launcher's ends of its channel and its output."""

    pid: int
    fds: list[int]


@dataclass
class Group:
    """The ranks of one launch that have not been reaped, by process."""

    channel: Channel
    ranks: dict[int, int] = field(default_factory=dict)
    closed: bool = False


class ForkServer:
    """The fork server behind a channel to its launcher."""

    def __init__(self, control: Channel):
        self.control = control
        self.groups: list[Group] = []
        self.parked: list[Forked] = []
        self.wanted = 0
        self.open = True
        self.is_stopped = False
        self.selector = selectors.DefaultSelector()
        self.woken, wake = socket.socketpair()
        for sock in (self.woken, wake):
            sock.setblocking(False)
        self.wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.woken, selectors.EVENT_READ, self._reap)
        self.selector.register(control, selectors.EVENT_READ, self._new_group)

    def serve(self) -> None:
        """Answer the launcher until it has gone, then leave nothing behind."""
        launcher = os.getppid()
        while (
            os.getppid() == launcher
            and (self.open or self.groups)
            and not self.is_stopped
        ):
            enough = len(self.parked) >= self.wanted
            ready = self.selector.select(1.0 if enough else IDLE)
            for key, _ in ready:
                key.data()
            if not ready and not enough:
                self.parked.append(self._fork())
        ranks = [*(p.pid for p in self.parked), *self._pids()]
        for pid in ranks:
            kill(pid)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        end_all(lambda: _strays(set(ranks)))
        for pid in ranks:
            kill_group(pid)
            os.waitpid(pid, 0)

    def _pids(self) -> list[int]:
        return [pid for group in self.groups for pid in group.ranks]

    # -- starting ------------------------------------------------------------------

    def _new_group(self) -> None:
        """Hand `count` ranks to the launcher: those parked, then new ones."""
        try:
            message, _, fds = self.control.recv()
        except ChannelClosed:  # no more groups; those that stand may go on
            self.selector.unregister(self.control)
            self.open, self.wanted = False, 0
            return
        if message == "stop":
            self.is_stopped = True
            return
        if isinstance(message, list):
            self._import(message)
            return
        count, (fd,) = message, fds
        group = Group(Channel(socket.socket(fileno=fd)))
        self.groups.append(group)
        self.selector.register(
            group.channel, selectors.EVENT_READ, lambda: self._end_group(group)
        )
        with contextlib.suppress(ChannelClosed):
            for rank in range(count):
                forked = self.parked.pop() if self.parked else self._fork()
                group.ranks[forked.pid] = rank
                try:
                    group.channel.send(("started", rank, forked.pid), None, forked.fds)
                finally:
                    for end in forked.fds:
                        os.close(end)
        self.wanted = min(count, PARKED)

    def _import(self, modules: list[str]) -> None:
        """Import modules for all later ranks; those that are parked lack them."""
        for forked in self.parked:
            kill(forked.pid)
            os.waitpid(forked.pid, 0)
            for end in forked.fds:
                os.close(end)
        self.parked.clear()
        _import_modules(modules)
        _freeze()

    def _fork(self) -> Forked:
        launcher_end, rank_end = socket.socketpair()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        server = os.getpid()
        pid = os.fork()
        if pid:
            for end in (out_end, err_end):
                os.close(end)
            rank_end.close()
            return Forked(pid, [launcher_end.detach(), out, err])
        try:
            _become_rank(rank_end, out_end, err_end, server)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    # -- ending --------------------------------------------------------------------

    def _end_group(self, group: Group) -> None:
        """Kill the group's ranks: the launcher says so, or has gone.

        `_reap` ends what they leave running.
        """
        try:
            group.channel.recv()
        except ChannelClosed:
            self.selector.unregister(group.channel)
            group.channel.close()
            group.closed = True
        for pid in group.ranks:
            kill(pid)
        self._forget_ended()

    def _reap(self) -> None:
        """End what ranks that have ended left running, and say how they have ended."""
        with contextlib.suppress(BlockingIOError):
            while self.woken.recv(4096):
                pass
        ended = {pid for pid in self._pids() if has_ended(pid)}
        end_all(lambda: _strays({p.pid for p in self.parked} | set(self._pids())))
        for group in self.groups:
            for pid in [pid for pid in group.ranks if pid in ended]:
                kill_group(pid)  # the zombie keeps its number taken
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                rank = group.ranks.pop(pid)
                if not group.closed:
                    with contextlib.suppress(ChannelClosed):
                        group.channel.send(("ended", rank, status))
        self._reap_parked()
        self._forget_ended()

    def _reap_parked(self) -> None:
        for forked in [p for p in self.parked if has_ended(p.pid)]:
            os.waitpid(forked.pid, 0)
            for end in forked.fds:
                os.close(end)
            self.parked.remove(forked)

    def _forget_ended(self) -> None:
        self.groups = [g for g in self.groups if g.ranks or not g.closed]


def _strays(keep: set[int]) -> list[int]:
    """List the processes that outlived the rank that started them; reap the others.

    A rank adopts its descendants' orphans, and this server adopts those of a rank that
    has ended. So a child of ours that is no rank is such an orphan.
    """
    with contextlib.suppress(OSError, ValueError):
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            orphans = [pid for pid in map(int, file.read().split()) if pid not in keep]
        return [pid for pid in orphans if os.waitpid(pid, os.WNOHANG)[0] == 0]
    return []


def _become_rank(sock: socket.socket, out: int, err: int, server: int) -> None:
    """Become a rank in the child: a session and output of its own, then serve."""
    os.setsid()
    process_setup.die_with_parent()  # without it a rank ends with its socket
    if os.getppid() != server:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(out, 1)
    os.dup2(err, 2)
    keep = sock.fileno()
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != keep:
            with contextlib.suppress(OSError):
                os.close(fd)
    rank_module.main(sock.detach())


def _warm_up() -> None:
    """Do once, here, what every rank would otherwise do for the first time."""
    torch.set_num_threads(1)
    np.random.seed()
    unpack(pack((_warm_up, torch.ones(4) + torch.ones(4))))


def _import_modules(modules: Iterable[str]) -> None:
    """Import modules; a rank that needs one that fails will say why."""
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _freeze() -> None:
    """Keep collections in a rank from touching, and so copying, shared pages."""
    gc.collect()
    gc.freeze()


def main(fd: int, modules: str = "", libraries: str = "") -> None:
    """Serve the launcher on the socket `fd`, with `modules` and `libraries` imported.

    modules: parts of torch and of this package. Ends at once if the libraries do not
    suit all ranks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process_setup.adopt_orphans()
    recorder.install()
    _import_modules(filter(None, modules.split(",")))
    alike = handles.environment(1, {}).items()
    os.environ.update((k, v) for k, v in alike if k not in BY_RANK)
    try:
        import_all(filter(None, libraries.split(",")))
    except Unfit:  # nobody asked for it: ranks go on to import them
        sys.exit(1)
    _warm_up()
    if why := devices.why_no_fork():
        raise SystemExit(why)
    _freeze()
    control = Channel(socket.socket(fileno=fd))
    with contextlib.suppress(ChannelClosed):  # the launcher may have ended meanwhile
        control.send("ready")
        ForkServer(control).serve()

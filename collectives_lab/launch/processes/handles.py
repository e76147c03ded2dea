"""The launcher's hold on its ranks, however they were started, and how they join.

`RankHandles` are the launcher's ends of one rank; `Processes` are all ranks of a group,
with how they ended. `LocalRanks` are those of this machine: each learns from the
launcher who it is, and gets descriptors of the status board and of the store in which
it meets the others.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from collectives_lab.basics import devices
from collectives_lab.deadlock.status_board import anonymous_file
from collectives_lab.launch.processes import backends
from collectives_lab.launch.processes.host_clocks import HostClocks
from collectives_lab.launch.rank.channel import Channel, ChannelClosed

START_DEADLINE = 60.0
"""Seconds in which the fork server, or a spawned rank, must have imported torch."""


@dataclass
class RankHandles:
    """The launcher's ends of a rank: its channel, its standard output and error.

    Without descriptors of the last two, what it prints comes by the channel.
    """

    channel: Channel
    out: int | None
    err: int | None
    pid: int

    def close(self) -> None:
        """Close the channel and both streams."""
        self.channel.close()
        for fd in (self.out, self.err):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)


class Processes(Protocol):
    """The processes of one group.

    ended: exit status by rank, as they end; words where nobody could see it. clocks:
    of their hosts, if these may be others than ours, behind a network that may be slow.
    """

    handles: list[RankHandles]
    ended: dict[int, int | str]
    clocks: HostClocks | None

    def join(self, board: int, backend: str, env: Mapping[str, str]) -> None:
        """Send each rank its settings and what it shares with others; do not wait."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when a rank ends.

        -1 if there is none.
        """

    def poll(self) -> None:
        """Bring `ended` up to date without waiting."""

    def learn(self, report: Mapping[str, Any]) -> None:
        """Let later ranks have what these have imported, if a server hands them out."""

    def kill(self) -> None:
        """Kill all ranks at once; does not wait."""

    def close(self, deadline: float = 10.0) -> None:
        """Kill all ranks, wait until the last one has ended, and close the handles."""


class LocalRanks:
    """Ranks on this machine, as children of ours or of our fork server."""

    handles: list[RankHandles]
    clocks: HostClocks | None = None
    _store_file: str | None = None

    def join(self, board: int, backend: str, env: Mapping[str, str]) -> None:
        """Send each rank its settings; its first job need not wait for the answer."""
        fds = [board]
        if hasattr(os, "memfd_create"):
            fds.append(anonymous_file("collectives_lab-store"))
        else:
            handle, self._store_file = tempfile.mkstemp(prefix="collectives_lab-")
            os.close(handle)
        world_size = len(self.handles)
        shared = {
            "world_size": world_size,
            "backend": backend,
            "path": sys.path,
            "cwd": folder(),
            "store": self._store_file,
            "gpus": devices.count(env),
        }
        world = environment(world_size, env)
        for rank, handles in enumerate(self.handles):
            own_environment = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            own_environment |= backends.of_rank(world, rank)
            options = shared | {"rank": rank, "env": world | own_environment}
            with contextlib.suppress(ChannelClosed):  # `ended` notices a dead rank
                handles.channel.send(("job", 0, "join", options), None, fds)
        for fd in fds[1:]:
            os.close(fd)

    def learn(self, report: Mapping[str, Any]) -> None:
        """Do nothing: each of these ranks imports for itself."""

    def release(self) -> None:
        """Close the handles; remove the file in which ranks have met, if it has one."""
        if self._store_file is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._store_file)
        for handles in self.handles:
            handles.close()
        self.handles = []


def environment(world_size: int, env: Mapping[str, str]) -> dict[str, str]:
    """Return the launcher's environment, what torchrun sets, and what suits one
    machine.
    """
    default = {"OMP_NUM_THREADS": "1"}
    if sys.platform.startswith("linux"):
        default["GLOO_SOCKET_IFNAME"] = "lo"
    torchrun = {
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "MPLBACKEND": "agg",
    }
    return default | dict(os.environ) | torchrun | dict(env)


def folder() -> str:
    """Return where we are; the root, if that folder is no longer there."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port that was free a moment ago, for a script that makes its own
    store.
    """
    with socket.socket() as sock:
        sock.bind((address, 0))
        return sock.getsockname()[1]

"""The handles by which the launcher holds its ranks, however they were started.

`RankHandles` are the launcher's ends of one rank; `Processes` are all ranks of a group,
with how they ended. Here you can also start a `python` of our own beside this one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from collectives_lab.launch.processes.host_clocks import HostClocks
from collectives_lab.launch.rank.channel import Channel

START_DEADLINE = 60.0
"""Seconds in which the fork server, or a spawned rank, must have imported torch."""

_PACKAGE_PARENT = str(Path(__file__).resolve().parents[3])


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
        """Tell each rank who it is and what it shares with the others; do not wait."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when a rank ends.

        -1 if there is none.
        """

    def poll(self) -> None:
        """Bring `ended` up to date without waiting."""

    def kill(self) -> None:
        """Kill all ranks at once; does not wait."""

    def close(self, deadline: float = 10.0) -> None:
        """Kill all ranks, wait until the last one has ended, and close the handles."""


def python(
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

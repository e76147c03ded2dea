"""The end of a rank by handle: its exit status, and the processes that it leaves.

A process that has ended keeps its number, and that of its process group, until its
parent reaps it. Here you can ask whether it `has_ended`, `kill` it with its group, and
`reap` it, so that no number is used that may mean somebody else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

_CAN_PEEK = hasattr(os, "waitid")
"""Not on macOS before Python 3.13: there a rank's children outlive its own death."""


def has_ended(pid: int) -> bool:
    """Return whether a child has ended; asking does not reap it."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, options) is not None


def kill(pid: int) -> None:
    """Kill a child that is not reaped yet, and the processes of its group."""
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)


def reap(process: subprocess.Popen) -> int | None:
    """Return the exit status of a child whose group is ended with it.

    None while it runs.
    """
    if process.returncode is None and _CAN_PEEK:
        with contextlib.suppress(ChildProcessError):  # somebody else has reaped it
            if not has_ended(process.pid):
                return None
            kill(process.pid)
    return process.poll()

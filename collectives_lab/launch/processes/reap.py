"""The end of a rank by handle: its exit status, and the processes that it leaves.

A process that has ended keeps its number, and that of its process group, until its
parent reaps it. Here you can ask whether it `has_ended`, and `reap` it, so that no
number is used that may mean somebody else. `kill` and `kill_group` strike at once;
`end_all` lets resource trackers unlink first what nobody holds any more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from collectives_lab.basics import linux

PATIENCE = 3.0
"""Seconds in which resource trackers must have cleaned up, and ended by themselves."""

_CAN_PEEK = hasattr(os, "waitid")
"""Not on macOS before Python 3.13: there a rank's children outlive its own death."""


def has_ended(pid: int) -> bool:
    """Return whether a child has ended; asking does not reap it."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, options) is not None


def kill(pid: int) -> None:
    """Kill a process that may have gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """Kill a child that is not reaped yet, and the processes of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    kill(pid)


def is_resource_tracker(pid: int) -> bool:
    """Return whether a process is a resource tracker of `multiprocessing`, or says so.

    A rank starts one with its first semaphore or shared memory that has a name. When
    the rank and its children have ended, it unlinks what they have left, and ends.
    """
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"resource_tracker import main" in command
    return False


def end_all(left: Callable[[], list[int]]) -> None:
    """Kill the processes that `left` lists, until it lists none.

    Resource trackers among them end by themselves, once the others have ended. Whoever
    is still there at the deadline is killed, whatever it says that it is.
    """
    begun = time.monotonic()
    while (pids := left()) and (waited := time.monotonic() - begun) < 2 * PATIENCE:
        for pid in pids:
            if waited > PATIENCE or not is_resource_tracker(pid):
                kill(pid)
        time.sleep(0.001)


def strike(pid: int, below: list[int]) -> None:
    """Kill a child that is not reaped yet, its group, and the processes below it.

    If its group has a resource tracker, that one is spared: `reap` ends the group.
    """
    spared = [one for one in below if is_resource_tracker(one) and _group(one) == pid]
    for one in below:
        if one not in spared:
            kill(one)
    (kill if spared else kill_group)(pid)


def reap(process: subprocess.Popen) -> int | None:
    """Return the exit status of a child whose group is ended with it.

    None while it runs.
    """
    if process.returncode is None and _CAN_PEEK:
        with contextlib.suppress(ChildProcessError):  # somebody else has reaped it
            if not has_ended(process.pid):
                return None
            end_all(lambda: _left_in_group(process.pid))
            kill_group(process.pid)
    return process.poll()


def _left_in_group(pid: int) -> list[int]:
    """List who runs in the group of a child that has ended and is not reaped yet.

    Nobody where there is no /proc.
    """
    has_ended(pid)  # raises ChildProcessError where the number may be somebody else's
    numbers = os.listdir("/proc") if linux.IS_LINUX else []
    members = [int(n) for n in numbers if n.isdigit() and _group(int(n)) == pid]
    return [member for member in members if linux.state(member) not in ("", "Z", "X")]


def _group(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return None

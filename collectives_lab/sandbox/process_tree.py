"""Processes of a sandbox: which run, what they and those below take, their end."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from collectives_lab.basics import linux


def runs(pid: int) -> bool:
    """Return whether a process is there and has not ended, even if nobody has asked
    how.
    """
    return linux.state(pid) not in ("", "Z", "X")


def taken(pid: int) -> tuple[int, int]:
    """Return the bytes and the threads that a process and those below it have.

    Of a fork's memory counts what it has more than its parent, with which it shares
    the rest until one of them changes it.
    """
    memory = threads = 0
    own: dict[int, int] = {}
    for one in [pid, *linux.descendants(pid)]:
        with suppress(OSError):
            fields = linux.status(one)
            own[one] = fields.get("RssAnon", 0) * 1024  # a zombie has none
            memory += max(0, own[one] - own.get(fields["PPid"], 0))
            threads += fields["Threads"]
    return memory, threads


def end(pids: Iterable[int], seconds: float) -> bool:
    """Kill these processes, wait until they have ended; say whether they have."""
    handles = []
    for pid in pids:
        with suppress(OSError):
            handles.append(os.pidfd_open(pid))
    try:
        for handle in handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        return ended(handles, seconds)
    finally:
        for handle in handles:
            os.close(handle)


def ended(handles: list[int], seconds: float) -> bool:
    """Wait until the processes of these handles have ended; say whether they have."""
    deadline = time.monotonic() + seconds
    left = select.poll()
    for handle in handles:
        left.register(handle, select.POLLIN)
    running = {*handles}
    while running and (wait := deadline - time.monotonic()) > 0:
        for handle, _ in left.poll(wait * 1000):
            left.unregister(handle)
            running.discard(handle)
    return not running

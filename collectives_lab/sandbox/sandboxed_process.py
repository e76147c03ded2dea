"""A process in a sandbox, and those below it: what they take, print, and their end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from collectives_lab.basics import linux
from collectives_lab.basics.errors import LabError
from collectives_lab.basics.units import format_bytes
from collectives_lab.sandbox import cgroup

MEMORY = min(4 << 30, cgroup.most_memory() // 2)
"""Bytes that a box may take, its server included; the checker needs the other half of
what a container may have."""

THREADS = 768
"""How many threads a box may have, in all its processes together."""

PATIENCE = 15.0
"""Seconds that a box may take to start, and its processes to end."""


class TierError(LabError, OSError):
    """A tier of the sandbox is not to be had on this machine, or has not ended."""


@dataclass
class Started:
    """A server in its box, from its start to `kill`."""

    tier: str
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    group: cgroup.Cgroup | None = None
    first: int | None = None
    """Handle of the first process of the box's namespace, which takes all along."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def errors(self) -> str:
        """Return the last of what it has written to its standard error."""
        self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, self.log.tell() - 4000))
        return self.log.read().decode("utf-8", "replace").strip()

    def excess(self, memory: int = MEMORY, threads: int = THREADS) -> str | None:
        """Say what its processes together take too much of; None where they do not.

        To be asked every few hundredths of a second where no cgroup watches over it,
        so in B and C; one question costs about 0.1 ms a process.
        """
        has, runs = _taken(self.pid)
        if has > memory:
            took, most = format_bytes(has), format_bytes(memory)
            return f"the ranks took {took} of memory together; {most} are allowed"
        if runs > threads:
            return f"the ranks started {runs} threads; {threads} are allowed"
        return None

    def kill(self) -> None:
        """End all that is in the box and wait for it; raises TierError where it stays.

        May be called twice, and whatever has happened to the box.
        """
        has_ended = self._end_all()
        with suppress(subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(PATIENCE)
        if self.group is not None and has_ended:
            self.group.remove()
        self.log.close()
        if not has_ended or self.process.poll() is None:
            raise TierError(f"processes of the box {self.pid} could not be ended")

    def _end_all(self) -> bool:
        if self.first is not None:
            handle, self.first = self.first, None
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            have_ended = _ended([handle], PATIENCE)
            os.close(handle)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)  # bubblewrap reaps it and ends by itself
            return have_ended
        # The ranks before their server, which adopts what they leave behind.
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            ranks = [pid for pid in linux.descendants(self.pid) if _runs(pid)]
            if not ranks:
                break
            if not _end(ranks, deadline - time.monotonic()):
                return False
        return True


def _runs(pid: int) -> bool:
    """Return whether a process is there and has not ended, even if nobody has asked
    how.
    """
    return linux.state(pid) not in ("", "Z", "X")


def _taken(pid: int) -> tuple[int, int]:
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


def _end(pids: Iterable[int], seconds: float) -> bool:
    """Kill these processes, wait until they have ended; say whether they have."""
    handles = []
    for pid in pids:
        with suppress(OSError):
            handles.append(os.pidfd_open(pid))
    try:
        for handle in handles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        return _ended(handles, seconds)
    finally:
        for handle in handles:
            os.close(handle)


def _ended(handles: list[int], seconds: float) -> bool:
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

"""A process in a sandbox: the memory it takes, what it prints, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from collectives_lab.basics import linux
from collectives_lab.basics.errors import LabError
from collectives_lab.basics.units import format_bytes
from collectives_lab.sandbox import cgroup, process_tree

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
        has, runs = process_tree.taken(self.pid)
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
            have_ended = process_tree.ended([handle], PATIENCE)
            os.close(handle)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)  # bubblewrap reaps it and ends by itself
            return have_ended
        # The ranks before their server, which adopts what they leave behind.
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            ranks = [
                pid for pid in linux.descendants(self.pid) if process_tree.runs(pid)
            ]
            if not ranks:
                break
            if not process_tree.end(ranks, deadline - time.monotonic()):
                return False
        return True

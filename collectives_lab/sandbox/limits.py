"""Limits of one rank: its memory, its processor time, its files, its threads.

They are the process's own, so ranks that each keep to them may together take more than
the machine has: the sum is bounded by a tier's cgroup or its watch (`tiers`).
"""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Iterator
from contextlib import suppress

from collectives_lab.basics.linux import IS_LINUX, status

THREADS = 512
"""How many more threads this user may have, in all ranks together; torch takes few."""


def apply(memory: int, cpu_seconds: int, files: int = 64) -> None:
    """Limit this process for good: bytes of memory more than now, seconds, open files.

    No file can be written, no core dumped. At `cpu_seconds` SIGXCPU ends the process, a
    second later SIGKILL. Not for a process that uses CUDA, which maps more memory than
    there is. The threads of root's processes are not limited by Linux; those of any
    other user are. Costs a millisecond; raises OSError or ValueError.
    """
    for kind, soft, hard in [
        *_memory(memory),
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NOFILE, files, files),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_NPROC, threads_now() + THREADS, threads_now() + THREADS),
    ]:
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def _memory(more: int) -> Iterator[tuple[int, int, int]]:
    """Yield what is mapped now, so torch's libraries too, and so much more."""
    if IS_LINUX:
        most = status()["VmSize"] * 1024 + more
        yield resource.RLIMIT_AS, most, most


@functools.cache
def threads_now() -> int:
    """Return how many threads this user has, counted once: before ranks are forked."""
    count = 0
    for name in os.listdir("/proc") if IS_LINUX else []:
        if name.isdigit():
            with suppress(OSError):
                fields = status(name)
                count += fields["Threads"] if fields["Uid"] == os.getuid() else 0
    return count

"""What the machine bears, asked before ranks start: memory, processes, files."""

from __future__ import annotations

import os
from pathlib import Path

from collectives_lab.basics.units import format_bytes

RANK_MEMORY = {"fork": 16 * 10**6, "spawn": 250 * 10**6}
"""Bytes a rank may need before it has done anything (measured: 6 and 150 MB)."""

PAIR_MEMORY = 16_000
"""Bytes that the kernel keeps at each end of a connection between two ranks."""

FILES_A_RANK = 3
"""Descriptors that the launcher holds for each rank."""


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def free_memory() -> int:
    """Bytes that processes may still take, of the machine and of the container."""
    free = 2**62
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        free = pages // 2
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        most, taken = _number(limit), _number(used)
        if most is not None and taken is not None:
            free = min(free, max(most - taken, 0))
    return free


def _open_files() -> tuple[int, str]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    soft = 2**31 if soft == unlimited else soft
    return soft, f"a limit of {soft} open files (ulimit -n, hard limit {hard})"


def _files_used() -> int:
    """Descriptors that this process has open; a guess where nobody can tell."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 48


def _processes() -> tuple[int, str]:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    most = 2**31 if soft == resource.RLIM_INFINITY else soft
    for path in ("/sys/fs/cgroup/pids.max", "/proc/sys/kernel/pid_max"):
        most = min(most, _number(path) or most)
    return most, f"a limit of {most} processes and threads"


def why_too_many(world_size: int, start_method: str) -> str | None:
    """Say which limit of the machine `world_size` ranks would break; None if none."""
    each, free = RANK_MEMORY[start_method], free_memory()
    ranks, pairs = world_size * each, world_size**2 * PAIR_MEMORY
    if ranks + pairs > free:
        return (
            f"the ranks need about {format_bytes(ranks)} of memory, the connections "
            f"between all pairs of them {format_bytes(pairs)}, and "
            f"{format_bytes(free)} are free"
        )
    files, what = _open_files()
    used = _files_used()
    if FILES_A_RANK * world_size + used + 16 > files:
        return (
            f"each rank needs {FILES_A_RANK} files here, {used} are open already, and "
            f"there is {what}"
        )
    if world_size + 64 > files:
        return f"each rank holds a connection to every other, and there is {what}"
    threads, what = _processes()
    if 5 * world_size > threads:
        return f"each rank needs about 5 threads, and there is {what}"
    return None

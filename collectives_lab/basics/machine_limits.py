"""Limits of the machine, checked before ranks start: memory, processes, files."""

from __future__ import annotations

import os
from pathlib import Path

from collectives_lab.basics.units import format_bytes

RANK_MEMORY = {"fork": 16 * 10**6, "spawn": 250 * 10**6}
"""Bytes that a new rank may need (measured: 6 and 150 MB)."""

PAIR_MEMORY = 16_000
"""Bytes that the kernel keeps at each end of a connection between two ranks."""

FILES_A_RANK = 3
"""Descriptors that the launcher holds for each rank."""


def cores() -> int:
    """Return the cores that this process may use, by its affinity."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def free_memory() -> int:
    """Return the bytes that processes may still take, on the machine and container."""
    free = 2**62
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        free = pages // 2
    for limit_path, used_path in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        limit_bytes, used_bytes = _number(limit_path), _number(used_path)
        if limit_bytes is not None and used_bytes is not None:
            free = min(free, max(limit_bytes - used_bytes, 0))
    return free


def _open_files() -> tuple[int, str]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    soft = 2**31 if soft == unlimited else soft
    return soft, f"a limit of {soft} open files (ulimit -n, hard limit {hard})"


def _files_used() -> int:
    """Return the number of open descriptors of this process; 48 where it is unknown."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 48


def _processes() -> tuple[int, str]:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = 2**31 if soft == resource.RLIM_INFINITY else soft
    for path in ("/sys/fs/cgroup/pids.max", "/proc/sys/kernel/pid_max"):
        limit = min(limit, _number(path) or limit)
    return limit, f"a limit of {limit} processes and threads"


def why_too_many(world_size: int, start_method: str) -> str | None:
    """Return which limit of the machine `world_size` ranks exceed; None if none."""
    rank_bytes, free = RANK_MEMORY[start_method], free_memory()
    ranks_bytes, pairs_bytes = world_size * rank_bytes, world_size**2 * PAIR_MEMORY
    if ranks_bytes + pairs_bytes > free:
        return (
            f"the ranks need about {format_bytes(ranks_bytes)} of memory, the "
            f"connections between all pairs of them {format_bytes(pairs_bytes)}, and "
            f"{format_bytes(free)} are free"
        )
    file_limit, limit_text = _open_files()
    open_files = _files_used()
    if FILES_A_RANK * world_size + open_files + 16 > file_limit:
        return (
            f"each rank needs {FILES_A_RANK} files here, {open_files} are open "
            f"already, and there is {limit_text}"
        )
    if world_size + 64 > file_limit:
        return f"each rank holds a connection to every other, and there is {limit_text}"
    process_limit, limit_text = _processes()
    if 5 * world_size > process_limit:
        return f"each rank needs about 5 threads, and there is {limit_text}"
    return None

"""The machine itself: system, cores, memory, GPUs. Needs no torch."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from collectives_lab.basics.units import format_bytes
from collectives_lab.doctor.finding import Finding

PART = "machine"
CGROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
SECONDS = 30.0
"""Which nvidia-smi may take; a driver that hangs must not hang us."""


def system() -> Iterator[Finding]:
    """The operating system and Python."""
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    found = f"{kernel}; Python {platform.python_version()}"
    state, do = "ok", ""
    if sys.platform == "win32":
        state, do = "bad", "ranks do not run on Windows: install WSL2 and work in there"
    elif sys.platform == "darwin":
        state = "note"
        do = "ranks are started afresh, 2 s each; bytes on the wire are not counted"
    yield Finding(PART, "system", state, found, do)


def _groups(controller: str) -> Iterator[Path]:
    """Folders of this process's control groups, of version 2 and 1, and all above.

    A job of Slurm or a server of JupyterHub sees the whole machine's tree, a container
    only its own, whatever path the kernel tells.
    """
    paths = {"": "/", controller: "/"}
    if OWN_GROUPS.exists():
        for line in OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= dict.fromkeys(controllers.split(","), path)
    for name in ("", controller):
        root = CGROUP / name
        here = root / paths[name].lstrip("/")
        yield from (p for p in [here, *here.parents] if p.is_relative_to(root))


def _numbers(folder: Path, *names: str) -> list[float]:
    """What these files of a group say; empty where there is none, or no limit."""
    try:
        words = [w for name in names for w in (folder / name).read_text().split()]
        return [float(word) for word in words]
    except (OSError, ValueError):
        return []


def cores_allowed() -> float:
    """Cores that this process may use: of its affinity, and of its container."""
    count = getattr(os, "sched_getaffinity", None)
    cores = float(len(count(0)) if count else os.cpu_count() or 1)
    for group in _groups("cpu"):
        for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            limit = _numbers(group, *names)
            if len(limit) == 2 and limit[0] > 0:
                cores = min(cores, limit[0] / limit[1])
    return cores


def cores() -> Iterator[Finding]:
    """Cores, and what of them a container leaves."""
    there, usable = os.cpu_count() or 1, cores_allowed()
    found = f"{there}"
    if usable < there:
        found += f", of which this process may use {usable:g}"
    if usable < 2:
        do = "ranks take turns: results are right, measured times say little"
        yield Finding(PART, "cores", "less", found, do)
    else:
        yield Finding(PART, "cores", "ok", found)


def memory() -> Iterator[Finding]:
    """Memory of the machine, and what of it a container leaves."""
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = format_bytes(size)
    limits = [
        limit
        for group in _groups("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        for limit in _numbers(group, name)
    ]
    if limits and min(limits) < size:
        size = int(min(limits))
        found += f", of which this process may use {format_bytes(size)}"
    small = size < 2 * 10**9
    do = "torch alone wants 1 GB: close other programs, or get more" if small else ""
    yield Finding(PART, "memory", "less" if small else "ok", found, do)


def _nvidia(*arguments: str) -> str | None:
    """What nvidia-smi says; None where it is not there or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        told = subprocess.run(
            [tool, *arguments], capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout if told.returncode == 0 else None


def gpus() -> Iterator[Finding]:
    """The GPUs that the driver shows, and how they are connected."""
    query = "--query-gpu=name,memory.total,driver_version"
    told = _nvidia(query, "--format=csv,noheader")
    if told is None and shutil.which("nvidia-smi"):
        do = "nvidia-smi is there and fails: look at the driver"
        yield Finding(PART, "GPUs", "less", "the driver does not answer", do)
    elif not told or not told.strip():
        found = "none of NVIDIA's: ranks run on the cores, which the book is made for"
        yield Finding(PART, "GPUs", "note", found)
    else:
        kinds = Counter(line.strip() for line in told.splitlines() if line.strip())
        found = "; ".join(f"{n} x {kind}" for kind, n in kinds.items())
        yield Finding(PART, "GPUs", "ok", found, more=told)
        yield from topology(_nvidia("topo", "-m") or "")


def topology(told: str) -> Iterator[Finding]:
    """`nvidia-smi topo -m` in short: how many pairs of GPUs are linked by what."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", told)
    rows = [line.split() for line in plain.splitlines() if re.match(r"GPU\d+\s", line)]
    links = Counter(
        link for i, row in enumerate(rows) for link in row[i + 2 : len(rows) + 1]
    )
    if links:
        pairs = [f"{n} pairs by {link}" for link, n in links.most_common()]
        found = f"{', '.join(pairs)} (chapter 11 explains the names)"
        yield Finding(PART, "topology", "ok", found, more=plain)

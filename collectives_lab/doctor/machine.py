"""Probes of the machine: system, cores, memory, GPUs. They need no torch."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

from collectives_lab.basics import machine_limits
from collectives_lab.basics.units import format_bytes
from collectives_lab.doctor.finding import Finding
from collectives_lab.sandbox import cgroup

SECTION = "machine"
SECONDS = 30.0
"""Deadline of nvidia-smi, which waits for ever if the driver hangs."""


def system() -> Iterator[Finding]:
    """Report the operating system and Python."""
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    result = f"{kernel}; Python {platform.python_version()}"
    state, advice = "ok", ""
    if sys.platform == "win32":
        state = "bad"
        advice = "ranks do not run on Windows: install WSL2 and work in there"
    elif sys.platform == "darwin":
        state = "note"
        advice = "ranks are started afresh, 2 s each; bytes on the wire are not counted"
    yield Finding(SECTION, "system", state, result, advice)


def cores_allowed() -> float:
    """Return the cores that this process may use, by its affinity and its container."""
    allowed = float(machine_limits.cores())
    for group in cgroup.folders("cpu"):
        for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            limit = cgroup.numbers(group, *names)
            if len(limit) == 2 and limit[0] > 0:
                allowed = min(allowed, limit[0] / limit[1])
    return allowed


def cores() -> Iterator[Finding]:
    """Report the cores, and how many of them a container allows."""
    count, usable = os.cpu_count() or 1, cores_allowed()
    result = f"{count}"
    if usable < count:
        result += f", of which this process may use {usable:g}"
    if usable < 2:
        advice = "ranks take turns: results are right, measured times say little"
        yield Finding(SECTION, "cores", "less", result, advice)
    else:
        yield Finding(SECTION, "cores", "ok", result)


def memory() -> Iterator[Finding]:
    """Report the memory, and how much of it a container allows."""
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    result = format_bytes(size)
    if (most := cgroup.most_memory()) < size:
        size = most
        result += f", of which this process may use {format_bytes(size)}"
    small = size < 2 * 10**9
    advice = (
        "torch alone wants 1 GB: close other programs, or get more" if small else ""
    )
    yield Finding(SECTION, "memory", "less" if small else "ok", result, advice)


def nvidia_smi(*arguments: str) -> str | None:
    """Return the output of nvidia-smi; None if it is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        process = subprocess.run(
            [tool, *arguments], capture_output=True, text=True, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None


def gpus() -> Iterator[Finding]:
    """Report the GPUs that the driver shows, and how they are connected."""
    query = "--query-gpu=name,memory.total,driver_version"
    listing = nvidia_smi(query, "--format=csv,noheader")
    if listing is None and shutil.which("nvidia-smi"):
        advice = "nvidia-smi is there and fails: look at the driver"
        yield Finding(SECTION, "GPUs", "less", "the driver does not answer", advice)
    elif not listing or not listing.strip():
        result = "none of NVIDIA's: ranks run on the cores, which the book is made for"
        yield Finding(SECTION, "GPUs", "note", result)
    else:
        kinds = Counter(line.strip() for line in listing.splitlines() if line.strip())
        result = "; ".join(f"{n} x {kind}" for kind, n in kinds.items())
        yield Finding(SECTION, "GPUs", "ok", result, details=listing)
        yield from topology(nvidia_smi("topo", "-m") or "")


def topology(matrix: str) -> Iterator[Finding]:
    """Report how many pairs of GPUs have which link, by `nvidia-smi topo -m`."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", matrix)
    rows = [line.split() for line in plain.splitlines() if re.match(r"GPU\d+\s", line)]
    links = Counter(
        link for i, row in enumerate(rows) for link in row[i + 2 : len(rows) + 1]
    )
    if links:
        pairs = [f"{n} pairs by {link}" for link, n in links.most_common()]
        result = f"{', '.join(pairs)} (chapter 11 explains the names)"
        yield Finding(SECTION, "topology", "ok", result, details=plain)

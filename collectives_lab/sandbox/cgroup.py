"""A control group around a box: what all its processes together may take.

Linux has them in two forms: version 2, where the nearest group above us that hands on
memory and pids and lets us is used (a desktop session's, or root's), and version 1,
where a group is made in each of the two trees.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
_NAME = "collectives_lab"
_count = count()


@dataclass(frozen=True)
class Cgroup:
    """A group in one folder, or one in each tree; who makes it removes it."""

    folders: tuple[Path, ...]

    def joining(self, argv: list[str]) -> list[str]:
        """Return the command that joins the group, then becomes the command `argv`."""
        joins = (f"echo $$ > {shlex.quote(str(f))}/cgroup.procs" for f in self.folders)
        return ["/bin/sh", "-ec", "\n".join([*joins, 'exec "$@"']), "sh", *argv]

    def remove(self, seconds: float = 5.0) -> None:
        """Remove it once its processes have ended, which the kernel may notice late."""
        deadline = time.monotonic() + seconds
        left = list(self.folders)
        while left:
            try:
                left[0].rmdir()
            except FileNotFoundError:
                left.pop(0)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)


def make(memory: int, threads: int) -> Cgroup:
    """Make a group that may have so many bytes and threads; OSError if none can be."""
    name = f"{_NAME}-{os.getpid()}-{next(_count)}"
    error: OSError = FileNotFoundError(
        f"no cgroup below {ROOT} hands memory and pids on"
    )
    for parents in _places():
        group = Cgroup(tuple(parent / name for parent in parents))
        try:
            for parent, folder in zip(parents, group.folders, strict=True):
                _sweep(parent)
                folder.mkdir()
            _limit(group, memory, threads)
            return group
        except OSError as refused:
            error = refused
            for folder in group.folders:
                with suppress(OSError):
                    folder.rmdir()
    raise error


def folders(controller: str = "") -> Iterator[Path]:
    """Yield the folders of this process's groups, of both versions, and all above.

    A job of Slurm or a server of JupyterHub sees the whole machine's tree, a container
    only its own, whatever path the kernel reports.
    """
    own = {"": "", controller: ""} | _own()
    for name in dict.fromkeys(("", controller)):
        root, here = ROOT / name, ROOT / name / own[name]
        yield from (p for p in [here, *here.parents] if p.is_relative_to(root))


def numbers(folder: Path, *names: str) -> list[int]:
    """Return the numbers in these files of a group; empty without a file or a limit."""
    try:
        return [int(n) for name in names for n in (folder / name).read_text().split()]
    except (OSError, ValueError):
        return []


def most_memory() -> int:
    """Return bytes that the groups of this process, and those above, let it have."""
    files = "memory.max", "memory.limit_in_bytes"
    limits = (numbers(folder, f) for folder in folders("memory") for f in files)
    return min(chain.from_iterable(limits), default=sys.maxsize)


def _places() -> Iterator[tuple[Path, ...]]:
    """Yield where a group could be made, best first: one folder, or one in each
    tree.
    """
    own = _own()
    if "memory" in own and "pids" in own:
        yield ROOT / "memory" / own["memory"], ROOT / "pids" / own["pids"]
    elif "" in own:
        yield from ((parent,) for parent in folders() if _hands_on(parent))


def _own() -> dict[str, str]:
    """Return the group that this process is in, by controller.

    That of version 2 is "". Empty on a system without groups.
    """
    own: dict[str, str] = {}
    for line in OWN.read_text().splitlines() if OWN.exists() else []:
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    return own


def _hands_on(parent: Path) -> bool:
    try:
        handed = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return {"memory", "pids"} <= {*handed}


def _limit(group: Cgroup, memory: int, threads: int) -> None:
    """Set what it may have, swap included; version 1 and 2 spell it differently."""
    if len(group.folders) == 1:
        limits = {"memory.max": memory, "memory.swap.max": 0, "pids.max": threads}
    else:
        limits = {
            "memory.limit_in_bytes": memory,
            "memory.memsw.limit_in_bytes": memory,
            "pids.max": threads,
        }
    for name, value in limits.items():
        files = [f / name for f in group.folders if (f / name).exists()]
        if not files and "sw" not in name:  # a kernel may count no swap
            raise FileNotFoundError(f"{group.folders[0]} has no {name}")
        for file in files:
            file.write_text(str(value))


def _sweep(parent: Path) -> None:
    """Remove the groups of those who were killed before they could."""
    for folder in parent.glob(f"{_NAME}-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with suppress(OSError):
                folder.rmdir()

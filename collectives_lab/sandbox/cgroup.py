"""A control group around a box: what all its processes together may take.

Linux has them in two forms: version 2, where the nearest group above us that hands on
memory and pids and lets us is used (a desktop session's, or root's), and version 1,
where a group is made in each of the two trees.
"""

from __future__ import annotations

import itertools
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_NAME = "collectives_lab"
_count = itertools.count()


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


def most_memory() -> int:
    """Return bytes that the group of this process, and those above it, let it have."""
    try:
        own = _own()
    except OSError:  # no system but Linux has such groups
        return sys.maxsize
    tree, name = ROOT, "memory.max"
    if "memory" in own:
        tree, name = ROOT / "memory", "memory.limit_in_bytes"
    here = tree / own.get("memory", own.get("", ""))
    limits = [sys.maxsize]
    for folder in [here, *here.parents]:
        with suppress(OSError, ValueError):  # a container sees its own as the root
            limits.append(int((folder / name).read_text()))
    return min(limits)


def _places() -> Iterator[tuple[Path, ...]]:
    """Yield where a group could be made, best first: one folder, or one in each
    tree.
    """
    own = _own()
    if "memory" in own and "pids" in own:
        yield ROOT / "memory" / own["memory"], ROOT / "pids" / own["pids"]
    elif "" in own:
        here = ROOT / own[""]
        for parent in [here, *here.parents]:
            if parent.is_relative_to(ROOT) and _hands_on(parent):
                yield (parent,)


def _own() -> dict[str, str]:
    """Return the group that this process is in, by controller.

    That of version 2 is "".
    """
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
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

"""Libraries that a fork server may import before it forks, so that ranks need not.

What is imported before a fork is the same on all ranks, and what it opened or started
is gone after it. So a library is refused (`Unfit`) whose import asks which rank it is,
starts a thread, opens a file, or takes much memory. Here you can find the libraries
that a rank has imported (`libraries`), and import them all or none (`import_all`).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

MOST_BYTES = 2**30
"""Memory that the libraries of a server may take."""

MOST_CHARACTERS = 100_000
"""Of all names together: they are one argument of a command."""

BY_RANK = {
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
}
"""Variables of the environment that differ by rank or by run."""


class Unfit(Exception):
    """What an import did that cannot be shared."""


def libraries(before: set[str]) -> list[str]:
    """Return the modules of installed libraries that were not there before, in order.

    None of ours or torch's, and none of the reader's own, which may change.
    """
    places = tuple(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
    imported, characters = [], 0
    for name, module in list(sys.modules.items()):
        if name in before or name.partition(".")[0] in ("torch", "collectives_lab"):
            continue
        origin = getattr(getattr(module, "__spec__", None), "origin", None) or ""
        characters += len(name) + 1
        if origin.startswith(places) and characters < MOST_CHARACTERS:
            imported.append(name)
    return imported


def import_all(names: Iterable[str]) -> None:
    """Import libraries as a rank would; Unfit if what they did cannot be shared."""
    threads, files, memory = _footprint()
    with _read_variables() as read, _silent():
        for name in names:
            with contextlib.suppress(Exception):  # a rank that needs it will say why
                importlib.import_module(name)
    more_threads, more_files, more_memory = _footprint()
    if read & BY_RANK:
        raise Unfit(f"asked for {', '.join(sorted(read & BY_RANK))}")
    if more_threads > threads or more_files > files:
        raise Unfit("started a thread or opened a file")
    if more_memory - memory > MOST_BYTES:
        raise Unfit(f"took {(more_memory - memory) / 1e9:.1f} GB")


def _footprint() -> tuple[int, int, int]:
    """Return this process's threads, descriptors, and bytes of memory."""
    threads, files = (len(os.listdir(f"/proc/self/{name}")) for name in ("task", "fd"))
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return threads, files, pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def _read_variables() -> Iterator[set[str]]:
    """Collect the variables of the environment that are read."""
    kind = type(os.environ)
    get, names = kind.__getitem__, set()

    def noted(environ: os._Environ, name: str) -> str:
        names.add(name)
        return get(environ, name)

    kind.__getitem__ = noted  # type: ignore[method-assign]
    try:
        yield names
    finally:
        kind.__getitem__ = get  # type: ignore[method-assign]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Let imports print nothing, in a process whose output nobody expects."""
    with (
        open(os.devnull, "w") as null,
        contextlib.redirect_stdout(null),
        contextlib.redirect_stderr(null),
    ):
        yield

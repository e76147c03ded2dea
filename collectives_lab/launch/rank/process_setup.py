"""The set-up of a process that is a rank: its streams, parent, children, settings.

It writes to where its launcher reads, and has no keyboard (`open_streams`). It ends
with who has started it (`die_with_parent`) and becomes the parent of what it leaves
behind (`adopt_orphans`); what it spawns has the reader's code
(`send_definitions_by_value`). It is one of many on a few cores (`settle_in`), and does
what its environment says (`heed_environment`).
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
from functools import reduce
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any, TextIO

import cloudpickle
import numpy as np
import torch
import torch.distributed as dist

from collectives_lab.basics import linux

NOBODY = "a rank has no keyboard, and nothing to read"

ASK_OUTSIDE = (
    "ask where the ranks are started from, and give them the answer (--push, push or "
    "args)"
)

NO_DEBUGGER = (
    "print what you want to know, or call the function outside of the ranks and debug "
    "it there"
)


def settle_in() -> None:
    """Set what suits a process that shares a few cores with many others."""
    # As in fresh processes, what nobody has seeded differs by rank; forks are alike.
    random.seed()
    np.random.seed()
    torch.default_generator.seed()
    if hasattr(os, "SCHED_BATCH"):
        # Gloo's loop thread otherwise keeps the core for milliseconds at a time.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def heed_environment() -> None:
    """Do what torch reads from the environment only when it is imported."""
    value = os.environ.get("OMP_NUM_THREADS") or "1"
    first = value.split(",")[0].strip()  # OpenMP takes a number a level
    if not first.isdigit() or int(first) < 1:
        raise ValueError(f"OMP_NUM_THREADS={value!r} is no number of threads")
    threads = int(first)
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    level = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper()
    if level in ("INFO", "DETAIL"):
        dist.set_debug_level(getattr(dist.DebugLevel, level))


def silence_resource_tracker() -> None:
    """Let `multiprocessing` clean up after this rank without a word.

    A rank is killed at its end, so what it holds then is no leak of the reader's. And a
    warning into a full pipe, which nobody reads any more, would keep from cleaning up.
    """
    filters = [os.environ.get("PYTHONWARNINGS"), "ignore:resource_tracker:UserWarning"]
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, filters))


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, so that they can be ended.

    Linux only; elsewhere a daemon that a rank starts outlives it.
    """
    with contextlib.suppress(OSError):
        linux.adopt_orphans()


def die_with_parent() -> None:
    """Ask for SIGKILL when the thread that started this process ends; Linux only."""
    with contextlib.suppress(OSError):
        linux.die_with_parent()


def open_streams() -> None:
    """Write to what descriptors 1 and 2 have come to mean; refuse to be read."""
    sys.stdin = sys.__stdin__ = NoKeyboard()  # type: ignore[assignment,misc]
    sys.stdout = sys.__stdout__ = _stream(1)  # type: ignore[assignment,misc]
    sys.stderr = sys.__stderr__ = _stream(2)  # type: ignore[assignment,misc]
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _no_debugger


def _stream(fd: int) -> TextIO:
    return open(
        fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def _no_debugger(*_: Any, **__: Any) -> None:
    raise io.UnsupportedOperation(f"breakpoint(): {NOBODY}; {NO_DEBUGGER}")


class NoKeyboard(io.TextIOBase):
    """A `sys.stdin` that refuses to be read, and says what to do instead."""

    def read(self, size: int | None = -1, /) -> str:
        raise io.UnsupportedOperation(f"{NOBODY}; {ASK_OUTSIDE}")

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        return self.read(size)


def send_definitions_by_value() -> None:
    """Let processes that `multiprocessing` spawns from here have the reader's code.

    A fresh interpreter imports what it is sent by name, and no module has the names of
    a cell. So functions and classes that cannot be imported are pickled whole, both
    ways.
    """
    ForkingPickler.reducer_override = _reduce  # type: ignore[assignment]


def _reduce(pickler: ForkingPickler, value: Any) -> Any:
    if isinstance(value, FunctionType | type) and not _can_be_imported(value):
        return _restore, (cloudpickle.dumps(value),)
    return NotImplemented


def _can_be_imported(definition: Any) -> bool:
    module = sys.modules.get(definition.__module__)
    path = definition.__qualname__.split(".")
    return reduce(lambda a, b: getattr(a, b, None), path, module) is definition


def _restore(pickled: bytes) -> Any:
    send_definitions_by_value()  # so that it can come back
    return cloudpickle.loads(pickled)

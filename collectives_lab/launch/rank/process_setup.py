"""The settings of a process that is a rank, one of many on a few cores.

Here it takes its place (`settle_in`), does what its environment says
(`heed_environment`), becomes the parent of what it leaves behind (`adopt_orphans`),
ends with who has started it (`die_with_parent`), writes to where its launcher reads
(`stream`, `flush`) and knows whether it waits (`sleeps`).
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from typing import TextIO

import numpy as np
import torch
import torch.distributed as dist

from collectives_lab.basics import linux


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


def stream(fd: int) -> TextIO:
    """Return a text stream on a descriptor that has just come to mean something
    else.
    """
    return open(
        fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def sleeps() -> bool:
    """Return whether the first thread uses no processor time in a tenth of a second.

    One that could run and gets no core is busy all the same; Linux shows it.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return False
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    before = time.clock_gettime(clock)
    time.sleep(0.1)
    used = time.clock_gettime(clock) - before
    return used < 0.001 and linux.state(os.getpid()) != "R"


def flush(*streams: TextIO | None) -> None:
    """Let everything reach the launcher that was printed to streams so far."""
    for stream in filter(None, streams):
        with contextlib.suppress(Exception):
            stream.flush()

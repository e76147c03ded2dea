"""The replay at the scale of the internet, in a process of its own on one core.

`python -m benchmarks.replay ring` serves one planned ring over 1024 ranks, built and
replayed; `doubling` a halving-doubling over 65,536; `one_by_one` a smaller ring by the
engine that defines the times.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measure import Row, times_faster
from benchmarks.worker import Worker, serve
from collectives_lab import costs, fabrics, plans
from collectives_lab.replay import reference, replay
from collectives_lab.replay.calls import calls_of
from collectives_lab.replay.program import compile_program
from collectives_lab.trace import Trace

GIB = 2**30


def _replayed(plan: Callable[..., Trace], world_size: int) -> list[float]:
    """Seconds to plan and to replay, and bytes of memory at the most."""
    begun = time.process_time()
    trace = plan(world_size, GIB)
    planned = time.process_time()
    replay(trace, fabrics.uniform(world_size, 5e-6, 1 / 25e9))
    taken = time.process_time() - planned
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return [planned - begun, taken, most]


def ring() -> list[float]:
    """2.1 million messages of a ring over 1024 ranks."""
    return _replayed(plans.ring_all_reduce, 1024)


def doubling() -> list[float]:
    """2.1 million messages of a halving-doubling over 65,536 ranks."""
    return _replayed(plans.halving_doubling_all_reduce, 65_536)


def by_one() -> float:
    """Seconds a message, of a ring over 128 ranks, by the engine that defines them."""
    trace = plans.ring_all_reduce(128, GIB)
    fabric = fabrics.uniform(128, 5e-6, 1 / 25e9)
    begun = time.process_time()
    reference.run(compile_program(calls_of(trace), fabric, 0.0))
    return (time.process_time() - begun) / (len(trace) // 2)


def closed_form() -> float:
    """Seconds for a formula at 10^6 ranks and 32 sizes at once."""
    sizes, runs = 2.0 ** np.arange(32), 200
    begun = time.process_time()
    for _ in range(runs):
        costs.ring_all_reduce(10**6, sizes, 5e-6, 1 / 25e9)
    return (time.process_time() - begun) / runs


def measure(quick: bool) -> list[Row]:
    """Each in a new process, which must not need more than one core."""
    runs = 1 if quick else 5
    rings = [_ask("ring") for _ in range(runs)]
    halves = [_ask("doubling") for _ in range(runs)]
    ones = [_ask("one_by_one") for _ in range(runs)]
    forms = [closed_form() for _ in range(runs + 1)][1:]
    return [
        *_replay_rows("a ring on 1024 ranks", rings, 3.0, ones),
        *_replay_rows("halving-doubling on 65,536 ranks", halves, 10.0),
        Row(
            "replay",
            "a closed form at 10^6 ranks, 32 sizes",
            "us",
            forms,
            "100 us",
            median(forms) <= 100e-6,
        ),
    ]


def _replay_rows(
    what: str, samples: list, most: float, ones: list[float] | None = None
) -> list[Row]:
    _, seconds, memory = (list(column) for column in zip(*samples, strict=True))
    compared = ""
    if ones:
        ones = [each * 2 * 1023 * 1024 for each in ones]
        compared = f"{times_faster(seconds, ones):.1f} times faster"
    name = "one by one, from 128 ranks" if ones else ""
    text = f"the replay of {what}"
    return [
        Row("replay", text, "s", seconds, f"{most:g} s", median(seconds) <= most,
            name, ones or (), compared),
        Row("replay", f"the memory of it, {what}", "MB", memory, "1000 MB",
            max(memory) <= 1e9),
    ]  # fmt: skip


def _ask(which: str) -> Any:
    with Worker("benchmarks.replay", which) as one:
        return one.ask()


SERVED = {"ring": ring, "doubling": doubling, "one_by_one": by_one}

if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    serve(SERVED[sys.argv[1]])

"""The replay at the scale of the internet, in a process of its own on one core.

`python -m benchmarks.replay ring` serves one planned ring over 1024 ranks, built and
replayed; `doubling` a halving-doubling over 65,536; `one_by_one` a smaller ring by the
reference replay.
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
    """Return the seconds to plan and to replay, and the peak memory in bytes."""
    start = time.process_time()
    trace = plan(world_size, GIB)
    planned = time.process_time()
    replay(trace, fabrics.uniform(world_size, 5e-6, 1 / 25e9))
    replay_seconds = time.process_time() - planned
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return [planned - start, replay_seconds, memory]


def ring() -> list[float]:
    """Replay 2.1 million messages of a ring over 1024 ranks."""
    return _replayed(plans.ring_all_reduce, 1024)


def doubling() -> list[float]:
    """Replay 2.1 million messages of a halving-doubling over 65,536 ranks."""
    return _replayed(plans.halving_doubling_all_reduce, 65_536)


def by_one() -> float:
    """Return the seconds a message of the reference replay, in a ring on 128 ranks."""
    trace = plans.ring_all_reduce(128, GIB)
    fabric = fabrics.uniform(128, 5e-6, 1 / 25e9)
    start = time.process_time()
    reference.run(compile_program(calls_of(trace), fabric, 0.0))
    return (time.process_time() - start) / (len(trace) // 2)


def closed_form() -> float:
    """Return the seconds of a formula at 10^6 ranks and 32 sizes at once."""
    sizes, runs = 2.0 ** np.arange(32), 200
    start = time.process_time()
    for _ in range(runs):
        costs.ring_all_reduce(10**6, sizes, 5e-6, 1 / 25e9)
    return (time.process_time() - start) / runs


def measure(quick: bool) -> list[Row]:
    """Measure each replay in a new process on one core."""
    runs = 1 if quick else 5
    rings = [_ask("ring") for _ in range(runs)]
    doublings = [_ask("doubling") for _ in range(runs)]
    reference_samples = [_ask("one_by_one") for _ in range(runs)]
    formula_seconds = [closed_form() for _ in range(runs + 1)][1:]
    return [
        *_replay_rows("a ring on 1024 ranks", rings, 3.0, reference_samples),
        *_replay_rows("halving-doubling on 65,536 ranks", doublings, 10.0),
        Row(
            "replay",
            "a closed form at 10^6 ranks, 32 sizes",
            "us",
            formula_seconds,
            "100 us",
            median(formula_seconds) <= 100e-6,
        ),
    ]


def _replay_rows(
    title: str,
    samples: list,
    limit: float,
    reference_samples: list[float] | None = None,
) -> list[Row]:
    _, seconds, memory = (list(column) for column in zip(*samples, strict=True))
    compared = ""
    if reference_samples:
        reference_samples = [
            seconds_a_message * 2 * 1023 * 1024
            for seconds_a_message in reference_samples
        ]
        compared = f"{times_faster(seconds, reference_samples):.1f} times faster"
    name = "one by one, from 128 ranks" if reference_samples else ""
    text = f"the replay of {title}"
    return [
        Row("replay", text, "s", seconds, f"{limit:g} s", median(seconds) <= limit,
            name, reference_samples or (), compared),
        Row("replay", f"the memory of it, {title}", "MB", memory, "1000 MB",
            max(memory) <= 1e9),
    ]  # fmt: skip


def _ask(name: str) -> Any:
    with Worker("benchmarks.replay", name) as worker:
        return worker.ask()


SERVED = {"ring": ring, "doubling": doubling, "one_by_one": by_one}

if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    serve(SERVED[sys.argv[1]])

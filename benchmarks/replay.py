"""The replay of large plans, against the event loop that somebody would write.

Each is measured in a process of its own on one core, which answers once for each line
of its input: `python -m benchmarks.replay ring`. The compiler is loaded before.
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
from benchmarks.peers import event_loop
from benchmarks.worker import Worker, serve
from collectives_lab import costs, fabrics, plans
from collectives_lab.fabrics import Fabric, Link
from collectives_lab.replay import engine, replay
from collectives_lab.trace import Trace

GIB = 2**30
ALPHA, BETA = 5e-6, 1 / 25e9
SHARED = fabrics.hierarchical(64, 8, Link(1e-6, 1 / 450e9), Link(ALPHA, BETA))
"""512 ranks on nodes of 8, which share a network card."""


def _replayed(plan: Callable[..., Trace], fabric: Fabric) -> dict[str, float]:
    """Return the seconds to plan and to replay, the messages, and the peak memory."""
    engine.WORTH_COMPILING = 0  # from now on, so that the compiler is loaded before
    replay(plan(2, GIB), fabrics.uniform(2, ALPHA, BETA))
    start = time.process_time()
    trace = plan(fabric.world_size, GIB)
    timeline = replay(trace, fabric)
    seconds = time.process_time() - start
    assert timeline.elapsed > 0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "messages": len(trace) // 2, "memory": memory}


def ring() -> dict[str, float]:
    """Replay 2.1 million messages of a ring over 1024 ranks."""
    return _replayed(plans.ring_all_reduce, fabrics.uniform(1024, ALPHA, BETA))


def doubling() -> dict[str, float]:
    """Replay 2.1 million messages of a halving-doubling over 65,536 ranks."""
    fabric = fabrics.uniform(65_536, ALPHA, BETA)
    return _replayed(plans.halving_doubling_all_reduce, fabric)


def irregular() -> dict[str, float]:
    """Replay 262 thousand messages of an all_to_all over shared network cards."""
    return _replayed(plans.pairwise_all_to_all, SHARED)


def by_hand() -> dict[str, float]:
    """Play the ring over 1024 ranks in a plain event loop."""
    start = time.process_time()
    elapsed, messages = event_loop.ring_all_reduce(1024, GIB, ALPHA, BETA)
    seconds = time.process_time() - start
    assert np.isclose(elapsed, costs.ring_all_reduce(1024, GIB, ALPHA, BETA))
    return {"seconds": seconds, "messages": messages}


def closed_form() -> float:
    """Return the seconds of a formula at 10^6 ranks and 32 sizes at once."""
    sizes, runs = 2.0 ** np.arange(32), 200
    start = time.process_time()
    for _ in range(runs):
        costs.ring_all_reduce(10**6, sizes, ALPHA, BETA)
    return (time.process_time() - start) / runs


def measure(quick: bool) -> list[Row]:
    """Measure each in a new process on one core."""
    rounds = 1 if quick else 5
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in SERVED}
    for _ in range(rounds):
        for name, seen in samples.items():
            seen.append(_ask(name))

    def column(name: str, key: str) -> list[float]:
        return [sample[key] for sample in samples[name]]

    def each(name: str) -> list[float]:
        return [sample["seconds"] / sample["messages"] for sample in samples[name]]

    formula = [closed_form() for _ in range(rounds + 1)][1:]
    rings, loops = column("ring", "seconds"), column("by_hand", "seconds")
    faster = times_faster(rings, loops)
    slower = median(each("irregular")) / median(each("ring"))
    compiled = "compiled" if engine._compiled() else "not compiled"
    return [
        Row("replay", f"a ring on 1024 ranks, planned and replayed ({compiled})", "s",
            rings, "4 times faster", faster >= 4,
            "a plain event loop", loops, f"{faster:.1f} times faster"),
        Row("replay", "the memory of it", "MB", column("ring", "memory"), "400 MB",
            max(column("ring", "memory")) <= 400e6),
        Row("replay", "an all_to_all over shared cards, a message", "us",
            each("irregular"), "at most twice", slower <= 2,
            "a message of the ring", each("ring"), f"{slower:.1f} times as long"),
        Row("replay", "a halving-doubling on 65,536 ranks, planned and replayed", "s",
            column("doubling", "seconds"), "5 s",
            median(column("doubling", "seconds")) <= 5),
        Row("replay", "a closed form at 10^6 ranks, 32 sizes", "us", formula, "100 us",
            median(formula) <= 100e-6),
    ]  # fmt: skip


def _ask(name: str) -> Any:
    with Worker("benchmarks.replay", name) as worker:
        return worker.ask()


SERVED: dict[str, Callable[[], dict[str, float]]] = {
    "ring": ring,
    "by_hand": by_hand,
    "irregular": irregular,
    "doubling": doubling,
}

if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    serve(SERVED[sys.argv[1]])

"""The error of emulated links: real runs on them against the replay of their calls.

The fabric is so slow that the machine's own alpha and beta are small beside it. A run
begins when the first rank leaves a barrier and ends when the last one has finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row, spread
from collectives_lab import algorithms, fabrics
from collectives_lab.emulation import Emulated
from collectives_lab.fabrics import Fabric, Link

WORLD_SIZE = 4
SLOW = Link(5e-3, 1e-7)
UNIFORM = fabrics.uniform(WORLD_SIZE, SLOW.alpha, SLOW.beta)
TWO_NODES = fabrics.hierarchical(2, 2, Link(1e-3, 1e-8), SLOW)

NUMBERS = 2**16
"""Of 4 bytes: 256 KiB, which take 31 ms at beta where alpha is 5 ms."""

TARGET = 0.05


def ping_pong() -> None:
    """Send a message from rank 0 to the last rank, and back."""
    x, rank, last = torch.ones(NUMBERS), dist.get_rank(), dist.get_world_size() - 1
    if rank == 0:
        dist.send(x, last)
        dist.recv(x, last)
    elif rank == last:
        dist.recv(x, 0)
        dist.send(x, 0)


def ring() -> None:
    """All_reduce by messages."""
    algorithms.ring_all_reduce(torch.ones(NUMBERS))


def library() -> None:
    """All_reduce by the library."""
    dist.all_reduce(torch.ones(NUMBERS))


def broadcast() -> None:
    """Broadcast by the library, from rank 1."""
    dist.broadcast(torch.ones(NUMBERS), 1)


def hierarchical() -> None:
    """All_reduce by messages, in a hierarchy of two nodes."""
    algorithms.hierarchical_all_reduce(torch.ones(NUMBERS), 2)


def overlapping() -> None:
    """Run three all_reduces while the rank sleeps for 50 ms."""
    works = [dist.all_reduce(torch.ones(NUMBERS), async_op=True) for _ in range(3)]
    time.sleep(50e-3)
    for work in works:
        work.wait()


CASES = (
    ("a ping-pong", ping_pong, UNIFORM),
    ("ring_all_reduce on 4 ranks", ring, UNIFORM),
    ("Gloo's all_reduce on 4 ranks", library, UNIFORM),
    ("a broadcast on 4 ranks", broadcast, UNIFORM),
    ("three all_reduces in the background", overlapping, UNIFORM),
    ("hierarchical_all_reduce on two nodes", hierarchical, TWO_NODES),
)


def spans(step: Callable[[], None], rounds: int) -> list[tuple[float, float]]:
    """Return the begin and end of a step in every round but the first."""
    intervals = []
    for _ in range(rounds + 1):
        dist.barrier()
        start = time.perf_counter()
        step()
        intervals.append((start, time.perf_counter()))
    return intervals[1:]


def measure(quick: bool) -> list[Row]:
    """Measure each kind of call, emulated and replayed."""
    return [row(*case, 3 if quick else 20) for case in CASES]


def row(title: str, step: Callable[[], None], fabric: Fabric, rounds: int) -> Row:
    """Measure a step on a fabric against its replay there."""
    expected = lab.run(step, WORLD_SIZE).trace.replay(fabric).elapsed
    run = lab.run(
        partial(spans, step, rounds), WORLD_SIZE, fabric=Emulated(fabric), timeout=240
    )
    durations = [
        max(end for _, end in ranks) - min(begun for begun, _ in ranks)
        for ranks in zip(*run.results, strict=True)
    ]
    errors = [seconds / expected - 1 for seconds in durations]
    return Row(
        "emulation",
        f"{title}, on emulated links",
        "ms",
        durations,
        f"{TARGET:.0%} off",
        abs(median(errors)) <= TARGET,
        "replayed",
        [expected],
        spread(errors, "%", "+"),
    )

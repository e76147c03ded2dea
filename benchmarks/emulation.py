"""How exact emulated links are: real runs on them against the replay of the same calls.

The fabric is so slow that the machine's own alpha and beta are small beside it. A run
begins when the first rank leaves a barrier and ends when the last one is through.
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
    """A message from rank 0 to the last one, and back."""
    x, rank, last = torch.ones(NUMBERS), dist.get_rank(), dist.get_world_size() - 1
    if rank == 0:
        dist.send(x, last)
        dist.recv(x, last)
    elif rank == last:
        dist.recv(x, 0)
        dist.send(x, 0)


def ring() -> None:
    """An all_reduce by messages."""
    algorithms.ring_all_reduce(torch.ones(NUMBERS))


def library() -> None:
    """An all_reduce by the library."""
    dist.all_reduce(torch.ones(NUMBERS))


def broadcast() -> None:
    """A broadcast by the library, not from rank 0."""
    dist.broadcast(torch.ones(NUMBERS), 1)


def hierarchical() -> None:
    """An all_reduce that knows of the two nodes, by messages."""
    algorithms.hierarchical_all_reduce(torch.ones(NUMBERS), 2)


def overlapping() -> None:
    """Three all_reduces on their way while the rank does something else for 50 ms."""
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
    """When a step began and ended, in every round; the first is dropped."""
    found = []
    for _ in range(rounds + 1):
        dist.barrier()
        begun = time.perf_counter()
        step()
        found.append((begun, time.perf_counter()))
    return found[1:]


def measure(quick: bool) -> list[Row]:
    """Each kind of call, emulated and replayed."""
    return [row(*case, 3 if quick else 20) for case in CASES]


def row(what: str, step: Callable[[], None], fabric: Fabric, rounds: int) -> Row:
    """What a step takes on a fabric, against what its replay there says."""
    expected = lab.run(step, WORLD_SIZE).trace.replay(fabric).elapsed
    run = lab.run(
        partial(spans, step, rounds), WORLD_SIZE, fabric=Emulated(fabric), timeout=240
    )
    took = [
        max(end for _, end in ranks) - min(begun for begun, _ in ranks)
        for ranks in zip(*run.results, strict=True)
    ]
    errors = [seconds / expected - 1 for seconds in took]
    return Row(
        "emulation",
        f"{what}, on emulated links",
        "ms",
        took,
        f"{TARGET:.0%} off",
        abs(median(errors)) <= TARGET,
        "replayed",
        [expected],
        spread(errors, "%", "+"),
    )

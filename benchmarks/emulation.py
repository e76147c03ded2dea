"""The error of emulated links: real runs on them against the replay of their calls.

The fabric is so slow that the machine's own alpha and beta are small beside it. A run
begins when the first rank leaves a barrier and ends when the last one has finished.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from statistics import median

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row, spread
from collectives_lab import algorithms, fabrics
from collectives_lab.emulation import Emulated
from collectives_lab.fabrics import Fabric, Link
from collectives_lab.trace import Trace

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


def tree() -> None:
    """All_reduce by messages along a tree."""
    algorithms.tree_all_reduce(torch.ones(NUMBERS))


def all_to_all() -> None:
    """All_to_all by messages, pair by pair."""
    algorithms.pairwise_all_to_all(torch.empty(NUMBERS), torch.ones(NUMBERS))


SERVERS = (
    *(fabrics.dgx_a100, fabrics.dgx_h100, fabrics.dgx_h200, fabrics.dgx_b200),
    *(fabrics.cloud_p4d, fabrics.aws_p3dn, fabrics.aws_p4de),
    *(fabrics.aws_p5, fabrics.aws_p5en),
)
PRESETS = {
    **{preset.__name__: preset(2, 2) for preset in SERVERS},
    "gb200_nvl72": fabrics.gb200_nvl72(4),
    "pcie_box": fabrics.pcie_box(2),
    "ethernet": fabrics.ethernet(25, 4),
    "loopback": fabrics.loopback(4),
}
"""Four ranks of every preset, on two nodes where it has nodes."""

SHAPES = {"ring": ring, "tree": tree, "all_to_all": all_to_all}
"""What is measured on all of them."""


def felt(fabric: Fabric, message: float = 40e-3) -> Fabric:
    """Return a fabric so slow that a message of a ring takes so many seconds at least.

    A ring sends a quarter at a time. To wake and to compute takes 2 to 4 ms a call, of
    four ranks on two cores, however slow the links are.
    """
    quickest = min(k.time(NUMBERS) for k in (fabric.inside, fabric.across))
    return fabric.slowed(message / quickest)


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
    """Measure each kind of call, emulated and replayed.

    Where it is quick, each shape is on another third of the presets.
    """
    cases = [row(*case, 3 if quick else 20) for case in CASES]
    presets, every = list(PRESETS), len(SHAPES) if quick else 1
    return cases + [
        worst(name, presets[number % every :: every], 1 if quick else 9)
        for number, name in enumerate(SHAPES)
    ]


def durations(step: Callable[[], None], fabric: Fabric, rounds: int) -> list[float]:
    """Return what a step takes on emulated links, from first start to last end."""
    run = lab.run(
        partial(spans, step, rounds), WORLD_SIZE, fabric=Emulated(fabric), timeout=240
    )
    return [
        max(end for _, end in ranks) - min(begun for begun, _ in ranks)
        for ranks in zip(*run.results, strict=True)
    ]


@cache
def recorded(step: Callable[[], None]) -> Trace:
    """Return the calls of a step, which are the same on every fabric."""
    return lab.run(step, WORLD_SIZE).trace


def row(title: str, step: Callable[[], None], fabric: Fabric, rounds: int) -> Row:
    """Measure a step on a fabric against its replay there."""
    expected = recorded(step).replay(fabric).elapsed
    took = durations(step, fabric, rounds)
    errors = [seconds / expected - 1 for seconds in took]
    return Row(
        "emulation",
        f"{title}, on emulated links",
        "ms",
        took,
        f"{TARGET:.0%} off",
        abs(median(errors)) <= TARGET,
        "replayed",
        [expected],
        spread(errors, "%", "+"),
    )


def worst(name: str, presets: list[str], rounds: int) -> Row:
    """Measure a step on the shape of each preset; return the row that is most off."""

    def off(row: Row) -> float:
        return abs(median(row.ours) / row.peer[0] - 1)

    rows = (
        row(f"{name} on {one}, the worst", SHAPES[name], felt(PRESETS[one]), rounds)
        for one in presets
    )
    return max(rows, key=off)

"""The cost of recording, for an operation that does almost nothing and a large one.

Recorded and unrecorded calls take turns on the same rank; `recorder.absent` switches
the recorder off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row, interleave, spread
from collectives_lab import recorder

BATCH = 500
"""Operations timed together, where they are short."""

LARGE = 2**20
"""Elements of 4 bytes: 4 MiB."""

FEW = 4


def alternating(one: Callable[[], float], rounds: int) -> list[list[float]]:
    """Measure `one` in turn with the recorder and with torch alone."""

    def alone() -> float:
        with recorder.absent():
            return one()

    return interleave(one, alone, rounds=rounds)


def small_all_reduces(rounds: int) -> list[list[float]]:
    """Return the seconds an all_reduce of 16 bytes, over a batch of them."""
    x = torch.ones(4)

    def one() -> float:
        begun = time.perf_counter()
        for _ in range(BATCH):
            dist.all_reduce(x)
        return (time.perf_counter() - begun) / BATCH

    return alternating(one, rounds)


def large_all_reduces(rounds: int) -> list[list[float]]:
    """Return the seconds an all_reduce of 4 MiB, over a few after a barrier.

    It is more than one, since the ranks leave a barrier one by one.
    """
    x = torch.zeros(LARGE)

    def one() -> float:
        dist.barrier()
        begun = time.perf_counter()
        for _ in range(FEW):
            dist.all_reduce(x)
        return (time.perf_counter() - begun) / FEW

    return alternating(one, rounds)


def measure(quick: bool) -> list[Row]:
    """Measure the cost for an empty operation, a small and a large all_reduce."""
    rounds = 3 if quick else 100
    return [
        an_operation(rounds),
        _row("an all_reduce by one rank of Gloo, recorded", 1, rounds),
        a_large_one(3 if quick else 200),
    ]


def an_operation(rounds: int) -> Row:
    """Measure an operation on torch's fake backend, where nothing moves."""
    return _row("an all_reduce that moves nothing, recorded", 1, rounds, _fake_group)


def _fake_group() -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)


def _row(
    title: str,
    world_size: int,
    rounds: int,
    prepare: Callable[[], None] = lambda: None,
) -> Row:
    with lab.Ranks(world_size, timeout=240) as ranks:
        ranks.run(prepare)
        recorded, unrecorded = ranks.run(small_all_reduces, (rounds,)).results[0]
    added_seconds = [a - b for a, b in zip(recorded, unrecorded, strict=True)]
    reached, added = median(added_seconds) <= 25e-6, spread(added_seconds, "us", "+")
    return Row(
        "recording",
        title,
        "us",
        recorded,
        "+25 us",
        reached,
        "torch alone",
        unrecorded,
        added,
    )


def a_large_one(rounds: int) -> Row:
    """Measure a large all_reduce, which ends with its last rank, in pairs."""
    by_rank = lab.run(large_all_reduces, 4, (rounds,), timeout=240).results
    recorded, unrecorded = (
        [max(t) for t in zip(*s, strict=True)] for s in zip(*by_rank, strict=True)
    )
    added_share = [a / b - 1 for a, b in zip(recorded, unrecorded, strict=True)]
    title = "an all_reduce of 4 MiB on 4 ranks, recorded"
    reached, added = median(added_share) <= 0.03, spread(added_share, "%", "+")
    return Row(
        "recording",
        title,
        "ms",
        recorded,
        "+3 %",
        reached,
        "torch alone",
        unrecorded,
        added,
    )

"""The ring over send and receive, beside the library's own all_reduce."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row, interleave
from collectives_lab import recorder
from collectives_lab.algorithms import ring_all_reduce

WORLD_SIZES = (2, 4)
SIZES = {4: 100, 16: 40, 64: 15}
"""Pairs of measurements by MiB."""


def seconds(mebibytes: int, pairs: int) -> list[list[float]]:
    """Return the seconds of the ring and of the library on this rank."""
    x = torch.zeros(mebibytes * 2**18)

    def one(all_reduce: Callable[[torch.Tensor], object]) -> float:
        dist.barrier()
        start = time.perf_counter()
        all_reduce(x)
        return time.perf_counter() - start

    with recorder.absent():  # as in a reader's training script
        return interleave(
            lambda: one(ring_all_reduce), lambda: one(dist.all_reduce), rounds=pairs
        )


def measure(quick: bool) -> list[Row]:
    """Measure a row for each world size and size."""
    return [
        a_size(world_size, mebibytes, 3 if quick else pairs)
        for world_size in WORLD_SIZES
        for mebibytes, pairs in SIZES.items()
    ]


def a_size(world_size: int, mebibytes: int, pairs: int) -> Row:
    """Measure one size; a call ends with its last rank."""
    by_rank = lab.run(seconds, world_size, (mebibytes, pairs), timeout=240).results
    ring, library = (
        [max(t) for t in zip(*s, strict=True)] for s in zip(*by_rank, strict=True)
    )
    return row(world_size, mebibytes, ring, library)


def row(
    world_size: int, mebibytes: int, ring: list[float], library: list[float]
) -> Row:
    """Make the row; the speed is the library's median over the ring's."""
    speed = median(library) / median(ring)
    return Row(
        "ring",
        f"ring_all_reduce of {mebibytes} MiB on {world_size} ranks",
        "ms",
        ring,
        "0.9 of its speed",
        speed >= 0.9,
        "Gloo's all_reduce",
        library,
        f"{speed:.2f} of its speed",
    )

"""64 fresh ranks to the first all_reduce, and the private memory of a rank.

As a script it serves one launch of 64 ranks, from a server that has started and done
nothing else.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row
from benchmarks.worker import Worker, serve

SIZES = (4, 16, 64)


def first_all_reduce() -> float:
    """All_reduce once; return the time after it."""
    dist.all_reduce(torch.ones(4))
    return time.perf_counter()


def private_bytes() -> int:
    """All_reduce once; return the bytes that this rank shares with no other process."""
    dist.all_reduce(torch.ones(4))
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(x.split()[1]) for x in lines if x.startswith("Private_"))


def launch() -> float:
    """Return the seconds from the call to the last of 64 ranks' first all_reduce."""
    start = time.perf_counter()
    return max(lab.run(first_all_reduce, 64).results) - start


def measure(quick: bool) -> list[Row]:
    """Measure launches, each with a new server, and the memory at each size."""
    samples = []
    for _ in range(1 if quick else 7):
        with Worker("benchmarks.many") as worker:
            samples.append(worker.ask())
    title = "64 fresh ranks to the first all_reduce"
    rows = [Row("many", title, "s", samples, "2.5 s", median(samples) <= 2.5)]
    return rows + [memory(size, 1 if quick else 3) for size in SIZES]


def memory(size: int, runs: int) -> Row:
    """Measure memory; each rank is a sample, and all must reach the target."""
    samples = [b for _ in range(runs) for b in lab.run(private_bytes, size).results]
    title = f"private memory a rank, {size} ranks"
    maximum = f"{max(samples) / 1e6:.1f} MB at most"
    target = "10 MB, every rank"
    return Row(
        "many", title, "MB", samples, target, max(samples) <= 10e6, compared=maximum
    )


if __name__ == "__main__":
    lab.run(lambda: None, 1)
    time.sleep(0.5)
    serve(launch)

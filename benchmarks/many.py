"""64 fresh ranks to the first all_reduce, and the memory that a rank has for itself.

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
    """Seconds from the call to the last of 64 ranks' first all_reduce."""
    begun = time.perf_counter()
    return max(lab.run(first_all_reduce, 64).results) - begun


def measure(quick: bool) -> list[Row]:
    """The launch, each in a new process with a new server; then memory at each size."""
    taken = []
    for _ in range(1 if quick else 7):
        with Worker("benchmarks.many") as one:
            taken.append(one.ask())
    what = "64 fresh ranks to the first all_reduce"
    rows = [Row("many", what, "s", taken, "2.5 s", median(taken) <= 2.5)]
    return rows + [memory(size, 1 if quick else 3) for size in SIZES]


def memory(size: int, runs: int) -> Row:
    """Each rank is a sample, and the target holds for every one of them."""
    taken = [b for _ in range(runs) for b in lab.run(private_bytes, size).results]
    what = f"private memory a rank, {size} ranks"
    most = f"{max(taken) / 1e6:.1f} MB at most"
    target = "10 MB, every rank"
    return Row("many", what, "MB", taken, target, max(taken) <= 10e6, compared=most)


if __name__ == "__main__":
    lab.run(lambda: None, 1)
    time.sleep(0.5)
    serve(launch)

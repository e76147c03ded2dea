"""The flat ring and the hierarchical all-reduce on hosts with a slow link between them.

On each of two hosts, with R = 0 on FIRST and R = 1 on the other:

    torchrun --nnodes 2 --nproc-per-node 2 --node-rank R --master-addr FIRST \
        two_hosts.py

Every rank records both algorithms, a few times each, and writes its parts to
`traces/ring` and `traces/hierarchical`; rank 0 prints the median times. With
--round-robin the ranks are dealt out to the hosts in turn, as a careless launcher does
it: then the neighbours in a ring are on different hosts. It runs on Gloo.
"""

import argparse
import datetime
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from collectives_lab import algorithms
from collectives_lab.recorder.script import record
from collectives_lab.trace import Trace

TIMEOUT = datetime.timedelta(seconds=100)


def arguments(words: list[str] | None) -> argparse.Namespace:
    """Parse the command line, or these words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--nbytes", type=int, default=2**22, help="of the tensor, on every rank")
    add("--repeats", type=int, default=5, help="of each algorithm")
    add("--round-robin", action="store_true", help="deal ranks out in turn")
    add("--traces", type=Path, default=Path("traces"), help="where recordings go")
    return parser.parse_args(words)


def rank_and_layout(round_robin: bool) -> tuple[int, int, int]:
    """Return this process's rank, the world size and the ranks on each host."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    ranks_per_host = int(os.environ["LOCAL_WORLD_SIZE"])
    if round_robin:
        host, local_rank = divmod(rank, ranks_per_host)
        rank = local_rank * (size // ranks_per_host) + host
    return rank, size, ranks_per_host


def seconds(verb: Callable, nbytes: int) -> float:
    """Return the seconds of one all-reduce on this rank, after a barrier.

    Rank r contributes 4**r, so a wrong sum shows which rank is missing.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((nbytes // 8,), 4.0**rank, dtype=torch.float64)
    dist.barrier()
    start = time.perf_counter()
    verb(x)
    duration = time.perf_counter() - start
    assert x.unique().tolist() == [sum(4.0**r for r in range(size))]
    return duration


def spans(trace: Trace) -> list[float]:
    """Return the seconds of each all-reduce, from its first call to its last end.

    All-reduces are separated by barriers. Their calls and ends are on different hosts,
    so the trace must have all ranks on one clock.
    """
    is_barrier = trace.is_op("barrier")
    # Rows are sorted by rank, and all ranks have the same number of barriers.
    call_number = (np.cumsum(is_barrier) - 1) % (is_barrier.sum() // trace.world_size)
    issued, completed = trace.columns["issued"], trace.columns["completed"]
    calls = [~is_barrier & (call_number == number) for number in np.unique(call_number)]
    return [completed[rows].max() - issued[rows].min() for rows in calls]


def main(words: list[str] | None = None) -> None:
    """Measure both algorithms; call it on every rank, where RANK is set."""
    options = arguments(words)
    rank, size, ranks_per_host = rank_and_layout(options.round_robin)
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=TIMEOUT)
    verbs: dict[str, Callable] = {
        "ring": algorithms.ring_all_reduce,
        "hierarchical": partial(
            algorithms.hierarchical_all_reduce, ranks_per_node=ranks_per_host
        ),
    }
    for name, verb in verbs.items():
        seconds(verb, options.nbytes)  # connects the ranks
        with record(options.traces / name):
            durations = [seconds(verb, options.nbytes) for _ in range(options.repeats)]
        if rank == 0:
            median = sorted(durations)[len(durations) // 2]
            print(f"{name}: {median:.3f} s, {durations}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "LOCAL_RANK" not in os.environ:
        print("LOCAL_RANK is not set: this runs on ranks. Start it by", file=sys.stderr)
        print(f"    torchrun --nproc-per-node 4 {__file__}", file=sys.stderr)
        sys.exit(2)
    main()

"""Small all_reduces in a process of torch alone, with nothing in its dispatcher.

`python -m benchmarks.peers.unseen gloo` for one rank of Gloo, `fake` for torch's
backend that moves nothing and is done at once.
"""

from __future__ import annotations

import sys
import tempfile
import time

import torch
import torch.distributed as dist

from benchmarks.worker import serve

BATCH = 500


def small_all_reduces() -> float:
    """Seconds an all_reduce, over a batch of them."""
    x = torch.ones(4)
    begun = time.perf_counter()
    for _ in range(BATCH):
        dist.all_reduce(x)
    return (time.perf_counter() - begun) / BATCH


def begin(backend: str, folder: str) -> None:
    """Make the default group: one rank of Gloo, or one of four that are not there."""
    if backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    else:
        store = dist.FileStore(f"{folder}/store", 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        begin(sys.argv[1], folder)
        serve(small_all_reduces)
        dist.destroy_process_group()

"""Small all_reduces in a process of torch alone, with nothing in its dispatcher."""

from __future__ import annotations

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


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = dist.FileStore(f"{folder}/store", 1)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        serve(small_all_reduces)
        dist.destroy_process_group()

"""verdict: 0 — it did not end

Naps for a second, sends a message, and so on: never quite silent.
"""

import time

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    while size > 1:
        time.sleep(1)
        work = dist.isend(tensor, (rank + 1) % size)
        dist.recv(torch.empty_like(tensor), (rank - 1) % size)
        work.wait()

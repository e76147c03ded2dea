"""verdict: 0 — operations or CPU time

Sends and receives for ever.
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    while True:
        work = dist.isend(tensor, (rank + 1) % size)
        dist.recv(torch.empty_like(tensor), (rank - 1) % size)
        work.wait()

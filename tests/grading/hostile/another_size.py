"""verdict: 0 — must be alike

Receives more than is sent.
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    work = dist.isend(tensor, (rank + 1) % size)
    dist.recv(torch.empty(tensor.numel() + 1, dtype=tensor.dtype), (rank - 1) % size)
    work.wait()

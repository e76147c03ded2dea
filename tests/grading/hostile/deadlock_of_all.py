"""verdict: 0 — wait in a circle

Every rank receives first.
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.recv(torch.empty_like(tensor), (rank - 1) % size)
    dist.send(tensor, (rank + 1) % size)

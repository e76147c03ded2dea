"""verdict: 0 — it did not end

Rank 1 loops, and the others wait for it.
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    while dist.get_rank() == 1:
        pass
    if dist.get_world_size() > 1:
        dist.recv(torch.empty_like(tensor), 1)

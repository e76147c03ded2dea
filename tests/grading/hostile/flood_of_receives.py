"""verdict: 0 — operations

Posts receives for ever, each with a tag of its own, and waits for none.
"""

import itertools

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    for tag in itertools.count():
        dist.irecv(torch.empty(1), (rank - 1) % size, tag=tag)

"""verdict: 0 — points

Tags and sizes beyond what fits a header.
"""

import contextlib

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    peer = (dist.get_rank() + 1) % dist.get_world_size()
    for tag in (2**31, 2**63, 2**70, -1, -(2**63)):
        with contextlib.suppress(Exception):
            dist.isend(tensor, peer, tag=tag)
    for size in (2**35, 2**39, 2**59):
        with contextlib.suppress(Exception):
            dist.isend(torch.empty(size, device="meta"), peer)
            dist.irecv(torch.empty(size, device="meta"), peer)
    dist.barrier()

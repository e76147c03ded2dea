"""fails: result — only rank 0 hears of it."""

import math

import torch.distributed as dist


def distributed_argmax(x):
    rank = dist.get_rank()
    tops = [None] * dist.get_world_size() if rank == 0 else None
    mine = (x.max().item(), rank) if x.numel() else None
    dist.gather_object(mine, tops)
    if rank:
        return mine
    held = [top for top in tops if top]
    return max(held, key=lambda top: (math.isnan(top[0]), top[0], -top[1]))

"""fails: result — packs thousandths and rank into one integer, and loses digits."""

import torch
import torch.distributed as dist


def distributed_argmax(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    key = torch.tensor(-(2**62))
    if x.numel():
        key = (x.max().double() * 1000).long() * size + (size - 1 - rank)
    dist.all_reduce(key, dist.ReduceOp.MAX)
    return key.item() // size / 1000, size - 1 - key.item() % size

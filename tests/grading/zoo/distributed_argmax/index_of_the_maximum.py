"""fails: result — the index in the shard, where the rank is asked for."""

import torch
import torch.distributed as dist


def distributed_argmax(x):
    top = x.max().double() if x.numel() else torch.tensor(-torch.inf).double()
    dist.all_reduce(top, dist.ReduceOp.MAX)
    return top.item(), int(x.argmax()) if x.numel() else 0

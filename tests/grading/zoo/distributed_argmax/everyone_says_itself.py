"""fails: result — every rank returns its own rank."""

import torch
import torch.distributed as dist


def distributed_argmax(x):
    top = x.max().double() if x.numel() else torch.tensor(-torch.inf).double()
    dist.all_reduce(top, dist.ReduceOp.MAX)
    return top.item(), dist.get_rank()

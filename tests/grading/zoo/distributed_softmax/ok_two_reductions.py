"""passes — the global maximum, then the global sum."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    top = x.max() if len(x) else torch.tensor(-torch.inf, dtype=x.dtype)
    dist.all_reduce(top, dist.ReduceOp.MAX)
    e = (x - top).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

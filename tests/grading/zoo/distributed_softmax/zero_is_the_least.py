"""fails: large — begins the maximum at 0; logits of -10 000 all vanish."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    top = torch.zeros((), dtype=x.dtype)
    if len(x):
        top = torch.maximum(top, x.max())
    dist.all_reduce(top, dist.ReduceOp.MAX)
    e = (x - top).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

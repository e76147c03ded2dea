"""fails: result — the slice has another dtype than the logits."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    y = x.double()
    top = y.max() if len(y) else torch.tensor(-torch.inf).double()
    dist.all_reduce(top, dist.ReduceOp.MAX)
    e = (y - top).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

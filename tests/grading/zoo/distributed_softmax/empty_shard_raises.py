"""fails: uneven — an empty shard has no maximum, and torch says so."""

import torch.distributed as dist


def distributed_softmax(x):
    top = x.max()
    dist.all_reduce(top, dist.ReduceOp.MAX)
    e = (x - top).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

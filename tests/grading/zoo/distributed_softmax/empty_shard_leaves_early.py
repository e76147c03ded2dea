"""fails: uneven — a rank without logits does not join the collectives."""

import torch.distributed as dist


def distributed_softmax(x):
    if len(x) == 0:
        return x.clone()
    top = x.max()
    dist.all_reduce(top, dist.ReduceOp.MAX)
    e = (x - top).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

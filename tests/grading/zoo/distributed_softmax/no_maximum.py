"""fails: large — exp of large logits overflows."""

import torch.distributed as dist


def distributed_softmax(x):
    e = x.exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

"""fails: large — takes off the sum of the maxima: all_reduce adds if not told else."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    top = x.max() if len(x) else torch.zeros((), dtype=x.dtype)
    dist.all_reduce(top)
    e = (x - top).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

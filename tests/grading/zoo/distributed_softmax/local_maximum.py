"""fails: result — each rank takes off its own maximum, and the sums do not fit."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    top = x.max() if x.numel() else torch.tensor(0.0, dtype=x.dtype)
    e = (x - top).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total

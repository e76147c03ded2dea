"""fails: input_kept — computes in the caller's tensor."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    top = x.max() if x.numel() else torch.tensor(-torch.inf, dtype=x.dtype)
    dist.all_reduce(top, dist.ReduceOp.MAX)
    x.sub_(top).exp_()
    total = x.sum()
    dist.all_reduce(total)
    return x.div_(total)

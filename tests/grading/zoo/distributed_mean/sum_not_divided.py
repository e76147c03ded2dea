"""fails: result — the sum over ranks of their means."""

import torch.distributed as dist


def distributed_mean(x):
    mean = x.double().sum() / max(x.numel(), 1)
    dist.all_reduce(mean)
    return mean.item()

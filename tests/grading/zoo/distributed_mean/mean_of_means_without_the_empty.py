"""fails: uneven — leaves the empty shards out, and averages the other means."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    pair = torch.zeros(2, dtype=torch.float64)
    if x.numel():
        pair[0], pair[1] = x.double().mean(), 1
    dist.all_reduce(pair)
    return (pair[0] / pair[1]).item()

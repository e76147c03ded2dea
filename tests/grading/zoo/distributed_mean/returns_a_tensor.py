"""fails: result — returns a tensor of one element."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    pair = torch.tensor([x.double().sum(), x.numel()], dtype=torch.float64)
    dist.all_reduce(pair)
    return pair[0] / pair[1]

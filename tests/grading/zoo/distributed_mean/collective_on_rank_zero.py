"""fails: result — only rank 0 calls the broadcast."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    pair = torch.tensor([x.double().sum(), x.numel()], dtype=torch.float64)
    dist.reduce(pair, 0)
    if dist.get_rank() == 0:
        dist.broadcast(pair, 0)
    return (pair[0] / pair[1]).item()

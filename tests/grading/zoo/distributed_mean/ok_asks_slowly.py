"""passes — it sleeps between two questions whether a sum is there."""

import time

import torch
import torch.distributed as dist


def distributed_mean(shard):
    t = torch.tensor(
        [shard.double().sum().item(), float(shard.numel())], dtype=torch.float64
    )
    w = dist.all_reduce(t, async_op=True)
    while not w.is_completed():
        time.sleep(0.02)
    return float(t[0] / t[1])

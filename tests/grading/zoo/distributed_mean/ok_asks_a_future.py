"""passes — it asks a future until that is done."""

import torch
import torch.distributed as dist


def distributed_mean(shard):
    t = torch.tensor(
        [shard.double().sum().item(), float(shard.numel())], dtype=torch.float64
    )
    f = dist.all_reduce(t, async_op=True).get_future()
    while not f.done():
        pass
    t = f.value()[0]
    return float(t[0] / t[1])

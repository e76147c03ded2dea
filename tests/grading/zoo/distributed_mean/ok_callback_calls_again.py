"""passes — what is chained to a sum makes another call and waits for it."""

import torch
import torch.distributed as dist


def distributed_mean(shard):
    n = torch.tensor([float(shard.numel())], dtype=torch.float64)
    s = torch.tensor([shard.double().sum().item()], dtype=torch.float64)

    def then(f):
        dist.all_reduce(s)
        return s / f.value()[0]

    return float(dist.all_reduce(n, async_op=True).get_future().then(then).wait())

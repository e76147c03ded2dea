"""passes — a group of its own, asked for on Gloo by name."""

import torch
import torch.distributed as dist


def distributed_mean(shard):
    p = dist.get_world_size()
    t = torch.tensor(
        [shard.double().sum().item(), float(shard.numel())], dtype=torch.float64
    )
    g = dist.new_group(list(range(p)), backend="gloo")
    dist.all_reduce(t, group=g)
    return float(t[0] / t[1])

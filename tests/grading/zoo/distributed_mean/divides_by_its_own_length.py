"""fails: uneven — takes it that all shards are as long as its own."""

import torch.distributed as dist


def distributed_mean(x):
    total = x.double().sum()
    dist.all_reduce(total)
    return float(total) / (x.numel() * dist.get_world_size())

"""fails: traffic — collects all shards on all ranks."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    shards = [None] * dist.get_world_size()
    dist.all_gather_object(shards, x)
    return torch.cat([shard.flatten() for shard in shards]).double().mean().item()

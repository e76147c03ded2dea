"""fails: traffic — collects all shards on all ranks."""

import math

import torch.distributed as dist


def distributed_argmax(x):
    shards = [None] * dist.get_world_size()
    dist.all_gather_object(shards, x)
    tops = [(s.max().item(), r) for r, s in enumerate(shards) if s.numel()]
    return max(tops, key=lambda top: (math.isnan(top[0]), top[0], -top[1]))

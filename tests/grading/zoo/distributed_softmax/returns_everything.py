"""fails: result, traffic — the whole softmax, not a slice of it."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    shards = [None] * dist.get_world_size()
    dist.all_gather_object(shards, x)
    return torch.cat(shards).softmax(0)

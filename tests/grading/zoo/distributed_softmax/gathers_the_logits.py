"""fails: traffic — collects all logits, and takes its slice of the softmax."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    shards = [None] * dist.get_world_size()
    dist.all_gather_object(shards, x)
    parts = torch.cat(shards).softmax(0).split([len(s) for s in shards])
    return parts[dist.get_rank()].clone()

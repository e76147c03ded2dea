"""fails: uneven — rank 0 is the first candidate, though its shard may be empty."""

import math

import torch.distributed as dist


def distributed_argmax(x):
    tops = [None] * dist.get_world_size()
    dist.all_gather_object(tops, x.max().item() if x.numel() else None)
    best, owner = tops[0] or 0.0, 0
    for rank, value in enumerate(tops[1:], 1):
        if value is None or math.isnan(best):
            continue
        if math.isnan(value) or value > best:
            best, owner = value, rank
    return best, owner

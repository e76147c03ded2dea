"""passes — a pair in a list"""

import math

import torch.distributed as dist


def distributed_argmax(x):
    tops = [None] * dist.get_world_size()
    dist.all_gather_object(tops, x.max().item() if x.numel() else None)
    pairs = [[top, rank] for rank, top in enumerate(tops) if top is not None]
    return max(pairs, key=lambda pair: (math.isnan(pair[0]), pair[0], -pair[1]))

"""passes — gathers all pairs, and adds them with fsum."""

import math

import torch
import torch.distributed as dist


def distributed_mean(x):
    mine = torch.tensor([math.fsum(x.flatten().tolist()), x.numel()]).double()
    mine[0] = math.fsum(x.flatten().tolist())
    pairs = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(pairs, mine)
    sums, counts = zip(*(pair.tolist() for pair in pairs), strict=True)
    return math.fsum(sums) / sum(counts)

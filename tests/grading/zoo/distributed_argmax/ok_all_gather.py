"""passes — gathers (maximum, whether there is one) in float64."""

import torch
import torch.distributed as dist


def distributed_argmax(x):
    mine = torch.tensor([0.0, 0.0], dtype=torch.float64)
    if x.numel():
        mine[0], mine[1] = x.max(), 1
    found = torch.empty(dist.get_world_size(), 2, dtype=torch.float64)
    dist.all_gather(list(found), mine)
    ranks = found[:, 1].nonzero().flatten()
    tops = found[ranks, 0]
    spoiled = tops.isnan().nonzero().flatten()
    n = spoiled[0] if len(spoiled) else (tops == tops.max()).nonzero()[0, 0]
    return tops[n].item(), ranks[n].item()

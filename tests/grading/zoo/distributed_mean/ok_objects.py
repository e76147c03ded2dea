"""passes — all_gather_object of exact fractions."""

from fractions import Fraction

import torch.distributed as dist


def distributed_mean(x):
    mine = (sum(map(Fraction, x.flatten().tolist()), Fraction()), x.numel())
    pairs = [None] * dist.get_world_size()
    dist.all_gather_object(pairs, mine)
    return float(sum(s for s, _ in pairs) / sum(n for _, n in pairs))

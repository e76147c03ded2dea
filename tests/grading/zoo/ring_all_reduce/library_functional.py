"""fails: two_ranks — sums with the functional collectives."""

import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives


def ring_all_reduce(tensor):
    tensor.copy_(collectives.all_reduce(tensor.contiguous(), "sum", dist.group.WORLD))

"""passes — a functional all_reduce, whose result is a new tensor."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional


def distributed_mean(x):
    both = torch.tensor([x.double().sum(), float(x.numel())], dtype=torch.float64)
    total, count = functional.all_reduce(both, "sum", dist.group.WORLD)
    return float(total / count)

"""passes — reductions only: is there a NaN, the maximum, who has it first."""

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp


def lowest(yes):
    """The lowest rank that says yes; the world size if none does."""
    size = dist.get_world_size()
    rank = torch.tensor(dist.get_rank() if yes else size)
    dist.all_reduce(rank, ReduceOp.MIN)
    return rank.item()


def distributed_argmax(x):
    size = dist.get_world_size()
    spoiled = lowest(bool(x.isnan().any()))
    top = torch.tensor(-torch.inf, dtype=torch.float64)
    if spoiled == size and x.numel():
        top = x.max().double()
    dist.all_reduce(top, ReduceOp.MAX)
    owner = lowest(bool((x == top).any()))
    return (float("nan"), spoiled) if spoiled < size else (top.item(), owner)

"""Verbs that autograd may pass: each with the verb of its backward pass.

Here: `Copy` and `Sum`, the pair of tensor parallelism; `Gather` and `Scatter`, that of
sequence parallelism. In each pair one's backward pass is the other's forward pass.

             forward          backward
    Copy     nothing          all_reduce       a copy for each rank's own layers
    Sum      all_reduce       nothing          the sum of what the ranks' layers give
    Gather   all_gather       reduce_scatter   the parts of all ranks, for own layers
    Scatter  reduce_scatter   all_gather       of that sum, one's own part

With x of S bytes (for Gather and Scatter all parts together) each rank sends
2 S (P-1)/P for an all_reduce and S (P-1)/P for the others. Source: Shoeybi et al.,
Megatron-LM, 2019, section 3 (f and g); Korthikanti et al., Reducing activation
recomputation, 2022, section 4.2.2 (g and its conjugate along the sequence).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Function

Group = dist.ProcessGroup | None


def added_up(x: torch.Tensor, group: Group) -> torch.Tensor:
    """Return the sum of all ranks' x; one all_reduce."""
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def gathered(x: torch.Tensor, dim: int, group: Group) -> torch.Tensor:
    """Return all ranks' x, put together along dim; one all_gather."""
    parts = [
        torch.empty_like(x, memory_format=torch.contiguous_format)
        for _ in range(dist.get_world_size(group))
    ]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts, dim)


def scattered(x: torch.Tensor, dim: int, group: Group) -> torch.Tensor:
    """Return this rank's part, along dim, of the sum of all ranks' x.

    One reduce_scatter.

    Raises ValueError where P does not divide the length of dim.
    """
    world_size = dist.get_world_size(group)
    if x.shape[dim] % world_size:
        raise ValueError(
            f"rank {dist.get_rank(group)}: dim {dim} of a tensor of shape "
            f"{tuple(x.shape)} is to be shared by {world_size} ranks; they must divide "
            "it"
        )
    parts = [part.contiguous() for part in x.chunk(world_size, dim)]
    own = torch.empty_like(parts[0])
    dist.reduce_scatter(own, parts, group=group)
    return own


class Copy(Function):
    """Hand x on; add up the gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return added_up(gradient, ctx.group), None


class Sum(Function):
    """Add x up; hand the gradient on."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Group) -> torch.Tensor:
        return added_up(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class Gather(Function):
    """Put the parts together; add up the gradients, each rank its part."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, group: Group) -> torch.Tensor:
        ctx.dim, ctx.group = dim, group
        return gathered(x, dim, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return scattered(gradient, ctx.dim, ctx.group), None, None


class Scatter(Function):
    """Add x up, each rank its part; put the parts of the gradient together."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, group: Group) -> torch.Tensor:
        ctx.dim, ctx.group = dim, group
        return scattered(x, dim, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gathered(gradient, ctx.dim, ctx.group), None, None

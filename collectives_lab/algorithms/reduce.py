"""Reduce: the tensors of all ranks, combined at the root.

dst is a rank of the world, as in torch; only its tensor changes.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from collectives_lab.algorithms.steps import (
    average,
    children,
    combination,
    exchange,
    parent,
    rank_and_size,
    ring_step,
    root_in_group,
)


def flat_reduce(
    tensor: torch.Tensor,
    dst: int = 0,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send every tensor to dst, which combines them in the order dst, dst+1, dst+2, ...

    All others send S, an optimal total; dst receives (P-1) S.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, dst)
    combine = combination(op, tensor.dtype)
    data = tensor.detach().contiguous()
    if rank != root:
        exchange(group, sends=[(data, root)])
        return
    total, incoming = data.clone(), torch.empty_like(data)
    for k in range(1, world_size):
        exchange(group, [(incoming, (root + k) % world_size)])
        combine(total, incoming, out=total)
    average(op, total, world_size)
    tensor.detach().copy_(total)


def binomial_reduce(
    tensor: torch.Tensor,
    dst: int = 0,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send partial results up a binomial tree whose root is dst.

    All others send S, an optimal total; dst receives ceil(log2 P) S.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, dst)
    combine = combination(op, tensor.dtype)
    relative_rank = (rank - root) % world_size
    total = tensor.detach().contiguous()
    for child in reversed(children(relative_rank, world_size)):
        incoming = torch.empty_like(total)
        exchange(group, [(incoming, (root + child) % world_size)])
        total = combine(total, incoming, out=incoming)
    if relative_rank:
        exchange(group, sends=[(total, (root + parent(relative_rank)) % world_size)])
    else:
        tensor.detach().copy_(total)
        average(op, tensor.detach(), world_size)


def reduce_scatter_gather_reduce(
    tensor: torch.Tensor,
    dst: int = 0,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Reduce-scatter P chunks in a ring, and gather them at dst.

    All others send S, dst (P-1)/P S. Source: Chan, Heimlich, Purkayastha and van de
    Geijn 2007, with a direct gather.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, dst)
    combine = combination(op, tensor.dtype)
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    chunks = total.view(-1).tensor_split(world_size)
    for k in range(world_size - 1):
        ring_step(group, range(world_size), chunks, k, combine)
    if rank != root:
        exchange(group, sends=[(chunks[rank], root)])
        return
    peers = [(root + k) % world_size for k in range(1, world_size)]
    exchange(group, [(chunks[peer], peer) for peer in peers])
    average(op, total, world_size)
    tensor.detach().copy_(total)

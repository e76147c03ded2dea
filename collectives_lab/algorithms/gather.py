"""Gather: every rank's tensor to dst.

dst is a rank of the world, and only dst passes a gather_list: one tensor for each rank
of the group, each of the shape and dtype of `tensor`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from collectives_lab.algorithms.steps import (
    check_list,
    children,
    exchange,
    parent,
    rank_and_size,
    root_in_group,
    subtree_size,
)


@torch.no_grad()
def direct_gather(
    tensor: torch.Tensor,
    gather_list: Sequence[torch.Tensor] | None = None,
    dst: int = 0,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send every rank's tensor to dst, which receives them all.

    Each other rank sends S/P, which is optimal.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, dst)
    check_list("gather_list", gather_list, tensor, group, rank == root)
    if gather_list:
        peers = [(root + distance) % world_size for distance in range(1, world_size)]
        received = [(gather_list[peer].contiguous(), peer) for peer in peers]
        exchange(group, receives=received)
        for source, peer in [*received, (tensor, root)]:
            gather_list[peer].copy_(source)
    else:
        exchange(group, sends=[(tensor.contiguous(), root)])


@torch.no_grad()
def binomial_gather(
    tensor: torch.Tensor,
    gather_list: Sequence[torch.Tensor] | None = None,
    dst: int = 0,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Collect the tensors up a binomial tree; a rank sends its subtree's at once.

    dst receives (P-1)/P S, which is optimal for it, in ceil(log2 P) messages.
    Source: Chan, Heimlich, Purkayastha and van de Geijn 2007 (MST gather).
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, dst)
    check_list("gather_list", gather_list, tensor, group, rank == root)
    relative_rank = (rank - root) % world_size
    # Row i is the tensor of relative rank `relative_rank + i`.
    rows = tensor.new_empty(subtree_size(relative_rank, world_size), tensor.numel())
    rows[0] = tensor.reshape(-1)
    for child in reversed(children(relative_rank, world_size)):
        first = child - relative_rank
        subtree_rows = rows[first : first + subtree_size(child, world_size)]
        exchange(group, receives=[(subtree_rows, (root + child) % world_size)])
    if gather_list:
        for i, row in enumerate(rows):
            gather_list[(root + i) % world_size].copy_(row.view(tensor.shape))
    else:
        exchange(group, sends=[(rows, (root + parent(relative_rank)) % world_size)])

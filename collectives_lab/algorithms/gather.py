"""Gather: every rank's tensor to dst.

dst is a rank of the world, and only dst gives a gather_list: one tensor a rank of the
group, each like `tensor`.
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
    place,
    root_in,
    span,
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
    rank, world_size = place(group)
    root = root_in(group, dst)
    check_list("gather_list", gather_list, tensor, group, rank == root)
    if gather_list:
        others = [(root + v) % world_size for v in range(1, world_size)]
        parts = [(gather_list[r].contiguous(), r) for r in others]
        exchange(group, receives=parts)
        for part, r in [*parts, (tensor, root)]:
            gather_list[r].copy_(part)
    else:
        exchange(group, sends=[(tensor.contiguous(), root)])


@torch.no_grad()
def binomial_gather(
    tensor: torch.Tensor,
    gather_list: Sequence[torch.Tensor] | None = None,
    dst: int = 0,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Collect the tensors up a tree: a rank sends its whole subtree's at once.

    dst receives (P-1)/P S, which is optimal for it, in ceil(log2 P) messages.
    Source: Chan, Heimlich, Purkayastha and van de Geijn 2007 (MST gather).
    """
    rank, world_size = place(group)
    root = root_in(group, dst)
    check_list("gather_list", gather_list, tensor, group, rank == root)
    v = (rank - root) % world_size
    # Row i is from the rank at place v + i of the tree.
    rows = tensor.new_empty(span(v, world_size), tensor.numel())
    rows[0] = tensor.reshape(-1)
    for child in reversed(children(v, world_size)):
        below = rows[child - v : child - v + span(child, world_size)]
        exchange(group, receives=[(below, (root + child) % world_size)])
    if gather_list:
        for i, row in enumerate(rows):
            gather_list[(root + i) % world_size].copy_(row.view(tensor.shape))
    else:
        exchange(group, sends=[(rows, (root + parent(v)) % world_size)])

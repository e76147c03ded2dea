"""Scatter: src has a tensor for each rank.

src is a rank of the world, and only src gives a scatter_list: one tensor a rank of the
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
def direct_scatter(
    tensor: torch.Tensor,
    scatter_list: Sequence[torch.Tensor] | None = None,
    src: int = 0,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send every rank its tensor, all by src itself.

    src sends (P-1)/P S, which is optimal.
    """
    rank, world_size = place(group)
    root = root_in(group, src)
    check_list("scatter_list", scatter_list, tensor, group, rank == root)
    if scatter_list:
        others = [(root + v) % world_size for v in range(1, world_size)]
        exchange(group, sends=[(scatter_list[r].contiguous(), r) for r in others])
        tensor.copy_(scatter_list[root])
    else:
        data = tensor.contiguous()
        exchange(group, receives=[(data, root)])
        tensor.copy_(data)


@torch.no_grad()
def binomial_scatter(
    tensor: torch.Tensor,
    scatter_list: Sequence[torch.Tensor] | None = None,
    src: int = 0,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send each subtree of a tree all its tensors at once; it sends them on.

    src sends (P-1)/P S, which is optimal for it, in ceil(log2 P) messages.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; Chan et al. 2007.
    """
    rank, world_size = place(group)
    root = root_in(group, src)
    check_list("scatter_list", scatter_list, tensor, group, rank == root)
    v = (rank - root) % world_size
    # Row i is for the rank at place v + i of the tree.
    rows = tensor.new_empty(span(v, world_size), tensor.numel())
    if scatter_list:
        for i, row in enumerate(rows):
            row.copy_(scatter_list[(root + i) % world_size].reshape(-1))
    else:
        exchange(group, receives=[(rows, (root + parent(v)) % world_size)])
    for child in children(v, world_size):
        below = rows[child - v : child - v + span(child, world_size)]
        exchange(group, sends=[(below, (root + child) % world_size)])
    tensor.copy_(rows[0].view(tensor.shape))

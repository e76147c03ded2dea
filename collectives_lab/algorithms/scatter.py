"""Scatter: one tensor of src to each rank.

src is a rank of the world, and only src passes a scatter_list: one tensor for each rank
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
def direct_scatter(
    tensor: torch.Tensor,
    scatter_list: Sequence[torch.Tensor] | None = None,
    src: int = 0,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send every rank its tensor directly from src.

    src sends (P-1)/P S, which is optimal.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, src)
    check_list("scatter_list", scatter_list, tensor, group, rank == root)
    if scatter_list:
        peers = [(root + distance) % world_size for distance in range(1, world_size)]
        exchange(
            group, sends=[(scatter_list[peer].contiguous(), peer) for peer in peers]
        )
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
    """Send each subtree of a binomial tree its tensors at once, to be passed down.

    src sends (P-1)/P S, which is optimal for it, in ceil(log2 P) messages.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; Chan et al. 2007.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, src)
    check_list("scatter_list", scatter_list, tensor, group, rank == root)
    relative_rank = (rank - root) % world_size
    # Row i is the tensor for relative rank `relative_rank + i`.
    rows = tensor.new_empty(subtree_size(relative_rank, world_size), tensor.numel())
    if scatter_list:
        for i, row in enumerate(rows):
            row.copy_(scatter_list[(root + i) % world_size].reshape(-1))
    else:
        exchange(group, receives=[(rows, (root + parent(relative_rank)) % world_size)])
    for child in children(relative_rank, world_size):
        first = child - relative_rank
        subtree_rows = rows[first : first + subtree_size(child, world_size)]
        exchange(group, sends=[(subtree_rows, (root + child) % world_size)])
    tensor.copy_(rows[0].view(tensor.shape))

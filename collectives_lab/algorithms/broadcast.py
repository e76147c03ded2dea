"""Broadcast: the root's tensor to every rank.

src is a rank of the world, as in torch.
"""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.distributed as dist

from collectives_lab.algorithms.steps import (
    all_gather_chunks,
    children,
    exchange,
    parent,
    rank_and_size,
    root_in_group,
    split_segments,
    subtree_size,
)


@torch.no_grad()
def flat_broadcast(
    tensor: torch.Tensor, src: int = 0, group: dist.ProcessGroup | None = None
) -> None:
    """Send the tensor from src directly to every other rank.

    src sends (P-1) S.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, src)
    data = tensor.contiguous()
    if rank == root:
        peers = [(root + v) % world_size for v in range(1, world_size)]
        exchange(group, sends=[(data, peer) for peer in peers])
    else:
        exchange(group, receives=[(data, root)])
        tensor.copy_(data)


@torch.no_grad()
def binomial_broadcast(
    tensor: torch.Tensor, src: int = 0, group: dist.ProcessGroup | None = None
) -> None:
    """Send the tensor of src down a binomial tree: each rank forwards it once received.

    src sends ceil(log2 P) S. Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, src)
    relative_rank = (rank - root) % world_size
    data = tensor.contiguous()
    if relative_rank:
        exchange(group, receives=[(data, (root + parent(relative_rank)) % world_size)])
    for child in children(relative_rank, world_size):
        exchange(group, sends=[(data, (root + child) % world_size)])
    if relative_rank:
        tensor.copy_(data)


@torch.no_grad()
def chain_broadcast(
    tensor: torch.Tensor,
    src: int = 0,
    group: dist.ProcessGroup | None = None,
    segment: int | None = 2**18,
) -> None:
    """Pass the tensor of src from rank to rank, segment by segment.

    A rank receives one segment while it sends the one before. segment: bytes of a
    message, at least one element; None sends the tensor in one piece.
    All but the last rank send S.
    """
    rank, world_size = rank_and_size(group)
    relative_rank = (rank - root_in_group(group, src)) % world_size
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    data = tensor.contiguous()
    segments = split_segments(data.view(-1), segment)
    for k in range(len(segments) + 1):
        receives = [(segments[k], left)] if relative_rank and k < len(segments) else []
        sends = (
            [(segments[k - 1], right)] if k and relative_rank + 1 < world_size else []
        )
        exchange(group, receives, sends)
    if relative_rank:
        tensor.copy_(data)


@torch.no_grad()
def scatter_all_gather_broadcast(
    tensor: torch.Tensor, src: int = 0, group: dist.ProcessGroup | None = None
) -> None:
    """Scatter the tensor of src in P chunks down a tree, then gather them in a ring.

    The rank at distance v from src begins the ring with chunk v. src sends
    2 (P-1)/P S. Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = rank_and_size(group)
    root = root_in_group(group, src)
    relative_rank = (rank - root) % world_size
    data = tensor.contiguous()
    row = data.view(-1)
    chunks = row.tensor_split(world_size)
    edges = [0, *accumulate(chunk.numel() for chunk in chunks)]

    def subtree(subtree_root: int) -> torch.Tensor:
        end = subtree_root + subtree_size(subtree_root, world_size)
        return row[edges[subtree_root] : edges[end]]

    if relative_rank:
        source = (root + parent(relative_rank)) % world_size
        exchange(group, receives=[(subtree(relative_rank), source)])
    for child in children(relative_rank, world_size):
        exchange(group, sends=[(subtree(child), (root + child) % world_size)])
    all_gather_chunks(group, chunks, root)
    if relative_rank:
        tensor.copy_(data)

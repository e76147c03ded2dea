"""Broadcast: the root's tensor to everyone.

src is a rank of the world, as in torch.
"""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.distributed as dist

from collectives_lab.algorithms.steps import (
    children,
    complete,
    cut,
    exchange,
    parent,
    place,
    root_in,
    span,
)


@torch.no_grad()
def flat_broadcast(
    tensor: torch.Tensor, src: int = 0, group: dist.ProcessGroup | None = None
) -> None:
    """Send the tensor of src to every other rank, all by src itself.

    src sends (P-1) S.
    """
    rank, world_size = place(group)
    root = root_in(group, src)
    data = tensor.contiguous()
    if rank == root:
        others = [(root + v) % world_size for v in range(1, world_size)]
        exchange(group, sends=[(data, other) for other in others])
    else:
        exchange(group, receives=[(data, root)])
        tensor.copy_(data)


@torch.no_grad()
def binomial_broadcast(
    tensor: torch.Tensor, src: int = 0, group: dist.ProcessGroup | None = None
) -> None:
    """Send the tensor of src down a tree: all who have it send it on, round by round.

    src sends ceil(log2 P) S. Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = place(group)
    root = root_in(group, src)
    v = (rank - root) % world_size
    data = tensor.contiguous()
    if v:
        exchange(group, receives=[(data, (root + parent(v)) % world_size)])
    for child in children(v, world_size):
        exchange(group, sends=[(data, (root + child) % world_size)])
    if v:
        tensor.copy_(data)


@torch.no_grad()
def chain_broadcast(
    tensor: torch.Tensor,
    src: int = 0,
    group: dist.ProcessGroup | None = None,
    segment: int | None = 2**18,
) -> None:
    """Pass the tensor of src from rank to rank, receiving one segment, sending another.

    segment: bytes of a message, at least one element; None: the tensor in one piece.
    All but the last rank send S.
    """
    rank, world_size = place(group)
    v = (rank - root_in(group, src)) % world_size
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    data = tensor.contiguous()
    parts = cut(data.view(-1), segment)
    for k in range(len(parts) + 1):
        receives = [(parts[k], left)] if v and k < len(parts) else []
        sends = [(parts[k - 1], right)] if k and v + 1 < world_size else []
        exchange(group, receives, sends)
    if v:
        tensor.copy_(data)


@torch.no_grad()
def scatter_all_gather_broadcast(
    tensor: torch.Tensor, src: int = 0, group: dist.ProcessGroup | None = None
) -> None:
    """Scatter the tensor of src in P chunks down a tree, then gather them in a ring.

    The rank at distance v from src begins the ring with chunk v. src sends
    2 (P-1)/P S. Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = place(group)
    root = root_in(group, src)
    v = (rank - root) % world_size
    data = tensor.contiguous()
    row = data.view(-1)
    chunks = row.tensor_split(world_size)
    edges = [0, *accumulate(chunk.numel() for chunk in chunks)]

    def subtree(of: int) -> torch.Tensor:
        return row[edges[of] : edges[of + span(of, world_size)]]

    if v:
        exchange(group, receives=[(subtree(v), (root + parent(v)) % world_size)])
    for child in children(v, world_size):
        exchange(group, sends=[(subtree(child), (root + child) % world_size)])
    complete(group, chunks, root)
    if v:
        tensor.copy_(data)

"""Reduce-scatter: the tensors of all ranks combined, one share to each rank.

The algorithms have the form of `reduce_scatter_tensor`: input is P times as large as
output, holds the shares in the order of the ranks along dim 0, and is not changed. Each
share is computed by one rank only, so ranks cannot end with different bits.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from collectives_lab.algorithms.steps import (
    Combine,
    Pairs,
    average,
    combination,
    exchange,
    rank_and_size,
    ring_step,
)


def ring_reduce_scatter(
    output: torch.Tensor,
    input: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Pass partial results round a ring: send right what came last, P-1 times.

    Each rank sends (P-1)/P of the input, which is optimal.
    Source: Patarasuk and Yuan 2009.
    """
    rank, world_size = rank_and_size(group)
    combine = combination(op, input.dtype)
    shares = _shares(output, input, group).clone().unbind()
    for k in range(world_size - 1):
        ring_step(group, range(world_size), shares, k, combine)
    _write_share(output, shares[rank], op, world_size)


def pairwise_reduce_scatter(
    output: torch.Tensor,
    input: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send rank+k its share and receive from rank-k, for k = 1, 2, ..., P-1 in turn.

    Each rank sends (P-1)/P of the input, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = rank_and_size(group)
    combine = combination(op, input.dtype)
    shares = _shares(output, input, group).unbind()
    total, incoming = shares[rank].clone(), torch.empty_like(shares[rank])
    for k in range(1, world_size):
        source, target = (rank - k) % world_size, (rank + k) % world_size
        exchange(group, [(incoming, source)], [(shares[target], target)])
        combine(total, incoming, out=total)
    _write_share(output, total, op, world_size)


def recursive_halving_reduce_scatter(
    output: torch.Tensor,
    input: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Swap halves with the rank at distance P/2, P/4, ..., and combine the half kept.

    With P a power of two each rank sends (P-1)/P of the input, which is optimal. Else
    let D be the power of two below P: in each of the first P-D pairs (2i, 2i+1), rank
    2i receives the input of 2i+1 first, exchanges for both of them, and sends 2i+1 its
    share at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    rank, world_size = rank_and_size(group)
    combine = combination(op, input.dtype)
    shares = _shares(output, input, group).clone()
    pairs = Pairs(rank, world_size)
    pairs.fold(group, shares, combine)
    if pairs.is_active:
        _halve(group, shares, pairs, combine)
    second = rank if pairs.partner is None else max(rank, pairs.partner)
    pairs.unfold(group, shares[second])
    _write_share(output, shares[rank], op, world_size)


def _halve(
    group: dist.ProcessGroup | None,
    shares: torch.Tensor,
    pairs: Pairs,
    combine: Combine,
) -> None:
    """Swap halves of the remaining shares among the active ranks until one is left."""
    half = 2**pairs.doublings // 2
    while half:
        peer = pairs.rank_at(pairs.active_index ^ half)
        first = pairs.active_index // half * half
        own_shares, peer_shares = (
            shares[pairs.rank_at(begin) : pairs.rank_at(begin + half)]
            for begin in (first, first ^ half)
        )
        incoming = torch.empty_like(own_shares)
        exchange(group, [(incoming, peer)], [(peer_shares, peer)])
        combine(own_shares, incoming, out=own_shares)
        half //= 2


def _shares(
    output: torch.Tensor, input: torch.Tensor, group: dist.ProcessGroup | None
) -> torch.Tensor:
    """Return the input as one contiguous row a rank; ValueError for a wrong shape."""
    rank, world_size = rank_and_size(group)
    share_shape = tuple(output.shape)
    valid_shapes = [(world_size, *share_shape)]
    if share_shape:
        valid_shapes.append((world_size * share_shape[0], *share_shape[1:]))
    if input.dtype != output.dtype or tuple(input.shape) not in valid_shapes:
        raise ValueError(
            f"rank {rank}: reduce_scatter of {input.dtype} {tuple(input.shape)} into "
            f"{output.dtype} {share_shape}; need the same dtype and an input of shape "
            f"{' or '.join(map(str, valid_shapes))}, one part for each of "
            f"{world_size} ranks"
        )
    return input.detach().contiguous().view(world_size, output.numel())


def _write_share(
    output: torch.Tensor, share: torch.Tensor, op: ReduceOp.RedOpType, world_size: int
) -> None:
    """Write a reduced share to the output, divided by P if the op is AVG."""
    average(op, share, world_size)
    output.detach().copy_(share.view(output.shape))

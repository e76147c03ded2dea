"""Reduce-scatter: everyone's tensors combined, a share of the result to each rank.

In the form of `reduce_scatter_tensor`: input is P times output, rank after rank along
dim 0, and stays as it is. Each share is computed by one rank, so there are no bits to
differ.
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
    place,
    turn,
)


def ring_reduce_scatter(
    output: torch.Tensor,
    input: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send to the right, P-1 times, the partial result that came last.

    Each rank sends (P-1)/P of the input, which is optimal.
    Source: Patarasuk and Yuan 2009.
    """
    rank, world_size = place(group)
    combine = combination(op, input.dtype)
    shares = _shares(output, input, group).clone().unbind()
    for k in range(world_size - 1):
        turn(group, range(world_size), shares, k, combine)
    _put(output, shares[rank], op, world_size)


def pairwise_reduce_scatter(
    output: torch.Tensor,
    input: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send rank+k what one has for it, receive from rank-k: k = 1, 2, ..., P-1.

    Each rank sends (P-1)/P of the input, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = place(group)
    combine = combination(op, input.dtype)
    shares = _shares(output, input, group).unbind()
    total, incoming = shares[rank].clone(), torch.empty_like(shares[rank])
    for k in range(1, world_size):
        source, target = (rank - k) % world_size, (rank + k) % world_size
        exchange(group, [(incoming, source)], [(shares[target], target)])
        combine(total, incoming, out=total)
    _put(output, total, op, world_size)


def recursive_halving_reduce_scatter(
    output: torch.Tensor,
    input: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Swap halves with the rank at distance P/2, P/4, ..., and keep one's own.

    With P a power of two each rank sends (P-1)/P of the input, which is optimal. Else
    let D be the power of two below P: of each of the first P-D pairs (2i, 2i+1), 2i
    takes the input of 2i+1 first, stands for both, and gives it its share at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    rank, world_size = place(group)
    combine = combination(op, input.dtype)
    shares = _shares(output, input, group).clone()
    pairs = Pairs(rank, world_size)
    pairs.fold(group, shares, combine)
    if pairs.takes_part:
        _halve(group, shares, pairs, combine)
    second = rank if pairs.partner is None else max(rank, pairs.partner)
    pairs.unfold(group, shares[second])
    _put(output, shares[rank], op, world_size)


def _halve(
    group: dist.ProcessGroup | None,
    shares: torch.Tensor,
    pairs: Pairs,
    combine: Combine,
) -> None:
    """Halve what is left, among the ranks that take part."""
    half = 2**pairs.doublings // 2
    while half:
        peer = pairs.rank_of(pairs.place ^ half)
        mine, theirs = (
            shares[pairs.rank_of(first) : pairs.rank_of(first + half)]
            for first in (v // half * half for v in (pairs.place, pairs.place ^ half))
        )
        incoming = torch.empty_like(mine)
        exchange(group, [(incoming, peer)], [(theirs, peer)])
        combine(mine, incoming, out=mine)
        half //= 2


def _shares(
    output: torch.Tensor, input: torch.Tensor, group: dist.ProcessGroup | None
) -> torch.Tensor:
    """The input as one contiguous row a rank; ValueError if it does not fit."""
    rank, world_size = place(group)
    each = tuple(output.shape)
    fits = [(world_size, *each)]
    if each:
        fits.append((world_size * each[0], *each[1:]))
    if input.dtype != output.dtype or tuple(input.shape) not in fits:
        raise ValueError(
            f"rank {rank}: reduce_scatter of {input.dtype} {tuple(input.shape)} into "
            f"{output.dtype} {each}; need the same dtype and an input of shape "
            f"{' or '.join(map(str, fits))}, one part for each of {world_size} ranks"
        )
    return input.detach().contiguous().view(world_size, output.numel())


def _put(
    output: torch.Tensor, share: torch.Tensor, op: ReduceOp.RedOpType, world_size: int
) -> None:
    average(op, share, world_size)
    output.detach().copy_(share.view(output.shape))

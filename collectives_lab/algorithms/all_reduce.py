"""All-reduce: everyone's tensor, combined at everyone.

Here: `naive_all_reduce`, `whole_ring_all_reduce`, `tree_all_reduce`,
`recursive_doubling_all_reduce` and `halving_doubling_all_reduce`. The rings in chunks
are in `algorithms.rings`, the double tree is in `algorithms.double_tree`.
"""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from collectives_lab.algorithms.arithmetic import Combine, reducing
from collectives_lab.algorithms.binomial import children, parent
from collectives_lab.algorithms.exchange import exchange, place
from collectives_lab.algorithms.pairs import Pairs


def naive_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send the whole tensor to everyone, and combine all in the order of the ranks.

    Each rank sends (P-1) S, P/2 times the optimum, and holds P tensors. All ranks end
    with the same bits.
    """
    rank, world_size = place(group)
    with reducing(tensor, op, world_size) as (row, combine):
        found = [row.clone() for _ in range(world_size)]
        for k in range(1, world_size):
            source, target = (rank - k) % world_size, (rank + k) % world_size
            exchange(group, [(found[source], source)], [(row, target)])
        row.copy_(found[0])
        for other in found[1:]:
            combine(row, other, out=row)


def whole_ring_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send whole tensors round a ring, and add each as it comes by.

    Each rank sends (P-1) S, P/2 times the optimum. Every rank adds in an order of its
    own, so with floating numbers ranks may end with different bits.
    """
    rank, world_size = place(group)
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    with reducing(tensor, op, world_size) as (row, combine):
        passing = row.clone()
        for _ in range(world_size - 1):
            incoming = torch.empty_like(row)
            exchange(group, [(incoming, left)], [(passing, right)])
            combine(row, incoming, out=row)
            passing = incoming


def tree_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Reduce up a binomial tree to rank 0 of the group, and broadcast down the same.

    All ranks together send 2 (P-1) S, an optimal total; rank 0 sends and receives
    ceil(log2 P) S. All ranks end with the same bits.
    """
    rank, world_size = place(group)
    below = children(rank, world_size)
    with reducing(tensor, op, world_size) as (row, combine):
        for child in reversed(below):
            incoming = torch.empty_like(row)
            exchange(group, [(incoming, child)])
            combine(row, incoming, out=row)
        if rank:
            exchange(group, sends=[(row, parent(rank))])
            exchange(group, [(row, parent(rank))])
        for child in below:
            exchange(group, sends=[(row, child)])


def recursive_doubling_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Exchange partial results with the rank at distance 1, 2, 4, ...

    With P a power of two each rank sends log2 P S. Else let D be the power of two
    below P: of each of the first P-D pairs (2i, 2i+1), 2i takes the tensor of 2i+1
    first, stands for both, and gives it the result. Both of two ranks combine in the
    order of the ranks, so that all end with the same bits.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = place(group)
    pairs = Pairs(rank, world_size)
    with reducing(tensor, op, world_size) as (row, combine):
        pairs.fold(group, row, combine)
        if pairs.takes_part:
            _double(group, row, pairs, combine)
        pairs.unfold(group, row)


def _double(
    group: dist.ProcessGroup | None, row: torch.Tensor, pairs: Pairs, combine: Combine
) -> None:
    for k in range(pairs.doublings):
        peer = pairs.rank_of(pairs.place ^ 2**k)
        incoming = torch.empty_like(row)
        exchange(group, [(incoming, peer)], [(row, peer)])
        terms = (row, incoming) if pairs.rank < peer else (incoming, row)
        combine(*terms, out=row)


def halving_doubling_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Swap halves with the rank at distance 1, 2, 4, ..., and go the same way back.

    What is kept, a half each time, is combined on the way there and exchanged on the
    way back. With P a power of two each rank sends 2 (P-1)/P S, which is optimal. Else
    there are as many chunks as the power of two below P, and pairs of ranks as in
    `recursive_doubling_all_reduce`; whoever stands for one sends and receives S more.
    Each chunk is finished by one rank: all end with the same bits.
    Source: Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = place(group)
    pairs = Pairs(rank, world_size)
    with reducing(tensor, op, world_size) as (row, combine):
        pairs.fold(group, row, combine)
        if pairs.takes_part:
            _halve_and_double(group, row, pairs, combine)
        pairs.unfold(group, row)


def _halve_and_double(
    group: dist.ProcessGroup | None, row: torch.Tensor, pairs: Pairs, combine: Combine
) -> None:
    chunks = row.tensor_split(2**pairs.doublings)
    edges = [0, *accumulate(chunk.numel() for chunk in chunks)]
    first, way = 0, []
    for k in range(pairs.doublings):
        half = len(chunks) >> (k + 1)
        lower, upper = (row[edges[n] : edges[n + half]] for n in (first, first + half))
        is_upper = pairs.place >> k & 1
        kept, given = (upper, lower) if is_upper else (lower, upper)
        peer = pairs.rank_of(pairs.place ^ 2**k)
        incoming = torch.empty_like(kept)
        exchange(group, [(incoming, peer)], [(given, peer)])
        combine(kept, incoming, out=kept)
        way.append((peer, kept, given))
        first += half * is_upper
    for peer, kept, given in reversed(way):
        exchange(group, [(given, peer)], [(kept, peer)])

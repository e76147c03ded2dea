"""All-reduce: everyone's tensor, combined at everyone."""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from collectives_lab.algorithms.steps import (
    Combine,
    Pairs,
    children,
    cut,
    exchange,
    in_batches,
    parent,
    place,
    reducing,
    turn,
)
from collectives_lab.basics.nodes import node_size
from collectives_lab.basics.trees import double_tree, first_steps


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


def ring_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    segment: int | None = 2**20,
) -> None:
    """Send partial sums of P chunks round a ring, then the sums.

    In step k of 2(P-1) rank r sends chunk r-1-k to its right, so that it owns chunk r
    of the sum after P-1 steps. segment: bytes of the messages that carry a chunk, so
    that one is received while another is added; None: a chunk in one piece, as always
    by NCCL, which cuts messages itself. Each rank sends 2 (P-1)/P S, which is optimal.
    All ranks end with the same bits. Source: Patarasuk and Yuan 2009.
    """
    rank, world_size = place(group)
    with reducing(tensor, op, world_size) as (row, combine):
        if in_batches(group, row):
            whole = row.tensor_split(world_size)
            for k in range(2 * (world_size - 1)):
                turn(group, range(world_size), whole, k, combine)
            return
        chunks = [cut(chunk, segment) for chunk in row.tensor_split(world_size)]
        hops = [chunks[(rank - 1 - k) % world_size] for k in range(2 * world_size - 1)]
        if world_size > 1:
            _go_round(group, hops, combine)


AHEAD = 2
"""Receives that are posted before the first of them is needed; more fill the caches."""


def _go_round(
    group: dist.ProcessGroup | None, hops: list[list[torch.Tensor]], combine: Combine
) -> None:
    """Send hops[k] while hops[k+1] comes in: half of them to add, half to keep."""
    left, right = _neighbours(group)
    parts = [part for hop in hops[1:] for part in hop]
    added = sum(map(len, hops[1 : len(hops) // 2 + 1]))
    passed_on = len(parts) - len(hops[-1])
    longest = max(map(torch.numel, parts), default=0)
    buffers = [part.new_empty(longest) for part in parts[: min(AHEAD, added)]]

    def receive(n: int) -> tuple[torch.Tensor, Any]:
        part = parts[n]
        into = buffers[n % AHEAD][: part.numel()] if n < added else part
        return into, dist.irecv(into, left, group)

    ahead = deque(map(receive, range(len(parts))[:AHEAD]))
    sent: list[Any] = [dist.isend(part, right, group) for part in hops[0]]
    for n, part in enumerate(parts):
        into, work = ahead.popleft()
        work.wait()
        if n < added:
            combine(part, into, out=part)
        if n < passed_on:
            sent.append(dist.isend(part, right, group))
        if n + AHEAD < len(parts):
            ahead.append(receive(n + AHEAD))
    for work in sent:
        work.wait()


def _neighbours(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """The ranks of the world at the left and at the right."""
    rank, world_size = place(group)
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    return ranks[rank - 1], ranks[(rank + 1) % world_size]


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


def double_tree_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    segment: int | None = None,
) -> None:
    """Send half of the data up and down one tree, half of it another.

    Each rank is an inner node of one tree and a leaf of the other, so that with many
    segments all ports are always busy. segment: bytes of the messages that carry a
    half, one behind the other; None: a half in one piece. A rank sends at most 2 S, of
    S rounded up to even halves, and all ranks together 2 (P-1) S, an optimal total.
    All ranks end with the same bits.
    Source: Sanders, Speck and Traeff 2009.
    """
    _, world_size = place(group)
    with reducing(tensor, op, world_size) as (row, combine):
        parts = [cut(half, segment) for half in row.tensor_split(2)]
        edges = _edges(world_size, parts)
        end = max((edge.end for edge in edges), default=0)
        _up_and_down(group, edges, end, combine)


class Edge(NamedTuple):
    """Child and parent in a tree, the first step of the edge, and what moves along."""

    child: int
    parent: int
    first: int
    parts: list[torch.Tensor]

    @property
    def end(self) -> int:
        """The step after its last: a part moves every other step."""
        return self.first + 2 * len(self.parts) - 1


def _edges(world_size: int, parts: list[list[torch.Tensor]]) -> list[Edge]:
    parents = double_tree(world_size)
    first = first_steps(parents)
    return [
        Edge(rank, above, first[tree][rank], parts[tree])
        for tree in (0, 1)
        for rank, above in enumerate(parents[tree])
        if above is not None
    ]


def _up_and_down(
    group: dist.ProcessGroup | None, edges: list[Edge], end: int, combine: Combine
) -> None:
    """Take the steps of this rank; down is up in a mirror, its parts in order again."""
    rank, _ = place(group)
    mine = [edge for edge in edges if rank in (edge.child, edge.parent)]
    for k in range(2 * end):
        is_up = k < end
        receives, sends = [], []
        for child, above, first, parts in mine:
            ahead = (k if is_up else 2 * end - 1 - k) - first
            if ahead % 2 == 0 and 0 <= ahead < 2 * len(parts):
                part = parts[ahead // 2 if is_up else -1 - ahead // 2]
                src, dst = (child, above) if is_up else (above, child)
                if rank == src:
                    sends.append((part, dst))
                else:
                    receives.append((part, src))
        if is_up:
            incoming = [(torch.empty_like(part), src) for part, src in receives]
            exchange(group, incoming, sends)
            for (part, _), (came, _) in zip(receives, incoming, strict=True):
                combine(part, came, out=part)
        else:
            exchange(group, receives, sends)


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


def hierarchical_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    ranks_per_node: int | None = None,
) -> None:
    """Reduce-scatter in the node, all-reduce across nodes, all-gather in the node.

    All three are rings; across nodes it is one ring for each place in a node, over the
    chunk that this place owns. ranks_per_node: consecutive ranks that are one node, G;
    a divisor of the world size. None: the smallest that makes no more nodes than there
    are ranks in one. Each rank sends 2 (P-1)/P S, which is optimal, of which
    2 (P/G-1)/P S leave the node. All ranks end with the same bits.
    Raises ValueError where ranks_per_node does not divide the world size.
    """
    rank, world_size = place(group)
    try:
        size = node_size(world_size, ranks_per_node)
    except ValueError as error:
        raise ValueError(f"rank {rank}: {error}") from None
    first, own = rank // size * size, rank % size
    node, across = range(first, first + size), range(own, world_size, size)
    with reducing(tensor, op, world_size) as (row, combine):
        chunks = row.tensor_split(size)
        owned = chunks[own].tensor_split(len(across))
        for k in range(size - 1):
            turn(group, node, chunks, k, combine)
        for k in range(2 * (len(across) - 1)):
            turn(group, across, owned, k, combine)
        for k in range(size - 1, 2 * (size - 1)):
            turn(group, node, chunks, k, combine)

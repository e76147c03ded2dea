"""All-reduce: the tensors of all ranks, combined on every rank."""

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
    exchange,
    needs_batching,
    parent,
    rank_and_size,
    reducing,
    ring_step,
    split_segments,
)
from collectives_lab.basics.nodes import node_size
from collectives_lab.basics.trees import double_tree, first_steps


def naive_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send the whole tensor to every rank, and combine all in the order of the ranks.

    Each rank sends (P-1) S, P/2 times the optimum, and holds P tensors. All ranks end
    with the same bits.
    """
    rank, world_size = rank_and_size(group)
    with reducing(tensor, op, world_size) as (row, combine):
        tensors = [row.clone() for _ in range(world_size)]
        for k in range(1, world_size):
            source, target = (rank - k) % world_size, (rank + k) % world_size
            exchange(group, [(tensors[source], source)], [(row, target)])
        row.copy_(tensors[0])
        for other in tensors[1:]:
            combine(row, other, out=row)


def whole_ring_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send whole tensors round a ring, and add each one that arrives.

    Each rank sends (P-1) S, P/2 times the optimum. Every rank adds in a different
    order, so with floating-point numbers ranks may end with different bits.
    """
    rank, world_size = rank_and_size(group)
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

    In step k of 2(P-1) rank r sends chunk r-1-k to its right, so it owns chunk r of the
    sum after P-1 steps. segment: bytes of the messages that carry a chunk, so that one
    segment is received while another is added; None sends a chunk in one piece, as is
    always done with NCCL, which cuts messages itself. Each rank sends 2 (P-1)/P S,
    which is optimal. All ranks end with the same bits.
    Source: Patarasuk and Yuan 2009.
    """
    rank, world_size = rank_and_size(group)
    with reducing(tensor, op, world_size) as (row, combine):
        chunks = row.tensor_split(world_size)
        if needs_batching(group, row):
            for k in range(2 * (world_size - 1)):
                ring_step(group, range(world_size), chunks, k, combine)
            return
        segments = [split_segments(chunk, segment) for chunk in chunks]
        hops = [
            segments[(rank - 1 - k) % world_size] for k in range(2 * world_size - 1)
        ]
        if world_size > 1:
            _pass_segments(group, hops, combine)


RECEIVES_AHEAD = 2
"""Receives posted before the first of them is needed; more would fill the caches."""


def _pass_segments(
    group: dist.ProcessGroup | None, hops: list[list[torch.Tensor]], combine: Combine
) -> None:
    """Send hops[k] while hops[k+1] arrives: the first half is added, the rest kept."""
    left, right = _neighbours(group)
    segments = [segment for hop in hops[1:] for segment in hop]
    to_reduce = sum(map(len, hops[1 : len(hops) // 2 + 1]))
    to_forward = len(segments) - len(hops[-1])
    longest = max(map(torch.numel, segments), default=0)
    count = min(RECEIVES_AHEAD, to_reduce)
    buffers = [segment.new_empty(longest) for segment in segments[:count]]

    def receive(number: int) -> tuple[torch.Tensor, Any]:
        segment = segments[number]
        received = segment
        if number < to_reduce:
            received = buffers[number % RECEIVES_AHEAD][: segment.numel()]
        return received, dist.irecv(received, left, group)

    posted = deque(map(receive, range(len(segments))[:RECEIVES_AHEAD]))
    sends: list[Any] = [dist.isend(segment, right, group) for segment in hops[0]]
    for number, segment in enumerate(segments):
        received, work = posted.popleft()
        work.wait()
        if number < to_reduce:
            combine(segment, received, out=segment)
        if number < to_forward:
            sends.append(dist.isend(segment, right, group))
        if number + RECEIVES_AHEAD < len(segments):
            posted.append(receive(number + RECEIVES_AHEAD))
    for work in sends:
        work.wait()


def _neighbours(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """Return the global ranks of the left and the right neighbour in the ring."""
    rank, world_size = rank_and_size(group)
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    return ranks[rank - 1], ranks[(rank + 1) % world_size]


def tree_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Reduce up a binomial tree to rank 0 of the group, and broadcast down that tree.

    All ranks together send 2 (P-1) S, an optimal total; rank 0 sends and receives
    ceil(log2 P) S. All ranks end with the same bits.
    """
    rank, world_size = rank_and_size(group)
    tree_children = children(rank, world_size)
    with reducing(tensor, op, world_size) as (row, combine):
        for child in reversed(tree_children):
            incoming = torch.empty_like(row)
            exchange(group, [(incoming, child)])
            combine(row, incoming, out=row)
        if rank:
            exchange(group, sends=[(row, parent(rank))])
            exchange(group, [(row, parent(rank))])
        for child in tree_children:
            exchange(group, sends=[(row, child)])


def double_tree_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    segment: int | None = None,
) -> None:
    """Send half of the data up and down one tree, the other half along a second tree.

    Each rank is an inner node of one tree and a leaf of the other, so with many
    segments all ports are always busy. segment: bytes of the messages that carry a
    half one after another; None sends a half in one piece. A rank sends at most 2 S,
    with S rounded up to even halves, and all ranks together send 2 (P-1) S, an optimal
    total.
    All ranks end with the same bits.
    Source: Sanders, Speck and Traeff 2009.
    """
    _, world_size = rank_and_size(group)
    with reducing(tensor, op, world_size) as (row, combine):
        segments = [split_segments(half, segment) for half in row.tensor_split(2)]
        edges = _edges(world_size, segments)
        end = max((edge.end_step for edge in edges), default=0)
        _up_and_down(group, edges, end, combine)


class Edge(NamedTuple):
    """An edge of a tree: its two ranks, its first step, and the segments it carries."""

    child: int
    parent: int
    first_step: int
    segments: list[torch.Tensor]

    @property
    def end_step(self) -> int:
        """Return the step after the last one; a segment moves in every other step."""
        return self.first_step + 2 * len(self.segments) - 1


def _edges(world_size: int, segments: list[list[torch.Tensor]]) -> list[Edge]:
    """Return the edges of both trees; segments: those of each half of the data."""
    parents = double_tree(world_size)
    first_step = first_steps(parents)
    return [
        Edge(rank, tree_parent, first_step[tree][rank], segments[tree])
        for tree in (0, 1)
        for rank, tree_parent in enumerate(parents[tree])
        if tree_parent is not None
    ]


def _up_and_down(
    group: dist.ProcessGroup | None, edges: list[Edge], end_step: int, combine: Combine
) -> None:
    """Take this rank's steps: up to the roots, then the mirror image down.

    On the way down the edges are used in the opposite order, but their segments in the
    same order as on the way up.
    """
    rank, _ = rank_and_size(group)
    own_edges = [edge for edge in edges if rank in (edge.child, edge.parent)]
    for step in range(2 * end_step):
        is_reduce = step < end_step
        receives, sends = [], []
        for child, tree_parent, first_step, segments in own_edges:
            elapsed = (step if is_reduce else 2 * end_step - 1 - step) - first_step
            if elapsed % 2 == 0 and 0 <= elapsed < 2 * len(segments):
                segment = segments[elapsed // 2 if is_reduce else -1 - elapsed // 2]
                src, dst = (child, tree_parent) if is_reduce else (tree_parent, child)
                if rank == src:
                    sends.append((segment, dst))
                else:
                    receives.append((segment, src))
        if is_reduce:
            incoming = [(torch.empty_like(segment), src) for segment, src in receives]
            exchange(group, incoming, sends)
            for (segment, _), (received, _) in zip(receives, incoming, strict=True):
                combine(segment, received, out=segment)
        else:
            exchange(group, receives, sends)


def recursive_doubling_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Exchange partial results with the rank at distance 1, 2, 4, ...

    With P a power of two each rank sends log2 P S. Else let D be the power of two
    below P: in each of the first P-D pairs (2i, 2i+1), rank 2i receives the tensor of
    2i+1 first, exchanges for both of them, and sends 2i+1 the result. Two ranks that
    exchange combine in the order of the ranks, so all ranks end with the same bits.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = rank_and_size(group)
    pairs = Pairs(rank, world_size)
    with reducing(tensor, op, world_size) as (row, combine):
        pairs.fold(group, row, combine)
        if pairs.is_active:
            _double(group, row, pairs, combine)
        pairs.unfold(group, row)


def _double(
    group: dist.ProcessGroup | None, row: torch.Tensor, pairs: Pairs, combine: Combine
) -> None:
    """Exchange and combine whole rows among the active ranks."""
    for k in range(pairs.doublings):
        peer = pairs.rank_at(pairs.active_index ^ 2**k)
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

    A rank combines the half that it keeps on the way there, and sends it on the way
    back. With P a power of two each rank sends 2 (P-1)/P S, which is optimal. Else
    there are as many chunks as the power of two below P, and pairs of ranks as in
    `recursive_doubling_all_reduce`; the first of a pair sends and receives S more. Each
    chunk is finished by one rank, so all ranks end with the same bits.
    Source: Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = rank_and_size(group)
    pairs = Pairs(rank, world_size)
    with reducing(tensor, op, world_size) as (row, combine):
        pairs.fold(group, row, combine)
        if pairs.is_active:
            _halve_and_double(group, row, pairs, combine)
        pairs.unfold(group, row)


def _halve_and_double(
    group: dist.ProcessGroup | None, row: torch.Tensor, pairs: Pairs, combine: Combine
) -> None:
    """Reduce-scatter the row by halves among the active ranks, then all-gather it."""
    chunks = row.tensor_split(2**pairs.doublings)
    edges = [0, *accumulate(chunk.numel() for chunk in chunks)]
    first_chunk, exchanges = 0, []
    for k in range(pairs.doublings):
        half = len(chunks) >> (k + 1)
        lower, upper = (
            row[edges[n] : edges[n + half]] for n in (first_chunk, first_chunk + half)
        )
        is_upper = pairs.active_index >> k & 1
        kept, sent = (upper, lower) if is_upper else (lower, upper)
        peer = pairs.rank_at(pairs.active_index ^ 2**k)
        incoming = torch.empty_like(kept)
        exchange(group, [(incoming, peer)], [(sent, peer)])
        combine(kept, incoming, out=kept)
        exchanges.append((peer, kept, sent))
        first_chunk += half * is_upper
    for peer, kept, sent in reversed(exchanges):
        exchange(group, [(sent, peer)], [(kept, peer)])


def hierarchical_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    ranks_per_node: int | None = None,
) -> None:
    """Reduce-scatter in the node, all-reduce across nodes, all-gather in the node.

    All three are rings. Across nodes there is one ring for each local rank, over the
    chunk that this local rank owns. ranks_per_node: G, the consecutive ranks that form
    a node; a divisor of the world size. None takes the smallest G that makes no more
    nodes than there are ranks in one. Each rank sends 2 (P-1)/P S, which is optimal, of
    which 2 (P/G-1)/P S leave the node. All ranks end with the same bits.
    Raises ValueError where ranks_per_node does not divide the world size.
    """
    rank, world_size = rank_and_size(group)
    try:
        ranks_per_node = node_size(world_size, ranks_per_node)
    except ValueError as error:
        raise ValueError(f"rank {rank}: {error}") from None
    local_rank = rank % ranks_per_node
    node = range(rank - local_rank, rank - local_rank + ranks_per_node)
    peers = range(local_rank, world_size, ranks_per_node)
    with reducing(tensor, op, world_size) as (row, combine):
        chunks = row.tensor_split(ranks_per_node)
        own_pieces = chunks[local_rank].tensor_split(len(peers))
        for k in range(ranks_per_node - 1):
            ring_step(group, node, chunks, k, combine)
        for k in range(2 * (len(peers) - 1)):
            ring_step(group, peers, own_pieces, k, combine)
        for k in range(ranks_per_node - 1, 2 * (ranks_per_node - 1)):
            ring_step(group, node, chunks, k, combine)

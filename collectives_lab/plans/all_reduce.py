"""Plans of all_reduce: the tensors of all ranks, combined on every rank."""

from __future__ import annotations

import numpy as np

from collectives_lab.basics.nodes import node_size
from collectives_lab.basics.trees import double_tree, first_steps
from collectives_lab.plans.steps import (
    Steps,
    check,
    pairs_of,
    ring_step,
    rounds,
    segment_count,
    segments,
    share,
)
from collectives_lab.trace import Trace


def naive_all_reduce(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps: in step k every rank sends its whole tensor to rank+k.

    Each rank sends (P-1) S, P/2 times the optimum.
    """
    check(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size, world_size * (world_size - 1))
    for k in range(1, world_size):
        steps.step(rank, (rank + k) % world_size, nbytes)
    return steps.trace()


def whole_ring_all_reduce(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps in which whole tensors travel round a ring.

    Each rank sends (P-1) S, P/2 times the optimum.
    """
    check(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size, world_size * (world_size - 1))
    for _ in range(world_size - 1):
        steps.step(rank, (rank + 1) % world_size, nbytes)
    return steps.trace()


def ring_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1, segment: int | None = None
) -> Trace:
    """Plan a ring reduce-scatter of P chunks, then a ring all-gather of them.

    In step k of 2(P-1) rank r sends chunk r-1-k to its right. With even chunks each
    rank sends 2 (P-1)/P S, which is optimal. segment: bytes of the messages that carry
    a chunk, at least one element; None, as in textbooks, sends a chunk in one piece.
    The default of `algorithms.ring_all_reduce` is 2**20.
    Source: Patarasuk and Yuan 2009.
    """
    chunks = share(check(world_size, nbytes, itemsize), world_size) * itemsize
    longest, hops = int(chunks[0]), 2 * (world_size - 1)
    messages = int((chunks > 0).sum()) * segment_count(longest, segment, itemsize)
    steps = Steps(world_size, hops * messages)
    sizes = segments(longest, segment, itemsize)
    for k in range(hops):
        for number, size in enumerate(sizes):
            segment_sizes = np.clip(chunks - number * sizes[0], 0, size)
            ring_step(steps, np.arange(world_size), segment_sizes, k)
    return steps.trace()


def tree_all_reduce(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan a binomial reduce to rank 0, then a binomial broadcast from it.

    All ranks together send 2 (P-1) S, an optimal total; rank 0 sends and receives
    ceil(log2 P) S.
    """
    check(world_size, nbytes, itemsize)
    steps = Steps(world_size, 2 * (world_size - 1))
    for parents, children, _ in reversed(list(rounds(world_size))):
        steps.step(children, parents, nbytes)
    for parents, children, _ in rounds(world_size):
        steps.step(parents, children, nbytes)
    return steps.trace()


def double_tree_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1, segment: int | None = None
) -> Trace:
    """Plan that half of the data moves up and down one tree, half along a second tree.

    Each rank is an inner node of one tree and a leaf of the other, so with many
    segments all ports are always busy. A rank sends at most 2 S, with S rounded up to
    even halves, and all ranks together send 2 (P-1) S, an optimal total. segment: bytes
    of the messages that carry a half one after another; None sends a half in one piece.
    Source: Sanders, Speck and Traeff 2009.
    """
    halves = (share(check(world_size, nbytes, itemsize), 2) * itemsize).tolist()
    messages = sum(segment_count(half, segment, itemsize) for half in halves)
    steps = Steps(world_size, 2 * (world_size - 1) * messages)
    segment_sizes = [segments(half, segment, itemsize) for half in halves]
    tree, child, parent, first_step = _edges(world_size)
    sizes = np.zeros((2, len(segment_sizes[0]) + 1), dtype=np.int64)
    for row, half_sizes in zip(sizes, segment_sizes, strict=True):
        row[: len(half_sizes)] = half_sizes
    count = np.array([len(p) for p in segment_sizes])[tree]
    end_step = int(np.max(first_step + 2 * count - 1, initial=0))
    for step in range(2 * end_step):
        is_reduce = step < end_step
        # The way down mirrors the way up, but keeps the order of the segments.
        elapsed = (step if is_reduce else 2 * end_step - 1 - step) - first_step
        number = elapsed // 2 if is_reduce else count - 1 - elapsed // 2
        moving = np.flatnonzero(
            (elapsed >= 0) & (elapsed % 2 == 0) & (elapsed < 2 * count)
        )
        src, dst = (child, parent) if is_reduce else (parent, child)
        steps.step(src[moving], dst[moving], sizes[tree[moving], number[moving]])
    return steps.trace()


def _edges(world_size: int) -> np.ndarray:
    """Return four rows: tree, child, parent and first step of all edges."""
    parents = double_tree(world_size)
    first_step = first_steps(parents)
    edges = [
        (tree, rank, parent, first_step[tree][rank])
        for tree in (0, 1)
        for rank, parent in enumerate(parents[tree])
        if parent is not None
    ]
    return np.array(edges, dtype=np.int64).reshape(-1, 4).T


def recursive_doubling_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan exchanges of partial results between ranks at distance 1, 2, 4, ...

    With P a power of two each rank sends log2 P S. Else let D be the power of two
    below P: in each of the first P-D pairs (2i, 2i+1), 2i receives the tensor of 2i+1
    first, exchanges for both, and sends 2i+1 the result.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    check(world_size, nbytes, itemsize)
    active, first, second = pairs_of(world_size)
    doublings = int(world_size).bit_length() - 1
    steps = Steps(world_size, 2 * len(first) + doublings * len(active))
    steps.step(second, first, nbytes)
    for k in range(doublings):
        steps.step(active, active[np.arange(len(active)) ^ 2**k], nbytes)
    steps.step(first, second, nbytes)
    return steps.trace()


def halving_doubling_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan a reduce-scatter by repeated halving, then an all-gather the same way back.

    Ranks exchange at distance 1, 2, 4, ... With P a power of two and even chunks each
    rank sends 2 (P-1)/P S, which is optimal. Else there are as many chunks as the power
    of two below P, and pairs of ranks as in `recursive_doubling_all_reduce`; the first
    of a pair sends and receives S more.
    Source: Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005,
    section 4.
    """
    count = check(world_size, nbytes, itemsize)
    active, first, second = pairs_of(world_size)
    edges = np.concatenate([[0], np.cumsum(share(count, len(active)) * itemsize)])
    index, first_chunk = np.arange(len(active)), np.zeros(len(active), dtype=int)
    exchanges = []
    for k in range(int(world_size).bit_length() - 1):
        width = len(active) >> (k + 1)
        is_upper = index >> k & 1
        sent_chunk = first_chunk + width * (1 - is_upper)
        first_chunk = first_chunk + width * is_upper
        peer = active[index ^ 2**k]
        sizes = (edges[c + width] - edges[c] for c in (sent_chunk, first_chunk))
        exchanges.append([(peer, size) for size in sizes])
    steps = Steps(world_size, 2 * (len(first) + len(exchanges) * len(active)))
    steps.step(second, first, nbytes)
    for (peer, size), _ in exchanges:
        steps.step(active, peer, size)
    for _, (peer, size) in reversed(exchanges):
        steps.step(active, peer, size)
    steps.step(first, second, nbytes)
    return steps.trace()


def hierarchical_all_reduce(
    world_size: int,
    nbytes: int,
    itemsize: int = 1,
    ranks_per_node: int | None = None,
) -> Trace:
    """Plan rings inside of the nodes, and rings across nodes among equal local ranks.

    A node of G ranks reduce-scatters, each of the G chunks is all-reduced across the
    nodes by the ranks that own it, and the node all-gathers. With even chunks each rank
    sends 2 (P-1)/P S, which is optimal, of which 2 (P/G-1)/P S leave its node.
    ranks_per_node: consecutive ranks that form a node; a divisor of world_size. None
    takes the smallest that makes no more nodes than there are ranks in one.
    Raises ValueError where ranks_per_node does not divide world_size.
    """
    count = check(world_size, nbytes, itemsize)
    ranks_per_node = node_size(world_size, ranks_per_node)
    nodes = np.arange(world_size).reshape(-1, ranks_per_node)
    chunks = share(count, ranks_per_node)
    piece_sizes = (
        np.array([share(chunk, len(nodes)) for chunk in chunks.tolist()]) * itemsize
    )
    hops = 2 * (ranks_per_node - 1) + 2 * (len(nodes) - 1)
    steps = Steps(world_size, hops * world_size)
    for k in range(ranks_per_node - 1):
        ring_step(steps, nodes, chunks * itemsize, k)
    for k in range(2 * (len(nodes) - 1)):
        ring_step(steps, nodes.T, piece_sizes, k)
    for k in range(ranks_per_node - 1, 2 * (ranks_per_node - 1)):
        ring_step(steps, nodes, chunks * itemsize, k)
    return steps.trace()

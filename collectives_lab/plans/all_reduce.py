"""Plans of all_reduce: everyone's tensor, combined at everyone."""

from __future__ import annotations

import numpy as np

from collectives_lab.basics.nodes import node_size
from collectives_lab.basics.trees import double_tree, first_steps
from collectives_lab.plans.steps import (
    Steps,
    check,
    rounds,
    segments,
    share,
    standing,
    turn,
)
from collectives_lab.trace import Trace


def naive_all_reduce(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan that everyone sends its whole tensor to everyone, to rank+k in step k.

    Each rank sends (P-1) S, P/2 times the optimum.
    """
    check(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size)
    for k in range(1, world_size):
        steps.step(rank, (rank + k) % world_size, nbytes)
    return steps.trace()


def whole_ring_all_reduce(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan that whole tensors go round a ring in P-1 steps.

    Each rank sends (P-1) S, P/2 times the optimum.
    """
    check(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size)
    for _ in range(world_size - 1):
        steps.step(rank, (rank + 1) % world_size, nbytes)
    return steps.trace()


def ring_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1, segment: int | None = None
) -> Trace:
    """Plan a ring reduce-scatter of P chunks, then a ring all-gather of them.

    In step k of 2(P-1) rank r sends chunk r-1-k to its right. With even chunks each
    rank sends 2 (P-1)/P S, which is optimal. segment: bytes of the messages that carry
    a chunk, at least one element; None, as the textbooks have it, sends a chunk in one
    piece. `algorithms.ring_all_reduce` has 2**20 unless it is told otherwise.
    Source: Patarasuk and Yuan 2009.
    """
    chunks = share(check(world_size, nbytes, itemsize), world_size) * itemsize
    sizes = segments(int(chunks[0]), segment, itemsize)
    steps = Steps(world_size)
    for k in range(2 * (world_size - 1)):
        for n, size in enumerate(sizes):
            pieces = np.clip(chunks - n * sizes[0], 0, size)
            turn(steps, np.arange(world_size), pieces, k)
    return steps.trace()


def tree_all_reduce(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan a binomial reduce to rank 0, then a binomial broadcast from it.

    All ranks together send 2 (P-1) S, an optimal total; rank 0 sends and receives
    ceil(log2 P) S.
    """
    check(world_size, nbytes, itemsize)
    steps = Steps(world_size)
    for above, below, _ in reversed(list(rounds(world_size))):
        steps.step(below, above, nbytes)
    for above, below, _ in rounds(world_size):
        steps.step(above, below, nbytes)
    return steps.trace()


def double_tree_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1, segment: int | None = None
) -> Trace:
    """Plan that half of the data goes up and down one tree, half of it another.

    Each rank is an inner node of one tree and a leaf of the other, so that with many
    segments all ports are always busy. A rank sends at most 2 S, of S rounded up to
    even halves, and all ranks together 2 (P-1) S, an optimal total. segment: bytes of
    the messages that carry a half, one behind the other; None sends a half in one
    piece.
    Source: Sanders, Speck and Traeff 2009.
    """
    halves = share(check(world_size, nbytes, itemsize), 2) * itemsize
    pieces = [segments(half, segment, itemsize) for half in halves.tolist()]
    tree, child, parent, first = _edges(world_size)
    sizes = np.zeros((2, len(pieces[0]) + 1), dtype=np.int64)
    for row, piece in zip(sizes, pieces, strict=True):
        row[: len(piece)] = piece
    count = np.array([len(p) for p in pieces])[tree]
    end = int(np.max(first + 2 * count - 1, initial=0))
    steps = Steps(world_size)
    for k in range(2 * end):
        is_up = k < end
        # The way down is the way up in a mirror, with the segments in order again.
        ahead = (k if is_up else 2 * end - 1 - k) - first
        number = ahead // 2 if is_up else count - 1 - ahead // 2
        moves = np.flatnonzero((ahead >= 0) & (ahead % 2 == 0) & (ahead < 2 * count))
        src, dst = (child, parent) if is_up else (parent, child)
        steps.step(src[moves], dst[moves], sizes[tree[moves], number[moves]])
    return steps.trace()


def _edges(world_size: int) -> np.ndarray:
    """Tree, child, parent and first step of each edge of both trees, as rows."""
    parents = double_tree(world_size)
    first = first_steps(parents)
    edges = [
        (tree, rank, above, first[tree][rank])
        for tree in (0, 1)
        for rank, above in enumerate(parents[tree])
        if above is not None
    ]
    return np.array(edges, dtype=np.int64).reshape(-1, 4).T


def recursive_doubling_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan that pairs at distance 1, 2, 4, ... exchange their partial results.

    With P a power of two each rank sends log2 P S. Else let D be the power of two
    below P: of each of the first P-D pairs (2i, 2i+1), 2i takes the tensor of 2i+1
    first, stands for both, and gives it the result.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    check(world_size, nbytes, itemsize)
    place, stands, folded = standing(world_size)
    steps = Steps(world_size)
    steps.step(folded, stands, nbytes)
    for k in range(int(world_size).bit_length() - 1):
        steps.step(place, place[np.arange(len(place)) ^ 2**k], nbytes)
    steps.step(stands, folded, nbytes)
    return steps.trace()


def halving_doubling_all_reduce(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan a reduce-scatter by halves of what is left, then the same way back.

    Pairs are at distance 1, 2, 4, ... With P a power of two and even chunks each rank
    sends 2 (P-1)/P S, which is optimal. Else there are as many chunks as the power of
    two below P, and pairs of ranks as in `recursive_doubling_all_reduce`; whoever
    stands for a pair sends and receives S more.
    Source: Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005,
    section 4.
    """
    count = check(world_size, nbytes, itemsize)
    place, stands, folded = standing(world_size)
    edges = np.concatenate([[0], np.cumsum(share(count, len(place)) * itemsize)])
    v, first, way = np.arange(len(place)), np.zeros(len(place), dtype=int), []
    for k in range(int(world_size).bit_length() - 1):
        width = len(place) >> (k + 1)
        is_upper = v >> k & 1
        given, first = first + width * (1 - is_upper), first + width * is_upper
        partner = place[v ^ 2**k]
        way.append([(partner, edges[c + width] - edges[c]) for c in (given, first)])
    steps = Steps(world_size)
    steps.step(folded, stands, nbytes)
    for (partner, size), _ in way:
        steps.step(place, partner, size)
    for _, (partner, size) in reversed(way):
        steps.step(place, partner, size)
    steps.step(stands, folded, nbytes)
    return steps.trace()


def hierarchical_all_reduce(
    world_size: int,
    nbytes: int,
    itemsize: int = 1,
    ranks_per_node: int | None = None,
) -> Trace:
    """Plan rings inside of the nodes, and across them among ranks of the same place.

    A node of G ranks reduce-scatters, each of the G chunks is all-reduced across the
    nodes by the ranks that own it, and the node all-gathers. With even chunks each rank
    sends 2 (P-1)/P S, which is optimal, of which 2 (P/G-1)/P S leave its node.
    ranks_per_node: consecutive ranks that are one node; a divisor of world_size. None:
    the smallest that makes no more nodes than there are ranks in one.
    Raises ValueError where it does not divide world_size.
    """
    count = check(world_size, nbytes, itemsize)
    size = node_size(world_size, ranks_per_node)
    nodes = np.arange(world_size).reshape(-1, size)
    chunks = share(count, size)
    across = np.array([share(c, len(nodes)) for c in chunks.tolist()]) * itemsize
    steps = Steps(world_size)
    for k in range(size - 1):
        turn(steps, nodes, chunks * itemsize, k)
    for k in range(2 * (len(nodes) - 1)):
        turn(steps, nodes.T, across, k)
    for k in range(size - 1, 2 * (size - 1)):
        turn(steps, nodes, chunks * itemsize, k)
    return steps.trace()

"""The plan of an all_reduce over two binary trees at once.

Here: `double_tree_all_reduce`.
"""

from __future__ import annotations

import numpy as np

from collectives_lab.basics.trees import double_tree, first_steps
from collectives_lab.plans.steps import Steps, check, segments, share
from collectives_lab.trace import Trace


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

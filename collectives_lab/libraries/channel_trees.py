"""NCCL's trees over the servers of a machine, and PAT.

NCCL has a double binary tree over the servers, with a chain inside of each. The head of
the chain, which speaks with other servers, is another GPU in each channel. What two
channels have between the same two ranks in a step is one message here.

Source: NCCL 2.30.7: src/graph/connect.cc (`connectTrees`), src/graph/trees.cc
(`ncclGetDtree`), src/graph/search.cc (the pattern of a tree), src/device/all_reduce.h
(`runTreeSplit`: sums go up while others come down).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from collectives_lab.basics.trees import Parents, nccl_trees
from collectives_lab.libraries.calls import Call, in_flight
from collectives_lab.libraries.channels import (
    chain_up_and_down,
    chains,
    count,
    cut,
    segment,
    shares,
)
from collectives_lab.plans import double_tree_all_reduce
from collectives_lab.plans.steps import Steps
from collectives_lab.trace import Trace

UNDER_WAY = 2
"""Steps of a tree that a rank has under way at a time."""


class Merged(Steps):
    """Steps in which all that a rank sends to another in one step is one message."""

    def step(self, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike) -> None:
        pair = np.asarray(src, np.int64) * self.world_size + np.asarray(dst, np.int64)
        pairs, index = np.unique(pair, return_inverse=True)
        total = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(total, index, np.asarray(nbytes, np.int64))
        super().step(pairs // self.world_size, pairs % self.world_size, total)


def _table(rows: list[list[int]]) -> np.ndarray:
    """Return rows of numbers as a table, with zeros at the end of shorter ones."""
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows], np.int64)


def tree(call: Call) -> Trace:
    """Plan double trees over servers: a chain inside, half of a channel up each tree.

    Segments follow each other, and what is up comes down while others move up. Ranks at
    a distance of one are `UNDER_WAY` steps apart, so that the latency of a message is
    hidden behind that of others. Where a port is busy for all of a latency nothing can
    be hidden, and over servers of one GPU the double tree of the book is as good.
    """
    sizes = call.world_size, call.nbytes, call.itemsize
    if len(call.servers) == 1:
        return chain_up_and_down(call)
    if len(call.servers) == call.world_size and call.fabric.across.gap is None:
        return double_tree_all_reduce(*sizes, segment=segment(call))
    halves = shares(call, 2).ravel().tolist()
    table = _table([cut(half, call) for half in halves])
    src, dst, start, number = _edges(call)
    plan = Merged(call.world_size)
    for step in range(int(start.max()) + table.shape[1]):
        moving = (start <= step) & (step < start + table.shape[1])
        nbytes = table[number[moving], step - start[moving]]
        plan.step(src[moving], dst[moving], nbytes)
    return in_flight(plan.trace(), UNDER_WAY)


def _edges(call: Call) -> np.ndarray:
    """Return four rows: src, dst, first step and tree of all edges, up and down."""
    edges = []
    for c in range(count(call)):
        for which, parents in enumerate(_parents(chains(call, c), call.world_size)):
            depth, height = _levels(parents)
            top = max(height)
            for rank, parent in enumerate(parents):
                if parent is not None:
                    up, down = height[rank], top + depth[rank] - 1
                    tree = 2 * c + which
                    edges.append((rank, parent, UNDER_WAY * up, tree))
                    edges.append((parent, rank, UNDER_WAY * down, tree))
    return np.array(edges, dtype=np.int64).T


def _levels(parents: Parents) -> tuple[list[int], list[int]]:
    """Return the distance of each rank from the root and from its farthest leaf."""
    depth, height = [], [0] * len(parents)
    for rank in range(len(parents)):
        above, levels = rank, 0
        while (parent := parents[above]) is not None:
            above, levels = parent, levels + 1
            height[above] = max(height[above], levels)
        depth.append(levels)
    return depth, height


def _parents(chains: list[np.ndarray], world_size: int) -> tuple[Parents, Parents]:
    """Return by tree the parent of each rank: the one before it, or another server's.

    The first rank of a chain is the one that speaks with other servers.
    """
    heads = [int(chain[0]) for chain in chains]
    both = []
    for over_servers in nccl_trees(len(chains)):
        parents: Parents = [None] * world_size
        for ranks, head, parent in zip(chains, heads, over_servers, strict=True):
            for before, rank in pairwise(ranks.tolist()):
                parents[rank] = before
            parents[head] = None if parent is None else heads[parent]
        both.append(parents)
    return both[0], both[1]


def parallel_trees(call: Call) -> Trace:
    """Plan PAT: shares move the farthest first, so that the longest way carries least.

    In each step every rank sends on all that it has and the receiver lacks, half as far
    as before: all_gather. reduce_scatter is its mirror image in time. NCCL cuts shares
    that exceed its buffers into pieces, which move the same bytes.
    Source: NCCL 2.30.7, src/include/collectives.h (`PatAGAlgorithm`); Jeaugey 2025,
    "PAT: a new algorithm for all-gather and reduce-scatter operations at scale".
    """
    p, rank = call.world_size, np.arange(call.world_size)
    distances = [2**k for k in reversed(range(int(p - 1).bit_length()))]
    plan = Steps(p)
    if call.verb == "all_gather":
        for far in distances:
            sent = len(range(far, p, 2 * far))
            plan.step(rank, (rank - far) % p, sent * (call.nbytes // p))
    else:
        for far in reversed(distances):
            sent = len(range(far, p, 2 * far))
            plan.step(rank, (rank + far) % p, sent * (call.nbytes // p))
    return plan.trace()

"""Trees of Open MPI, along which whole tensors move, and its butterfly.

Here you can plan a broadcast `down` a tree and a reduce `up` one, with their seconds,
the split binary tree (`split`), neighbour exchange (`neighbour`) and the `butterfly`.
Relative ranks count from the root. Sources: Open MPI 5.0.10, ompi/mca/coll/base:
coll_base_topo.c, coll_base_bcast.c, coll_base_allgather.c (Chen et al. 2005, neighbour
exchange), coll_base_reduce_scatter_block.c (Traeff 2005, the butterfly).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from collectives_lab.libraries.calls import Algorithm, Call
from collectives_lab.plans.steps import Steps
from collectives_lab.trace import Trace

Children = list[list[int]]
"""The children of each relative rank, in the order in which it sends to them."""

RADIX = 4
"""Of the k-nomial tree: `coll_tuned_bcast_knomial_radix`."""


def line(world_size: int) -> Children:
    """Return the one child of each rank in a chain."""
    return [[v + 1] for v in range(world_size - 1)] + [[]]


def binary(world_size: int) -> Children:
    """Return the children in a binary tree: odd ranks are below 1 and even below 2."""
    levels = [(v + 1).bit_length() - 1 for v in range(world_size)]
    return [
        [child for child in (v + 2**k, v + 2 ** (k + 1)) if child < world_size]
        for v, k in enumerate(levels)
    ]


def knomial(world_size: int) -> Children:
    """Return the children in a 4-nomial tree, the farthest first."""
    all_children: Children = []
    for v in range(world_size):
        distance = 1
        while distance < world_size and v % (RADIX * distance) == 0:
            distance *= RADIX
        children = []
        while distance > 1:
            distance //= RADIX
            children += [v + distance * k for k in range(1, RADIX)]
        all_children.append([child for child in children if child < world_size])
    return all_children


def _levels(children: Children) -> list[tuple[list[int], list[int]]]:
    """Return the parents and children of each level, from the root down."""
    levels, above = [], [0]
    while below := [(v, child) for v in above for child in children[v]]:
        levels.append(([v for v, _ in below], [child for _, child in below]))
        above = levels[-1][1]
    return levels


def _reached(children: Children, message: float) -> list[float]:
    """Return when each rank has what the root sends down, a message each time."""
    times = [0.0] * len(children)
    for parents, below in _levels(children):
        for parent, child in zip(parents, below, strict=True):
            times[child] = times[parent] + message * (1 + children[parent].index(child))
    return times


def down(tree: Callable[[int], Children]) -> Algorithm:
    """Return the broadcast in which each rank sends all to its children."""

    def plan(call: Call) -> Trace:
        p, steps = call.world_size, Steps(call.world_size)
        for parents, children in _levels(tree(p)):
            src, dst = (np.array(parents) + call.root, np.array(children) + call.root)
            steps.step(src % p, dst % p, call.nbytes)
        return steps.trace()

    def seconds(call: Call) -> float:
        message = call.link.time(call.nbytes)
        return max(_reached(tree(call.world_size), message))

    return Algorithm(plan, seconds)


def up(tree: Callable[[int], Children]) -> Algorithm:
    """Return the reduce in which each rank receives from its children, then sends."""

    def plan(call: Call) -> Trace:
        p, steps = call.world_size, Steps(call.world_size)
        for parents, children in reversed(_levels(tree(p))):
            src, dst = (np.array(children) + call.root, np.array(parents) + call.root)
            steps.step(src % p, dst % p, call.nbytes)
        return steps.trace()

    def seconds(call: Call) -> float:
        message = call.link.time(call.nbytes)
        children = tree(call.world_size)
        ready = [0.0] * call.world_size
        for parents, _ in reversed(_levels(children)):
            for v in set(parents):
                for begin in sorted(ready[child] for child in children[v]):
                    ready[v] = max(ready[v], begin) + message
        return ready[0]

    return Algorithm(plan, seconds)


def _split_plan(call: Call) -> Trace:
    """Plan that half of the tensor goes to odd ranks and half to even, which swap.

    Without a partner the last rank has its second half from the root.
    """
    p, count = call.world_size, call.nbytes // call.itemsize
    halves = np.array([count - count // 2, count // 2]) * call.itemsize
    steps = Steps(p)

    def step(src: np.ndarray, dst: np.ndarray, nbytes: np.ndarray) -> None:
        steps.step((src + call.root) % p, (dst + call.root) % p, nbytes)

    for parents, children in _levels(binary(p)):
        dst = np.array(children)
        step(np.array(parents), dst, halves[(dst + 1) % 2])
    odd, even = np.arange(1, p, 2), np.arange(1, p, 2) + 1
    even = np.where(even < p, even, 0)
    paired = even > 0
    src = np.concatenate([odd[paired], even])
    dst = np.concatenate([even[paired], odd])
    sizes = np.repeat(halves, [int(paired.sum()), len(even)])
    step(src, dst, sizes)
    return steps.trace()


def _split_seconds(call: Call) -> float:
    p, message = call.world_size, call.link.time(call.nbytes / 2)
    children = binary(p)
    free = [
        time + message * len(below)
        for time, below in zip(_reached(children, message), children, strict=True)
    ]
    partner = [v + 1 if v + 1 < p else 0 for v in range(1, p, 2)]
    pairs = zip(range(1, p, 2), partner, strict=True)
    return max([*free, *(max(free[v], free[w]) + message for v, w in pairs)])


split = Algorithm(_split_plan, _split_seconds)


def _neighbour_plan(call: Call) -> Trace:
    """Plan neighbour exchange: P/2 steps of swaps, left and right in turn."""
    p, share = call.world_size, call.nbytes // call.world_size
    even = np.arange(0, p, 2)
    steps = Steps(p)
    for k in range(p // 2):
        left, right = (even, even + 1) if k % 2 == 0 else (even + 1, (even + 2) % p)
        src, dst = np.concatenate([left, right]), np.concatenate([right, left])
        steps.step(src, dst, share * min(k + 1, 2))
    return steps.trace()


def _neighbour_seconds(call: Call) -> float:
    p, link = call.world_size, call.link
    return p // 2 * link.alpha + (p - 1) / p * call.nbytes * link.beta


neighbour = Algorithm(_neighbour_plan, _neighbour_seconds)


def _butterfly_plan(call: Call) -> Trace:
    """Plan halvings at distance 1, 2, 4, ..., then each share goes to its rank.

    Of P ranks, D, the power of two at or below, take part: in each of the first P-D
    pairs the second, which has all of the first. A block is the shares of such a pair.
    """
    p, share = call.world_size, call.nbytes // call.world_size
    size = 2 ** (p.bit_length() - 1)
    pairs = p - size
    index = np.arange(size)
    active = np.where(index < pairs, 2 * index + 1, index + pairs)
    edges = np.append(index + np.minimum(index, pairs), p)  # shares before each block
    steps = Steps(p)
    steps.step(active[:pairs] - 1, active[:pairs], call.nbytes)
    first, width = np.zeros(size, dtype=int), size
    for k in range(size.bit_length() - 1):
        width //= 2
        upper = index >> k & 1
        sent, first = first + width * (1 - upper), first + width * upper
        nbytes = (edges[sent + width] - edges[sent]) * share
        steps.step(active, active[index ^ 2**k], nbytes)
    ends = edges[first + 1]
    moved = [
        (rank, owner)
        for rank, begin, end in zip(active, edges[first], ends, strict=True)
        for owner in range(begin, end)
        if owner != rank
    ]
    src, dst = np.array(moved, dtype=int).reshape(-1, 2).T
    steps.step(src, dst, share)
    return steps.trace()


def _butterfly_seconds(call: Call) -> float:
    """Return log2 P halvings and a share to its rank: a bound, exact for D ranks."""
    p, link = call.world_size, call.link
    size = 2 ** (p.bit_length() - 1)
    longest = -(-p // size) * call.nbytes / p
    halvings = (size.bit_length() - 1) * link.alpha + (size - 1) * longest * link.beta
    to_owners = (1 if p == size else 2) * link.time(call.nbytes / p) * (p > 2)
    return halvings + to_owners + (p > size) * link.time(call.nbytes)


butterfly = Algorithm(_butterfly_plan, _butterfly_seconds)


def _doubling_plan(call: Call) -> Trace:
    """Plan exchanges at distance 1, 2, 4, ... of all that a rank has but its own part.

    That part is the shares of the ranks with which it has exchanged so far.
    """
    p, share = call.world_size, call.nbytes // call.world_size
    rank, steps = np.arange(p), Steps(p)
    for k in range(p.bit_length() - 1):
        steps.step(rank, rank ^ 2**k, (p - 2**k) * share)
    return steps.trace()


def _doubling_seconds(call: Call) -> float:
    p, link = call.world_size, call.link
    doublings = p.bit_length() - 1
    tensors = doublings - (p - 1) / p
    return doublings * link.alpha + tensors * call.nbytes * link.beta


doubling = Algorithm(_doubling_plan, _doubling_seconds)
"""Of reduce_scatter, for a power of two of ranks."""

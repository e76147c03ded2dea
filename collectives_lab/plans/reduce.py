"""Plans of reduce: the tensors of all ranks, combined at the root."""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import (
    Steps,
    check,
    check_root,
    ring_step,
    rounds,
    share,
)
from collectives_lab.trace import Trace


def flat_reduce(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan that every other rank sends its whole tensor to the root, one by one.

    Each of them sends S and all together (P-1) S, which is optimal; the root receives
    all of it.
    """
    check(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    for k in range(1, world_size):
        steps.step((root + k) % world_size, root, nbytes)
    return steps.trace()


def binomial_reduce(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan that partial results move up a binomial tree, halving in each round.

    All ranks together send (P-1) S, an optimal total; the root receives
    ceil(log2 P) S.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    check(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    for parents, children, _ in reversed(list(rounds(world_size))):
        steps.step(
            (root + children) % world_size, (root + parents) % world_size, nbytes
        )
    return steps.trace()


def reduce_scatter_gather_reduce(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan a ring reduce-scatter of P chunks, then a direct gather at the root.

    With even chunks the root sends (P-1)/P S and the others S: (P-1) S + (P-1)/P S in
    all, 1 + 1/P times the optimal total.
    Source: Chan, Heimlich, Purkayastha and van de Geijn 2007, the long-vector reduce,
    with a direct gather.
    """
    chunks = share(check(world_size, nbytes, itemsize), world_size) * itemsize
    check_root(world_size, root)
    steps = Steps(world_size, (world_size - 1) * (world_size + 1))
    for k in range(world_size - 1):
        ring_step(steps, np.arange(world_size), chunks, k)
    peers = (root + np.arange(1, world_size)) % world_size
    steps.step(peers, root, chunks[peers])
    return steps.trace()

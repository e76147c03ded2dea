"""Plans of reduce_scatter: everyone's tensors combined, a share of it to each rank."""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps, equal_share, standing, turn
from collectives_lab.trace import Trace


def ring_reduce_scatter(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps in which every rank sends on the partial result it got last.

    nbytes: of the whole input. Each rank sends (P-1)/P S, which is optimal.
    Source: Patarasuk and Yuan 2009.
    """
    each = equal_share(world_size, nbytes, itemsize)
    steps = Steps(world_size)
    for k in range(world_size - 1):
        turn(steps, np.arange(world_size), np.full(world_size, each), k)
    return steps.trace()


def pairwise_reduce_scatter(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps in which rank r sends r+k what it has for it: k = 1, 2, ...

    nbytes: of the whole input. Each rank sends (P-1)/P S, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    each = equal_share(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size)
    for k in range(1, world_size):
        steps.step(rank, (rank + k) % world_size, each)
    return steps.trace()


def recursive_halving_reduce_scatter(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan that pairs at distance P/2, P/4, ... swap the halves they do not keep.

    nbytes: of the whole input. With P a power of two each rank sends (P-1)/P S, which
    is optimal. Else let D be the power of two below P: of each of the first P-D pairs
    (2i, 2i+1), 2i takes all of 2i+1 first, S, stands for both, and gives 2i+1 its
    share at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    each = equal_share(world_size, nbytes, itemsize)
    place, stands, folded = standing(world_size)
    edges = np.append(place, world_size)  # the first share of each that takes part
    v = np.arange(len(place))
    steps = Steps(world_size)
    steps.step(folded, stands, nbytes)
    half = len(place) // 2
    while half:
        first = (v ^ half) // half * half
        size = (edges[first + half] - edges[first]) * each
        steps.step(place, place[v ^ half], size)
        half //= 2
    steps.step(stands, folded, each)
    return steps.trace()

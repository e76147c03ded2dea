"""Plans of reduce_scatter: the tensors of all ranks combined, a share to each."""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps, equal_share, pairs_of, ring_step
from collectives_lab.trace import Trace


def ring_reduce_scatter(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps in which every rank forwards the partial result it received.

    nbytes: of the whole input. Each rank sends (P-1)/P S, which is optimal.
    Source: Patarasuk and Yuan 2009.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    steps = Steps(world_size, world_size * (world_size - 1))
    for k in range(world_size - 1):
        ring_step(steps, np.arange(world_size), np.full(world_size, share_size), k)
    return steps.trace()


def pairwise_reduce_scatter(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps: in step k rank r sends r+k the share that belongs to it.

    nbytes: of the whole input. Each rank sends (P-1)/P S, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size, world_size * (world_size - 1))
    for k in range(1, world_size):
        steps.step(rank, (rank + k) % world_size, share_size)
    return steps.trace()


def recursive_halving_reduce_scatter(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan that ranks at distance P/2, P/4, ... swap the halves they do not keep.

    nbytes: of the whole input. With P a power of two each rank sends (P-1)/P S, which
    is optimal. Else let D be the power of two below P: in each of the first P-D pairs
    (2i, 2i+1), 2i receives the whole input of 2i+1 first, S, exchanges for both, and
    sends 2i+1 its share at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    active, first, second = pairs_of(world_size)
    edges = np.append(active, world_size)  # the first share of each active rank
    index = np.arange(len(active))
    doublings = int(world_size).bit_length() - 1
    steps = Steps(world_size, 2 * len(first) + doublings * len(active))
    steps.step(second, first, nbytes)
    half = len(active) // 2
    while half:
        begin = (index ^ half) // half * half
        size = (edges[begin + half] - edges[begin]) * share_size
        steps.step(active, active[index ^ half], size)
        half //= 2
    steps.step(first, second, share_size)
    return steps.trace()

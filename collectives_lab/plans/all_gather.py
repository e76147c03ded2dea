"""Plans of all_gather: every rank's share to every rank."""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps, all_gather_chunks, equal_share, pairs_of
from collectives_lab.trace import Trace


def ring_all_gather(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps in which every rank sends right the share it received last.

    nbytes: of the whole output. Each rank sends (P-1)/P S, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    steps = Steps(world_size, world_size * (world_size - 1))
    all_gather_chunks(steps, np.full(world_size, share_size))
    return steps.trace()


def recursive_doubling_all_gather(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan exchanges of all shares gathered so far, at distance 1, 2, 4, ...

    nbytes: of the whole output. With P a power of two each rank sends (P-1)/P S, which
    is optimal. Else let D be the power of two below P: in each of the first P-D
    pairs (2i, 2i+1), 2i receives the share of 2i+1 first, exchanges for both, and sends
    2i+1 the whole output, S, at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    active, first, second = pairs_of(world_size)
    index = np.arange(len(active))
    edges = np.append(active, world_size)  # the first share of each active rank
    doublings = int(world_size).bit_length() - 1
    steps = Steps(world_size, 2 * len(first) + doublings * len(active))
    steps.step(second, first, share_size)
    for k in range(doublings):
        begin = index >> k << k
        size = (edges[begin + 2**k] - edges[begin]) * share_size
        steps.step(active, active[index ^ 2**k], size)
    steps.step(first, second, nbytes)
    return steps.trace()


def bruck_all_gather(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan ceil(log2 P) steps; in step k a rank sends its shares to distance -2^k.

    nbytes: of the whole output. The last step sends only the missing shares, so each
    rank sends (P-1)/P S, which is optimal for every P.
    Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size, world_size * int(world_size - 1).bit_length())
    for k in range(int(world_size - 1).bit_length()):
        shares = min(2**k, world_size - 2**k)
        steps.step(rank, (rank - 2**k) % world_size, shares * share_size)
    return steps.trace()

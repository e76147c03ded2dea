"""Plans of all_gather: every rank's share to everyone."""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps, complete, equal_share, standing
from collectives_lab.trace import Trace


def ring_all_gather(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps in which every rank sends to its right what it got last.

    nbytes: of the whole output. Each rank sends (P-1)/P S, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    each = equal_share(world_size, nbytes, itemsize)
    steps = Steps(world_size)
    complete(steps, np.full(world_size, each))
    return steps.trace()


def recursive_doubling_all_gather(
    world_size: int, nbytes: int, itemsize: int = 1
) -> Trace:
    """Plan that pairs at distance 1, 2, 4, ... exchange all that they have.

    nbytes: of the whole output. With P a power of two each rank sends (P-1)/P S, which
    is optimal. Else let D be the power of two below P: each of the first P-D pairs
    (2i, 2i+1) acts as one, for which 2i takes the share of 2i+1 first and gives it the
    whole output, S, at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    each = equal_share(world_size, nbytes, itemsize)
    place, stands, absent = standing(world_size)
    v = np.arange(len(place))
    edges = np.append(place, world_size)  # of the shares that they begin with
    steps = Steps(world_size)
    steps.step(absent, stands, each)
    for k in range(int(world_size).bit_length() - 1):
        first = v >> k << k
        size = (edges[first + 2**k] - edges[first]) * each
        steps.step(place, place[v ^ 2**k], size)
    steps.step(stands, absent, nbytes)
    return steps.trace()


def bruck_all_gather(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan ceil(log2 P) steps in which every rank sends all it has to distance -2^k.

    nbytes: of the whole output. The last step sends only what is missing, so that each
    rank sends (P-1)/P S, which is optimal for every P.
    Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    each = equal_share(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size)
    for k in range(int(world_size - 1).bit_length()):
        shares = min(2**k, world_size - 2**k)
        steps.step(rank, (rank - 2**k) % world_size, shares * each)
    return steps.trace()

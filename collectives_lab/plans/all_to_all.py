"""Plans of all_to_all: a share of every rank's tensor to every rank.

nbytes is S, one rank's buffer, which is cut into P equal shares.
"""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps, equal_share
from collectives_lab.trace import Trace


def direct_all_to_all(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan that every rank posts all its sends and receives at once.

    Each rank begins with its neighbour, so the ranks do not all send to rank 0 first.
    Each sends (P-1)/P S, which is optimal, in P-1 messages.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    distance = rank[1:, None]
    steps = Steps(world_size, world_size * (world_size - 1))
    dst = (rank + distance) % world_size
    steps.step(np.broadcast_to(rank, dst.shape).ravel(), dst.ravel(), share_size)
    return steps.trace()


def pairwise_all_to_all(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan P-1 steps: in step k rank r sends to r+k and receives from r-k.

    Each rank sends (P-1)/P S, which is optimal, and has one message under way.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4 (long messages).
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size, world_size * (world_size - 1))
    for k in range(1, world_size):
        steps.step(rank, (rank + k) % world_size, share_size)
    return steps.trace()


def bruck_all_to_all(world_size: int, nbytes: int, itemsize: int = 1) -> Trace:
    """Plan ceil(log2 P) steps: step k moves the shares whose distance has bit k.

    A share for the rank at distance d moves by 2^k for each bit k of d. Each rank
    sends at most half of its buffer a step: S/2 log2 P with P a power of two, few
    messages for more bytes.
    Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    rank = np.arange(world_size)
    steps = Steps(world_size, world_size * int(world_size - 1).bit_length())
    for k in range(int(world_size - 1).bit_length()):
        shares = int((rank >> k & 1).sum())
        steps.step(rank, (rank + 2**k) % world_size, shares * share_size)
    return steps.trace()

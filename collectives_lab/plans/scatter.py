"""Plans of scatter: a share of the root's tensor to each rank."""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps, check_root, equal_share, rounds
from collectives_lab.trace import Trace


def direct_scatter(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan that the root sends every other rank its share, at distance 1 first.

    nbytes: of all shares. The root sends (P-1)/P S, which is optimal.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    steps.step(root, (root + np.arange(1, world_size)) % world_size, share_size)
    return steps.trace()


def binomial_scatter(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan that a rank sends each of its subtrees the shares of that subtree at once.

    nbytes: of all shares. The root sends (P-1)/P S, which is optimal for it; all ranks
    together about S/2 log2 P, since a share travels once a level.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; Chan et al. 2007.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    for src, dst, end in rounds(world_size):
        size = (end - dst) * share_size
        steps.step((root + src) % world_size, (root + dst) % world_size, size)
    return steps.trace()

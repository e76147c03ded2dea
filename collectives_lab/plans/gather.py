"""Plans of gather: every rank's share to the root.

Each is the scatter of the same name with its messages reversed.
"""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps, check_root, equal_share, rounds
from collectives_lab.trace import Trace


def direct_gather(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan that every other rank sends its share to the root.

    nbytes: of all shares. Each sends S/P, which is optimal; the root receives (P-1)/P
    S.
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    steps.step((root + np.arange(1, world_size)) % world_size, root, share_size)
    return steps.trace()


def binomial_gather(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan that shares move up a binomial tree: a rank sends those of its subtree.

    nbytes: of all shares. The root receives (P-1)/P S, which is optimal for it; all
    ranks together send about S/2 log2 P, since a share travels once a level.
    Source: Chan, Heimlich, Purkayastha and van de Geijn 2007 (MST gather).
    """
    share_size = equal_share(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    for parents, children, end in reversed(list(rounds(world_size))):
        size = (end - children) * share_size
        steps.step((root + children) % world_size, (root + parents) % world_size, size)
    return steps.trace()

"""Plans of broadcast: the root's tensor to every rank."""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import (
    Steps,
    all_gather_chunks,
    check,
    check_root,
    rounds,
    segment_count,
    segments,
    share,
)
from collectives_lab.trace import Trace


def flat_broadcast(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan that the root sends the whole tensor to every other rank.

    The root sends (P-1) S and the others nothing: the total is optimal, the root's part
    is not.
    """
    check(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    steps.step(root, (root + np.arange(1, world_size)) % world_size, nbytes)
    return steps.trace()


def binomial_broadcast(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan rounds in which every rank that has the tensor sends it to one more rank.

    The root sends ceil(log2 P) S and all ranks (P-1) S, an optimal total.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    check(world_size, nbytes, itemsize)
    check_root(world_size, root)
    steps = Steps(world_size, world_size - 1)
    for src, dst, _ in rounds(world_size):
        steps.step((root + src) % world_size, (root + dst) % world_size, nbytes)
    return steps.trace()


def chain_broadcast(
    world_size: int,
    nbytes: int,
    itemsize: int = 1,
    root: int = 0,
    segment: int | None = 2**18,
) -> Trace:
    """Plan that each rank forwards the tensor to the next, segment by segment.

    A rank receives one segment while it sends the one before. All but the last rank
    send S, which is optimal for the total and for each rank. segment: bytes, at least
    one element; None sends the tensor in one piece.
    """
    check(world_size, nbytes, itemsize)
    check_root(world_size, root)
    messages = segment_count(nbytes, segment, itemsize)
    steps = Steps(world_size, (world_size - 1) * messages)
    sizes = np.array(segments(nbytes, segment, itemsize), dtype=np.int64)
    for k in range(len(sizes) + world_size - 2 if len(sizes) else 0):
        # In step k the rank at that position of the chain sends segment k - p.
        position = np.arange(max(0, k - len(sizes) + 1), min(k + 1, world_size - 1))
        src = (root + position) % world_size
        steps.step(src, (src + 1) % world_size, sizes[k - position])
    return steps.trace()


def scatter_all_gather_broadcast(
    world_size: int, nbytes: int, itemsize: int = 1, root: int = 0
) -> Trace:
    """Plan a binomial scatter of P chunks, then a ring all-gather of them.

    The rank at distance v from the root begins the ring with chunk v. With even
    chunks the root sends 2 (P-1)/P S, and all ranks together (P-1) S in the ring and
    up to ceil(log2 P) S/2 in the tree.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4 (van de Geijn's).
    """
    chunks = share(check(world_size, nbytes, itemsize), world_size) * itemsize
    check_root(world_size, root)
    edges = np.concatenate([[0], np.cumsum(chunks)])
    steps = Steps(world_size, (world_size - 1) * (world_size + 1))
    for src, dst, end in rounds(world_size):
        size = edges[end] - edges[dst]
        steps.step((root + src) % world_size, (root + dst) % world_size, size)
    all_gather_chunks(steps, chunks, root)
    return steps.trace()

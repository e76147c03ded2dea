"""What Gloo does for a verb, as torch calls it.

Each verb has one algorithm. Rings pass segments of at most 1 MiB, two of them under way
at a time, so that one is added while the other moves. torch gives reduce_scatter to
`gloo::allreduce` with the whole tensor and keeps a share of the result.

Sources: Gloo at commit cc441984 (May 2025): allreduce.cc (`ring`), reduce.cc,
broadcast.cc, allgather.cc, alltoall.cc, gather.cc, scatter.cc; torch 2.13,
ProcessGroupGloo.cpp, `reduce_scatter_tensor_coalesced`. The bytes that each rank sends
are those that torch 2.13 was seen to put on the wire.
"""

from __future__ import annotations

import numpy as np

from collectives_lab import costs
from collectives_lab.libraries.calls import (
    Algorithm,
    Call,
    book,
    in_flight,
    one_after_another,
    sent_ahead,
)
from collectives_lab.plans.steps import Steps, ring_step
from collectives_lab.trace import Trace

LONGEST = 2**20
"""Bytes of a segment at most: `kMaxSegmentSize` in allreduce.h and reduce.h."""


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _segments(call: Call) -> tuple[int, int]:
    """Return how many segments a chunk has, two or more, and their bytes."""
    p, longest = call.world_size, max(LONGEST // call.itemsize, 1) * call.itemsize
    count = _up(max(-(-call.nbytes // longest), 2 * p), p)
    return count // p, _up(-(-call.nbytes // count), call.itemsize)


def _ring(call: Call, count: int, size: int, begin: int = 0, extra: int = 0) -> Trace:
    """Plan P-1 steps of a ring to the left, of `count` segments each, and some extra.

    begin: the first of them: 0 of a reduce-scatter, P-1 of the all-gather after it.
    """
    p = call.world_size
    ranks = -np.arange(p) % p
    starts = (ranks[:, None] * count + np.arange(count)) * size
    sizes = np.clip(call.nbytes - starts, 0, size)
    plan, end = Steps(p), begin + p - 1
    for k in range(begin, end + 1):
        for number in range(count if k < end else extra):
            ring_step(plan, ranks, sizes[:, number], k)
    return in_flight(plan.trace(), 2)


def _all_reduce(call: Call) -> Trace:
    """Plan a ring reduce-scatter, and an all-gather once a rank is through with it."""
    segments, half = _segments(call), call.world_size - 1
    return one_after_another(_ring(call, *segments), _ring(call, *segments, half))


def _all_reduce_seconds(call: Call) -> float:
    link, (_, segment) = call.link, _segments(call)
    return float(
        costs.ring_all_reduce(
            call.world_size, call.nbytes, link.alpha, link.beta, segment
        )
    )


def _reduce_segments(call: Call) -> tuple[int, int]:
    """Return how many segments a chunk has, and their bytes, as reduce.cc has them."""
    p, longest = call.world_size, LONGEST // call.itemsize * call.itemsize
    size = _up(min(-(-call.nbytes // (2 * p)), longest), call.itemsize)
    count = _up(max(-(-call.nbytes // max(size, 1)), 2 * p), p)
    return count // p, size


def _reduce(call: Call) -> Trace:
    """Plan a ring reduce-scatter, then a gather of the chunks at the root.

    With more than two segments a chunk the loop of reduce.cc goes on for as many more,
    which move what nobody needs.
    """
    p, (count, size) = call.world_size, _reduce_segments(call)
    ring = _ring(call, count, size, extra=max(count - 2, 0) if p > 1 else 0)
    others = np.delete(np.arange(p), call.root)
    chunks = np.clip(call.nbytes - others * count * size, 0, count * size)
    gather = Steps(p)
    gather.step(others, call.root, chunks)
    return one_after_another(ring, gather.trace())


def _reduce_seconds(call: Call) -> float:
    link, p, (count, size) = call.link, call.world_size, _reduce_segments(call)
    sizes = p, call.nbytes, link.alpha, link.beta
    ring = costs.ring_all_reduce(*sizes, size) / 2
    surplus = (count - 2) * link.time(size)
    return float(ring + surplus + costs.direct_gather(*sizes))


def _all_gather(call: Call) -> Trace:
    """Plan a ring to the right in which each share moves as two halves."""
    p, rank = call.world_size, np.arange(call.world_size)
    share = call.nbytes // p
    plan = Steps(p)
    for _ in range(p - 1):
        for half in (share // 2, share - share // 2):
            plan.step(rank, (rank + 1) % p, half)
    return in_flight(plan.trace(), 2)


def _all_gather_seconds(call: Call) -> float:
    link, p = call.link, call.world_size
    halves = min(2, call.nbytes // p)
    return float(costs.ring_all_gather(p, call.nbytes, halves * link.alpha, link.beta))


def near_first(call: Call) -> Trace:
    """Plan a binomial broadcast, to the nearest ranks first and to the farthest last.

    On nodes of neighbouring ranks all messages of the last round may leave their node,
    where one of `plans.binomial_broadcast` does in its first.
    """
    p = call.world_size
    plan = Steps(p)
    for k in range(int(p - 1).bit_length()):
        src = np.arange(min(2**k, p - 2**k))
        plan.step((call.root + src) % p, (call.root + src + 2**k) % p, call.nbytes)
    return sent_ahead(plan.trace())


BINOMIAL = Algorithm(near_first, book("binomial_broadcast").seconds)

ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "all_reduce": {"ring": Algorithm(_all_reduce, _all_reduce_seconds)},
    "reduce_scatter": {"all_reduce": Algorithm(_all_reduce, _all_reduce_seconds)},
    "reduce": {"ring": Algorithm(_reduce, _reduce_seconds)},
    "broadcast": {"binomial": BINOMIAL},
    "all_gather": {"ring": Algorithm(_all_gather, _all_gather_seconds)},
    "all_to_all": {"direct": book("direct_all_to_all")},
    "gather": {"direct": book("direct_gather")},
    "scatter": {"direct": book("direct_scatter")},
}
"""By verb, Gloo's one algorithm."""


def pick(call: Call) -> str:
    """Return the name of the one algorithm that Gloo has for the verb."""
    return next(iter(ALGORITHMS[call.verb]))

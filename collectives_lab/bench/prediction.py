"""Predicted times of collectives on a Link that was fitted to ping-pong alone.

Here you can `predict` any algorithm by its cost, and Gloo's verbs by the algorithms
that Gloo uses, which are not always those of the textbooks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from collectives_lab import costs
from collectives_lab.fabrics import Link

SEGMENT = 2**20
"""Bytes of the largest message in Gloo's all_reduce and reduce (gloo/allreduce.h), and
in our own ring_all_reduce by Gloo. By NCCL it sends a chunk in one message."""

Cost = Callable[[int, int, float, float], float]


def predict(
    verb: str,
    algorithm: str,
    world_size: int,
    nbytes: int,
    link: Link,
    backend: str = "gloo",
) -> float | None:
    """Return the predicted seconds on the link, None where there is no formula.

    algorithm: as in a Sweep; `"library"` is the algorithm of the backend, known for
    Gloo only, since NCCL chooses by size and topology. The prediction leaves out
    arithmetic, copies and waiting for a core. On one machine a rank that sends and
    receives at once uses one core for both, so exchanges take up to twice as long
    there.
    """
    if (verb, algorithm) == ("all_reduce", "ring"):
        segment = None if backend == "nccl" else SEGMENT
        cost: Cost | None = partial(costs.ring_all_reduce, segment=segment)
    elif algorithm != "library":
        cost = getattr(costs, f"{algorithm}_{verb}", None)
    else:
        cost = GLOO.get(verb) if backend == "gloo" else None
    return None if cost is None else cost(world_size, nbytes, link.alpha, link.beta)


def segments(world_size: int, nbytes: int) -> int:
    """Return the messages of a chunk in Gloo's ring: 2 or more, each 1 MiB at most."""
    return max(2, math.ceil(nbytes / world_size / SEGMENT))


def _all_gather(world_size: int, nbytes: int, alpha: float, beta: float) -> float:
    """Time a ring that sends each chunk in halves (gloo/allgather.cc)."""
    return costs.ring_all_gather(world_size, nbytes, 2 * alpha, beta)


def _all_reduce(world_size: int, nbytes: int, alpha: float, beta: float) -> float:
    """Time a ring that sends each chunk in segments (gloo/allreduce.cc)."""
    a_chunk = segments(world_size, nbytes) * alpha
    return costs.ring_all_reduce(world_size, nbytes, a_chunk, beta)


def _reduce(world_size: int, nbytes: int, alpha: float, beta: float) -> float:
    """Time a ring reduce-scatter, then a gather to the root (gloo/reduce.cc).

    The ring runs to the last but two of all segments, which is more than it needs where
    a chunk has more than two.
    """
    if world_size == 1:
        return 0.0
    number = world_size * segments(world_size, nbytes)
    ring = (number - 2) * (alpha + nbytes / number * beta)
    return ring + costs.direct_gather(world_size, nbytes, alpha, beta)


GLOO: dict[str, Cost] = {
    "sendrecv": lambda world_size, nbytes, alpha, beta: alpha + nbytes * beta,
    "broadcast": costs.binomial_broadcast,
    "scatter": costs.direct_scatter,
    "gather": costs.direct_gather,
    "all_gather": _all_gather,
    "reduce": _reduce,
    "reduce_scatter": _all_reduce,  # an all_reduce, of which each rank keeps a part
    "all_reduce": _all_reduce,
    "all_to_all": costs.direct_all_to_all,
}
"""The cost of the algorithm that Gloo uses for each verb, by its recorded traffic."""

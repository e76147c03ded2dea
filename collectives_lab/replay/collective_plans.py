"""Plans of recorded collectives: of a usual or a named algorithm, or of a library.

Here you can choose it for a call (`plan_of`); `expand` then puts its messages in the
place of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from collectives_lab import libraries, plans
from collectives_lab.basics.verbs import algorithms_of
from collectives_lab.fabrics import Fabric
from collectives_lab.plans.steps import Steps
from collectives_lab.trace import Event, Trace

Plan = Callable[..., Trace]

USUAL: dict[str, str] = {
    "broadcast": "binomial",
    "scatter": "direct",
    "gather": "direct",
    "all_gather": "ring",
    "reduce": "binomial",
    "reduce_scatter": "ring",
    "all_reduce": "ring",
    "all_to_all": "pairwise",
}
"""The algorithm of each verb where no library and no other algorithm is requested."""


def plan_of(
    trace: Trace,
    rows: dict[int, int],
    algorithms: Mapping[str, str | Plan],
    fabric: Fabric | None,
    library: str | None,
) -> Trace:
    """Return the plan of a collective, whose row is given by rank.

    algorithms, fabric, library: those of `expand.open_collectives`.
    """
    event = trace.event(next(iter(rows.values())))
    ranks = ranks_of(trace, event.group)
    if event.op == "barrier":
        return _barrier(len(ranks))
    calls = [trace.event(rows[rank]) for rank in ranks]
    if any(call.splits for call in calls):
        return _uneven([_split_sizes(call, len(ranks)) for call in calls])
    root = None if event.root is None else ranks.index(event.root)
    algorithm, size = algorithms.get(event.op), _size(event, len(ranks))
    if callable(algorithm):
        return _planned(algorithm, len(ranks), *size, root)
    if library is not None and fabric is not None:
        return _of_library(library, event.op, fabric, *size, root, algorithm, ranks)
    plan = _named(event.op, algorithm or USUAL.get(event.op))
    return _planned(plan, len(ranks), *size, root)


def _size(event: Event, world_size: int) -> tuple[int, int]:
    """Return bytes and item size, rounded up so that the shares of ranks are equal."""
    itemsize = _ITEMSIZE.get(event.dtype, 1)
    multiple = itemsize if event.op in ANY_LENGTH else itemsize * world_size
    return -(-event.nbytes // multiple) * multiple, itemsize


def _split_sizes(event: Event, world_size: int) -> list[int]:
    if event.splits:
        return [int(n) for n in event.splits.split(",")]
    return [event.nbytes // world_size] * world_size


def _uneven(sizes: list[list[int]]) -> Trace:
    """Plan a pairwise all_to_all of parts with different sizes."""
    world_size = len(sizes)
    steps, ranks, sizes_by_pair = (
        Steps(world_size),
        np.arange(world_size),
        np.array(sizes),
    )
    for k in range(1, world_size):
        peers = (ranks + k) % world_size
        steps.step(ranks, peers, sizes_by_pair[ranks, peers])
    return steps.trace()


def ranks_of(trace: Trace, group: str) -> tuple[int, ...]:
    """Return the ranks of a group; ValueError if they are not known."""
    if group not in trace.groups:
        raise ValueError(
            f"no ranks are known of group {group!r}; need them in trace.groups"
        )
    return trace.groups[group]


ANY_LENGTH = {"all_reduce", "reduce", "broadcast"}
ROOTED = {"broadcast", "scatter", "gather", "reduce"}
_ITEMSIZE = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "complex64": 8, "complex128": 16,
}  # fmt: skip


def _named(op: str, name: str | None) -> Plan:
    names = algorithms_of(op, plans.__all__)
    short = str(name).removesuffix(f"_{op}")
    if short in names:
        return getattr(plans, f"{short}_{op}")
    alternatives = (
        f"there are {', '.join(names)}" if names else "there are none for this verb"
    )
    raise ValueError(f"{op} by {name!r}: no such algorithm; {alternatives}")


_of_library = lru_cache(maxsize=8)(libraries.plan)


@lru_cache(maxsize=8)
def _planned(
    plan: Plan, world_size: int, nbytes: int, itemsize: int, root: int | None
) -> Trace:
    rooted = {} if root is None else {"root": root}
    trace = plan(world_size, nbytes, itemsize, **rooted)
    if not isinstance(trace, Trace) or trace.world_size != world_size:
        raise ValueError(
            f"the plan {getattr(plan, '__name__', plan)} gives {trace!r:.80}; need a "
            f"Trace of {world_size} ranks"
        )
    return trace


@lru_cache(maxsize=8)
def _barrier(world_size: int) -> Trace:
    """Plan a dissemination barrier: in step k rank r sends 1 byte to rank r + 2**k.

    Hensgen, Finkel, Manber 1988, section 4.
    """
    steps, ranks = Steps(world_size), np.arange(world_size)
    distance = 1
    while distance < world_size:
        steps.step(ranks, (ranks + distance) % world_size, 1)
        distance *= 2
    return steps.trace()

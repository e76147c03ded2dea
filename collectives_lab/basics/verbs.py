"""Names of the verbs; an algorithm is known by its name alone, `<algorithm>_<verb>`."""

from __future__ import annotations

from collections.abc import Iterable

VERBS = (
    "broadcast",
    "scatter",
    "gather",
    "all_gather",
    "reduce",
    "reduce_scatter",
    "all_reduce",
    "all_to_all",
)


def bus_factor(verb: str, world_size: int) -> float:
    """Return busbw over algbw, as PERFORMANCE.md of nccl-tests defines it.

    So many times S each rank sends at least; 1 for verbs with a root that sends all,
    and for "sendrecv".
    """
    if verb in ("broadcast", "reduce", "sendrecv"):
        return 1.0
    return (2 if verb == "all_reduce" else 1) * (world_size - 1) / world_size


def verb_of(name: str) -> str:
    """Return the longest verb at the end of a name: ring_all_gather is no gather."""
    return max((v for v in VERBS if name.endswith(f"_{v}")), key=len, default="")


def algorithms_in(names: Iterable[str]) -> list[str]:
    """Select the names of algorithms; the name of a verb alone is none."""
    return [name for name in names if verb_of(name) and name not in VERBS]


def algorithms_of(verb: str, names: Iterable[str]) -> list[str]:
    """Return the sorted algorithms for this verb among names `<algorithm>_<verb>`."""
    return sorted(n.removesuffix(f"_{verb}") for n in names if verb_of(n) == verb)

"""The verbs, and which of them an algorithm's name ends with: `<algorithm>_<verb>`."""

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


def verb_of(name: str) -> str:
    """The longest verb that a name ends with: ring_all_gather is no gather."""
    return max((v for v in VERBS if name.endswith(f"_{v}")), key=len, default="")


def algorithms_in(names: Iterable[str]) -> list[str]:
    """Of some names, those of algorithms; a verb's own name is none."""
    return [name for name in names if verb_of(name) and name not in VERBS]


def algorithms_of(verb: str, names: Iterable[str]) -> list[str]:
    """Of the names `<algorithm>_<verb>`, the algorithms for this verb, sorted."""
    return sorted(n.removesuffix(f"_{verb}") for n in names if verb_of(n) == verb)

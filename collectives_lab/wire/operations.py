"""The verbs and reduce ops by number, as a rank and the switch speak of them."""

from __future__ import annotations

VERBS = (
    *("all_reduce", "broadcast", "reduce", "scatter", "gather", "all_gather"),
    *("reduce_scatter", "all_to_all", "barrier"),
)
POINT_TO_POINT = ("send", "recv")
EVERY_VERB = (*POINT_TO_POINT, *VERBS)

REDUCE_OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")

ROOTED = ("broadcast", "reduce", "scatter", "gather")
"""Verbs of which all ranks must name the same root."""

REDUCING = ("all_reduce", "reduce", "reduce_scatter")

ANY = -1
"""The source of a recv from whichever rank sends first."""

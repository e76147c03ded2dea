"""Experts of limited capacity: who is served, who is dropped, which places stay empty.

Here you can draw the loads of experts against a capacity (`capacity_bars`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl

from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, key_above

KEPT = "#1D8F6D"
DROPPED = "#D55E00"


@mpl.rc_context(STYLE)
def capacity_bars(
    wanted: Sequence[float], room: float | None, *, caption: str = ""
) -> Diagram:
    """Draw what each expert is wanted for and what it takes, in fair shares.

    wanted: by expert, its tokens over those of a fair share. room: the capacity in the
    same unit, or None without a limit.
    """
    figure, ax = diagram(6.0, 0.9 + 0.24 * len(wanted))
    kept = [min(load, load if room is None else room) for load in wanted]
    rows = range(len(wanted))
    lost = [load - taken for load, taken in zip(wanted, kept, strict=True)]
    signs = {
        "computed": ax.barh(rows, kept, color=KEPT, height=0.7),
        "dropped": ax.barh(rows, lost, left=kept, color=DROPPED, height=0.7),
    }
    if room is not None:
        empty = [room - taken for taken in kept]
        look = {"fc": "none", "ec": INK, "lw": 1, "hatch": "////"}
        signs["empty places"] = ax.barh(rows, empty, left=kept, height=0.7, **look)
    most = math.ceil(max([*wanted, room or 0]))
    ax.set(xlim=(0, most), xticks=range(most + 1), yticks=rows)
    ax.set(xlabel="tokens, in fair shares", ylabel="expert")
    ax.invert_yaxis()
    key_above(ax, signs)
    figure.caption = caption
    figure.alt = f"Bars of tokens by expert. {caption}"
    return figure

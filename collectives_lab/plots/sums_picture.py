"""The sums of one entry in all orders of its terms: dots on a line.

Here you can draw them (`sums_picture`), as the explorer of `widgets.sums` shows them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import matplotlib as mpl

from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, key_above


@mpl.rc_context(STYLE)
def sums_picture(kinds: Mapping[str, Sequence[float]], grid: float) -> Diagram:
    """Draw a dot for each sum, those of the first kind filled.

    kinds: by name, how far each sum is from the exact one, in units. grid: how far the
    next multiple of the unit above the exact sum is.
    """
    figure, ax = diagram(6, 1.9)
    reach = math.ceil(
        max(abs(place) for kind in kinds.values() for place in kind) + 0.6
    )
    for n in range(-reach, reach + 1):
        ax.axvline(n + grid - 1, color=INK, linewidth=0.6, alpha=0.5)
    ax.axvline(0, color=INK, linestyle="--")
    drawn, height = {}, Counter[float]()
    for number, (name, places) in enumerate(kinds.items()):
        rows = []
        for place in places:
            rows.append(height[place])
            height[place] += 1
        style = {"mfc": "none" if number else INK, "mec": INK, "ms": 6}
        (drawn[name],) = ax.plot(places, rows, "o", **style)
    ax.set(xlim=(-reach, reach), ylim=(-0.8, max(height.values()) + 0.3), yticks=[])
    ax.set_xlabel("distance from the exact sum, in units")
    key_above(ax, drawn)
    return figure

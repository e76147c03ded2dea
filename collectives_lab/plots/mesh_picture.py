"""The ranks of a mesh as a box, with a line for each group.

Here you can draw a mesh of up to three dimensions (`mesh`): which ranks differ along
one dimension alone, and so form a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import matplotlib as mpl
import numpy as np

from collectives_lab.plots.figure import (
    STYLE,
    Diagram,
    blank,
    key_above,
    on_color,
    rank_color,
)
from collectives_lab.plots.series import DASHES, series_colors

MOST_RANKS = 32
STEPS = ((1.6, 0.0), (0.0, -1.05), (0.62, 0.42))
"""Where the next rank along the outermost, the middle and the innermost dimension is,
in inches."""


@mpl.rc_context(STYLE)
def mesh(
    degrees: Mapping[str, int], caption: str, looks: Sequence[str] = ()
) -> Diagram:
    """Draw ranks in their places, and lines between neighbours along each dimension.

    degrees: ranks along each dimension by its name, the outermost first, as for
    `init_device_mesh`. looks: all names of several pictures, so that a dimension has
    its colour in all of them. Raises ValueError for more than three dimensions and for
    more than 32 ranks.
    """
    if not 1 <= len(degrees) <= len(STEPS) or prod(degrees.values()) > MOST_RANKS:
        raise ValueError(
            f"a mesh of {dict(degrees)}; need one to {len(STEPS)} dimensions and at "
            f"most {MOST_RANKS} ranks"
        )
    sizes = tuple(degrees.values())
    places = np.argwhere(np.ones(sizes))
    points = places @ np.array(STEPS[-len(sizes) :])
    low, high = points.min(axis=0) - 0.35, points.max(axis=0) + 0.35
    least = sum(0.6 + 0.08 * len(name) for name in degrees)  # inches of the key
    margin = max(0.0, least - (high - low)[0]) / 2, 0.0
    low, high = low - margin, high + margin
    figure = blank(*(high - low + (0, 0.35)))
    ax = figure.add_subplot()
    ax.set_axis_off()
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    numbers = np.arange(prod(sizes)).reshape(sizes)
    signs = {}
    colors = series_colors([*looks, *degrees])
    for dimension, name in enumerate(degrees):
        look = {"color": colors[name], "linestyle": DASHES[dimension]}
        look |= {"linewidth": 2.2, "marker": "", "zorder": 1}
        for group in np.moveaxis(numbers, dimension, -1).reshape(-1, sizes[dimension]):
            (signs[name],) = ax.plot(*points[group].T, **look)
    for rank, (x, y) in enumerate(points):
        color = rank_color(rank)
        ax.scatter(x, y, s=260, color=color, zorder=2, linewidth=0)
        style = {"color": on_color(color), "size": 8, "weight": "bold"}
        ax.text(x, y, str(rank), ha="center", va="center", zorder=3, **style)
    key_above(ax, signs)
    groups = {
        name: np.moveaxis(numbers, n, -1).reshape(-1, sizes[n]).tolist()
        for n, name in enumerate(degrees)
    }
    words = "; ".join(f"groups along {name}: {rows}" for name, rows in groups.items())
    figure.caption, figure.alt = caption, f"{caption} {words}."
    return figure

"""Who decides what between a program's call and the bytes that move.

Here you can draw the stations of a call in several libraries, one below the other
(`decisions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    on_color,
    rank_color,
)

ROW, HEAD = 0.36, 0.3
"""Inches of a row and of the heads of the columns."""
HALF_WIDE, HALF_HIGH = 0.41, 0.3
"""Half of the width and of the height of a box, in columns and in rows."""


@mpl.rc_context(STYLE)
def decisions(
    heads: Sequence[str],
    rows: Mapping[str, Sequence[str]],
    *,
    deciders: Sequence[str],
    caption: str,
) -> Diagram:
    """Draw a row of boxes for each name, joined by arrows, in columns with heads.

    deciders: the words whose boxes are filled, each in a colour of its own.
    Raises ValueError for a row that does not have a word for each head.
    """
    figure, ax = diagram(PHONE, ROW * len(rows) + HEAD)
    columns = range(1, len(heads) + 1)
    for column, head in zip(columns, heads, strict=True):
        ax.text(column, -0.75, head, ha="center", va="center", size=8.5)
    for y, (name, words) in enumerate(rows.items()):
        if len(words) != len(heads):
            raise ValueError(f"{name}: {len(words)} words; need {len(heads)}")
        ax.text(0.5 - 0.05, y, name, ha="right", va="center", size=8)
        for x, word in zip(columns, words, strict=True):
            _box(ax, x, y, word, deciders)
            if x < len(words):
                ends = (x + HALF_WIDE, y), (x + 1 - HALF_WIDE, y)
                look = {"color": INK, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
                ax.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", **look))
    ax.set(xlim=(-0.3, len(heads) + 0.5), ylim=(len(rows) - 0.5, -1.1))
    ax.set_axis_off()
    figure.caption = caption
    listed = (f"{name}: {', then '.join(words)}" for name, words in rows.items())
    figure.alt = f"{caption} Columns: {', '.join(heads)}. {'; '.join(listed)}."
    return figure


def _box(
    ax: mpl.axes.Axes, x: float, y: float, word: str, deciders: Sequence[str]
) -> None:
    """Draw a word in its box, filled if it decides."""
    color = rank_color(deciders.index(word)) if word in deciders else None
    corner, size = (x - HALF_WIDE, y - HALF_HIGH), (2 * HALF_WIDE, 2 * HALF_HIGH)
    look = {"fc": color or "none", "ec": color or INK, "lw": 0.8}
    shape = {"boxstyle": "round,pad=0,rounding_size=0.08"}
    ax.add_patch(FancyBboxPatch(corner, *size, **shape, **look))
    ink = {"color": on_color(color)} if color else {}
    ax.text(x, y, word, ha="center", va="center", size=8, **ink)

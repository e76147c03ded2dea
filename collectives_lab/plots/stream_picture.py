"""Lanes of recorded spans: the streams of a GPU, and who gives them work.

Here you can draw spans of time in lanes, as a profile has them (`streams`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from collectives_lab.plots.figure import INK, PHONE, STYLE, Diagram, diagram, rank_color

HALF = 0.34
"""Half of the height of a lane's bars."""


@mpl.rc_context(STYLE)
def streams(
    lanes: Mapping[str, Sequence[tuple[float, float]]],
    caption: str,
    *,
    marks: Mapping[str, float] | None = None,
    rim: float = 0.0,
    width: float = 8.0,
    **axes: Any,
) -> Diagram:
    """Draw a lane for each name, from the top, with a bar for each span.

    lanes: spans as `(begin, end)`. marks: times, by name, at which a line goes through
    all lanes. rim: points around a bar, by which short ones stay visible and look
    longer than they are. width: inches; a phone gets the picture in its own width.
    axes: what `Axes.set` takes.
    Raises ValueError for a span that ends before it begins.
    """
    look = {"ylim": (len(lanes) - 0.5, -0.5), "xlabel": "time (ms)"} | axes
    figure = _picture(lanes, marks or {}, rim, width, look)
    if width > PHONE:
        figure.narrow = _picture(lanes, marks or {}, rim / 2, PHONE, look)
    figure.caption = caption
    figure.alt = f"Lanes, from the top: {', '.join(lanes)}. {caption}"
    return figure


def _picture(
    lanes: Mapping[str, Sequence[tuple[float, float]]],
    marks: Mapping[str, float],
    rim: float,
    width: float,
    look: Mapping[str, Any],
) -> Diagram:
    """Draw the lanes in so many inches."""
    figure, ax = diagram(width, 0.45 * len(lanes) + 0.75)
    for lane, (name, spans) in enumerate(lanes.items()):
        bars = np.reshape([*spans], (-1, 2)).astype(float)
        lengths = bars[:, 1] - bars[:, 0]
        if (lengths < 0).any():
            raise ValueError(f"a span of {name!r} ends before it begins")
        color = rank_color(lane)
        pairs = np.column_stack([bars[:, 0], lengths])
        place = lane - HALF, 2 * HALF
        ax.broken_barh(pairs.tolist(), place, fc=color, ec=color, lw=rim)
    for name, at in marks.items():
        ax.axvline(at, color=INK, lw=0.8, ls=(0, (3, 3)), zorder=0)
        top = ax.get_xaxis_transform()
        ax.text(at, 1.01, name, color=INK, fontsize=8, transform=top, ha="center")
    ax.set_yticks(range(len(lanes)), lanes)
    ax.tick_params(axis="y", length=0)
    ax.set(**look)
    return figure

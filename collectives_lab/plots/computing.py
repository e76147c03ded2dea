"""When each rank computes: a lane a rank, a bar for each piece of work.

Here you can draw the computing of a replayed or recorded run alone (`computing`), where
messages would only be in the way: a pipeline's bubble, a rank that waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba_array

from collectives_lab.plots.figure import (
    STYLE,
    Diagram,
    Traced,
    diagram,
    on_color,
    rank_color,
    trace_of,
)
from collectives_lab.trace import Trace

RIM = 0.005
"""Of the whole time, what is left white between two bars that touch."""

MOST_BARS = 500
"""Bars that can have a label; more are pixels."""

MOST_NAMES = 32
"""Lanes that can have a name."""


@mpl.rc_context(STYLE)
def computing(
    thing: Trace | Traced,
    caption: str,
    width: float = 8.0,
    height: float = 1.9,
    *,
    name: str = "rank",
    label: Callable[[str], str] = lambda variant: "",
    is_faint: Callable[[str], bool] = lambda variant: False,
    **axes: Any,
) -> Diagram:
    """Draw when each rank computes; where its lane is empty it waits.

    thing: a Timeline, or what else has a trace with times. width, height: inches. name:
    of a lane, with its rank. label, is_faint: what is written on a bar, and whether it
    is pale, by the event's variant; of more than 500 bars none has a label. axes: what
    `Axes.set` takes, as `xlabel="time"`.
    Raises ValueError for a trace in which nobody computes.
    """
    trace = trace_of(thing)
    columns = trace.columns
    rows = np.flatnonzero(trace.is_op("compute") & ~np.isnan(columns["completed"]))
    if not len(rows):
        raise ValueError("nobody computes in this trace, or it has no times; replay it")
    figure, ax = diagram(width, height)
    begin, done = np.nan_to_num(columns["issued"][rows]), columns["completed"][rows]
    ranks, end = columns["rank"][rows], done.max()
    rims = np.minimum(RIM * end, (done - begin) / 4) / 2
    left, right, low = begin + rims, done - rims, ranks - 0.4
    corners = [(left, low), (right, low), (right, low + 0.8), (left, low + 0.8)]
    variants = columns["variant"][rows].tolist()
    alphas = {n: 0.4 if is_faint(trace.texts[n]) else 1.0 for n in {*variants}}
    colors = [rank_color(rank) for rank in ranks.tolist()]
    shades = [*zip(colors, [alphas[n] for n in variants], strict=True)]
    bars = PolyCollection(
        np.moveaxis(np.array(corners), 2, 0),
        facecolors=to_rgba_array(shades),
        linewidths=0,
        rasterized=len(rows) > MOST_BARS,
        snap=len(rows) <= MOST_BARS,  # what is thinner than a pixel is pale
    )
    ax.add_collection(bars)
    if len(rows) <= MOST_BARS:
        middles = zip((left + right) / 2, ranks, variants, colors, strict=True)
        for middle, rank, number, color in middles:
            style = {"ha": "center", "va": "center", "color": on_color(color)}
            if alphas[number] < 1.0:
                style["color"] = "black"
            ax.text(middle, rank, label(trace.texts[number]), fontsize=7, **style)
    last = trace.world_size - 1
    step = -(-trace.world_size // MOST_NAMES)
    lanes = range(0, last + 1, step)
    ax.set_yticks(lanes, [f"{name} {rank}" for rank in lanes])
    ax.set(xlim=(0, end), ylim=(last + 0.6, -0.6))
    ax.set(**axes)
    figure.caption = caption
    figure.alt = f"When each of {last + 1} ranks computes. {caption}"
    return figure

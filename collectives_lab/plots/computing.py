"""When each rank computes: a lane a rank, a bar for each piece of work.

Here you can draw the computing of a replayed or recorded run alone (`computing`), where
messages would only be in the way: a pipeline's bubble, a rank that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb, to_rgba_array

from collectives_lab.plots import overview
from collectives_lab.plots.figure import (
    STYLE,
    Diagram,
    Traced,
    diagram,
    on_color,
    rank_color,
    trace_of,
)
from collectives_lab.plots.window import Between, chosen_of, limits
from collectives_lab.trace import Trace

RIM = 0.005
"""Of the whole time, what is left white between two bars that touch."""

MOST_BARS = 500
"""Bars that can have a label; more are pixels."""

MOST_NAMES = 32
"""Lanes that can have a name."""

MOST_APART = 32
"""Lanes with room for a gap between them, where they are filled."""

FAINT = 0.4
"""How much of its rank's colour a pale bar has."""


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
    ranks: Iterable[int] | None = None,
    between: Between | None = None,
    **axes: Any,
) -> Diagram:
    """Draw when each rank computes; where its lane is empty it waits.

    thing: a Timeline, or what else has a trace with times. width, height: inches. name:
    of a lane, with its rank. label, is_faint: what is written on a bar, and whether it
    is pale, by the event's variant; of more than 500 bars none has a label. ranks:
    those to look at, of all. between: `(start, stop)` in the times of the trace, to
    look at a part of it; None for its begin or its end. axes: what `Axes.set` takes, as
    `xlabel="time"`. Of more than 5000 calls none is drawn: a lane is the darker,
    the more of its time its rank computes, and the caption says so.
    Raises ValueError for a trace in which nobody computes, for a rank that it has not,
    and unless start < stop.
    """
    trace = trace_of(thing)
    chosen = chosen_of(trace.world_size, ranks)
    rows = _computed(trace)
    first, last = limits(between, 0.0, trace.columns["completed"][rows].max())
    if between:
        rows = rows[_is_seen(trace, rows, first, last)]
    rows = rows[np.isin(trace.columns["rank"][rows], chosen)]
    figure, ax = diagram(width, height)
    lanes = np.searchsorted(chosen, trace.columns["rank"][rows])
    if len(rows) > overview.MOST_CALLS:
        _draw_shares(ax, trace, rows, lanes, chosen, (first, last), is_faint)
        shown = "a lane is the darker, the more of its time its rank computes"
        caption += f" {overview.too_many(len(rows), shown)}"
    else:
        _draw_bars(ax, trace, rows, lanes, (first, last), label, is_faint)
    if len(chosen) < trace.world_size:
        caption += f" {len(chosen)} of {trace.world_size} ranks are drawn."
    named = range(0, len(chosen), -(-len(chosen) // MOST_NAMES))
    ax.set_yticks(named, [f"{name} {chosen[lane]}" for lane in named])
    ax.set(xlim=(first, last), ylim=(len(chosen) - 0.4, -0.6))
    ax.set(**axes)
    figure.caption = caption
    figure.alt = f"When each of {len(chosen)} ranks computes. {caption}"
    return figure


def _computed(trace: Trace) -> np.ndarray:
    """Return the rows of computing that has an end; ValueError if there is none."""
    has_end = ~np.isnan(trace.columns["completed"])
    rows = np.flatnonzero(trace.is_op("compute") & has_end)
    if not len(rows):
        raise ValueError("nobody computes in this trace, or it has no times; replay it")
    return rows


def _is_seen(trace: Trace, rows: np.ndarray, first: float, last: float) -> np.ndarray:
    """Return whether the calls of these rows last at a time between two."""
    begin = np.nan_to_num(trace.columns["issued"][rows])
    return (begin < last) & (trace.columns["completed"][rows] > first)


def _draw_bars(
    ax: Axes,
    trace: Trace,
    rows: np.ndarray,
    lanes: np.ndarray,
    between: tuple[float, float],
    label: Callable[[str], str],
    is_faint: Callable[[str], bool],
) -> None:
    """Draw a bar for each call, with its label where they are few."""
    columns = trace.columns
    begin, done = np.nan_to_num(columns["issued"][rows]), columns["completed"][rows]
    rims = np.minimum(RIM * (between[1] - between[0]), (done - begin) / 4) / 2
    left, right, low = begin + rims, done - rims, lanes - 0.4
    corners = [(left, low), (right, low), (right, low + 0.8), (left, low + 0.8)]
    variants = columns["variant"][rows].tolist()
    pale = {n for n in {*variants} if is_faint(trace.texts[n])}
    ranks = columns["rank"][rows].tolist()
    colors = [
        _paler(rank_color(rank)) if variant in pale else rank_color(rank)
        for rank, variant in zip(ranks, variants, strict=True)
    ]
    bars = PolyCollection(
        np.moveaxis(np.array(corners), 2, 0),
        facecolors=to_rgba_array(colors),
        linewidths=0,
        rasterized=len(rows) > MOST_BARS,
        snap=len(rows) <= MOST_BARS,  # what is thinner than a pixel is pale
    )
    ax.add_collection(bars)
    if len(rows) > MOST_BARS:
        return
    # Of a bar that is cut off, the label is in the part that is seen.
    middle_of = (np.clip(left, *between) + np.clip(right, *between)) / 2
    middles = zip(middle_of, lanes, variants, colors, strict=True)
    for middle, lane, number, color in middles:
        style = {"ha": "center", "va": "center", "color": on_color(color)}
        text = label(trace.texts[number])
        ax.text(middle, lane, text, fontsize=7, **style)


def _paler(color: str) -> tuple[float, ...]:
    """Return a colour mixed with white: its label is read on a dark page too."""
    return tuple(1 - FAINT * (1 - part) for part in to_rgb(color))


def _draw_shares(
    ax: Axes,
    trace: Trace,
    rows: np.ndarray,
    lanes: np.ndarray,
    chosen: Sequence[int],
    between: tuple[float, float],
    is_faint: Callable[[str], bool],
) -> None:
    """Fill the lanes, each stretch of time as opaque as the share that is computed."""
    columns = trace.columns
    begin, done = np.nan_to_num(columns["issued"][rows]), columns["completed"][rows]
    variants = columns["variant"][rows]
    pale = [n for n in np.unique(variants).tolist() if is_faint(trace.texts[n])]
    is_pale = np.isin(variants, pale)

    def share(some: np.ndarray) -> np.ndarray:
        calls = lanes[some], begin[some], done[some]
        return overview.covered(len(chosen), between, *calls)

    strong = np.minimum(share(~is_pale), 1.0)
    opacity = strong
    if pale:
        opacity = strong + FAINT * np.minimum(share(is_pale), 1.0 - strong)
    image = np.empty((len(chosen), overview.COLUMNS, 4), dtype=np.float32)
    image[..., :3] = [[to_rgb(rank_color(rank))] for rank in chosen]
    image[..., 3] = opacity
    if len(chosen) <= MOST_APART:  # a tenth of a lane stays empty above and below it
        image = np.repeat(image, 10, axis=0)
        image[0::10, :, 3] = image[9::10, :, 3] = 0
    how = "nearest" if len(chosen) <= MOST_APART else "antialiased"
    extent = (*between, len(chosen) - 0.5, -0.5)
    ax.imshow(image, extent=extent, aspect="auto", interpolation=how)

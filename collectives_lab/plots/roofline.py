"""The roofline of data-parallel training: what a GPU computes by its tokens.

Here you can draw it for one kind of GPU and several networks (`roofline`). At many
tokens a GPU computes at its own rate, the roof; at few, the network sets the pace.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    key_above,
)
from collectives_lab.plots.lines import plain_ticks
from collectives_lab.plots.series import SERIES

BEST = (0, (2, 1.5))
"""Dashes of what a GPU reaches at best, with everything hidden that can be."""


@mpl.rc_context(STYLE)
def roofline(
    rate: float,
    break_evens: Mapping[str, float],
    caption: str,
    width: float = 7.0,
    height: float = 3.4,
    *,
    tokens: float | None = None,
) -> Diagram:
    """Draw the operations a second of a GPU by its tokens in a step, by network.

    rate: what it computes without communicating. break_evens: by name of the network,
    the tokens at which communication takes as long as computation. width, height:
    inches; a phone gets the picture in its own width. tokens: of a job, to mark, with
    what a GPU computes there without overlap. Raises ValueError unless all tokens are
    positive.
    """
    every = [*break_evens.values(), *([] if tokens is None else [tokens])]
    if not break_evens or min(every) <= 0:
        raise ValueError(f"tokens are {every}; need a network, and positive tokens")
    span = min(every) / 30, max(every) * 10
    figure = _picture(rate, break_evens, tokens, span, width, height)
    if width > PHONE:
        figure.narrow = _picture(rate, break_evens, tokens, span, PHONE, height)
    figure.caption = caption
    corners = ", ".join(f"{name} {even:,.0f}" for name, even in break_evens.items())
    figure.alt = f"Rooflines with corners at these tokens: {corners}. {caption}"
    return figure


def _picture(
    rate: float,
    break_evens: Mapping[str, float],
    tokens: float | None,
    span: tuple[float, float],
    width: float,
    height: float,
) -> Diagram:
    """Draw all networks over a span of tokens, in so many inches, with a key."""
    figure, ax = diagram(width, height)
    x = np.geomspace(*span, 200)
    ax.set(xscale="log", yscale="log", xlim=(x[0], x[-1]))
    ax.set_ylim(top=rate / 1e12 * 2.5)
    lines = {
        name: _draw(ax, rate / 1e12, even, x, SERIES[number % len(SERIES)])
        for number, (name, even) in enumerate(break_evens.items())
    }
    if tokens is not None:
        ax.axvline(tokens, color=INK, linewidth=1, linestyle=(0, (1, 2)))
        near = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
        ax.annotate(f"{tokens:,.0f}", (tokens, 0.03), (5, 0), va="bottom", **near)
        for name, even in break_evens.items():
            reached = rate / 1e12 / (1 + even / tokens)
            look = {"color": lines[name].get_color(), "va": "top"}
            ax.plot(tokens, reached, "o", color=look["color"], markersize=4)
            beside = {"xytext": (5, -4), "textcoords": "offset points", **look}
            ax.annotate(f"{reached:.0f}", (tokens, reached), **beside)
    ways = {"one after the other": "-", "side by side, at best": BEST}
    ways = {name: Line2D([], [], color=INK, linestyle=at) for name, at in ways.items()}
    key_above(ax, lines | ways, most=2)
    ax.set(xlabel="tokens per GPU and step", ylabel="TFLOP/s per GPU")
    plain_ticks(ax.xaxis)
    plain_ticks(ax.yaxis)
    ax.grid()
    return figure


def _draw(ax: Axes, roof: float, even: float, x: np.ndarray, color: str) -> Line2D:
    """Draw both ways of one network, and its corner with the tokens."""
    (line,) = ax.plot(x, roof / (1 + even / x), color=color, linewidth=1.8)
    ax.plot(x, np.minimum(roof, roof * x / even), color=color, linestyle=BEST)
    ax.plot(even, roof, "o", color=color, markersize=5)
    style = {"ha": "center", "va": "bottom", "textcoords": "offset points"}
    ax.annotate(f"{even:,.0f}", (even, roof), (0, 5), color=color, **style)
    return line

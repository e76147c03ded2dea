"""Calls in their order: of the layers of a step, and of ranks that meet in them.

Here you can compare the orders of several systems (`call_order`), and show which call
of some ranks meets which call of others (`meeting_calls`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import INK, STYLE, Diagram, blank, diagram, rank_color
from collectives_lab.plots.series import series_look

MARKS = "s", "v", "o", "D"
"""One for each verb, for who cannot tell the colours apart."""


@mpl.rc_context(STYLE)
def call_order(
    systems: Mapping[str, Sequence[tuple[str, str]]],
    layers: Sequence[str],
    *,
    caption: str,
) -> Diagram:
    """Draw the calls of each system, as (verb, layer) in their order, in a panel.

    layers: from top to bottom. A verb has the same mark in all panels. The panels stand
    below each other, so that a call of one system is below that of the other.
    """
    verbs = list(dict.fromkeys(verb for calls in systems.values() for verb, _ in calls))
    figure = blank(3.8, (0.25 * len(layers) + 0.4) * len(systems) + 0.8)
    axes = figure.subplots(len(systems), 1, sharex=True, squeeze=False)[:, 0]
    signs = {}
    for ax, (name, calls) in zip(axes, systems.items(), strict=True):
        for number, verb in enumerate(verbs):
            places = [
                (n, layers.index(layer))
                for n, (called, layer) in enumerate(calls, 1)
                if called == verb
            ]
            look = {"color": series_look(number)["color"], "marker": MARKS[number]}
            signs[verb] = ax.scatter(*zip(*places, strict=True), s=55, **look)
        ax.set_title(name, fontsize=9, loc="left")
        ax.set_xticks(range(1, len(calls) + 1))
        ax.set(ylim=(len(layers) - 0.4, -0.6))
        ax.set_yticks(range(len(layers)), list(layers))
    axes[-1].set(xlabel="call")
    look = {"ncols": len(verbs), "frameon": False, "fontsize": 8}
    figure.legend(signs.values(), signs.keys(), loc="outside upper right", **look)
    figure.caption = caption
    words = "; ".join(
        f"{name}: {', '.join(f'{verb} {layer}' for verb, layer in calls)}"
        for name, calls in systems.items()
    )
    figure.alt = f"A panel for each system, with its calls in order. {words}. {caption}"
    return figure


WIDE, HIGH = 0.31, 0.36
"""Half of the width and of the height of a call's box, in columns and in rows."""
ODD = "#C33332"
"""The colour of a meeting of two calls that do not belong together."""


@mpl.rc_context(STYLE)
def meeting_calls(
    left: Sequence[tuple[str, str]],
    right: Sequence[tuple[str, str]],
    names: tuple[str, str],
    *,
    ranks: tuple[int, int] = (0, 1),
    caption: str,
) -> Diagram:
    """Draw the calls of some ranks beside those of others, which meet by their numbers.

    left, right: what each call sums, and what it gives, the first call on top. names:
    of the two columns. ranks: whose colours they have. A solid line joins the calls
    that meet, red where they sum something else; a dotted line joins those that sum the
    same and do not meet. Where one column has more calls, the other has an empty place.
    """
    count = max(len(left), len(right))
    figure, ax = diagram(3.4, 0.6 * count + 0.4)
    for column, (calls, rank) in enumerate(zip((left, right), ranks, strict=True)):
        for n in range(count):
            call = calls[n] if n < len(calls) else None
            _box(ax, column, n, call, rank_color(rank))
    for n, (one, other) in enumerate(zip(left, right, strict=False)):
        is_odd = one[0] != other[0]
        look = {"color": ODD, "linewidth": 3.5} if is_odd else {"color": INK}
        ax.plot([WIDE, 1 - WIDE], [n, n], solid_capstyle="butt", **look)
        if is_odd:
            ax.text(0.5, n - 0.06, "≠", color=ODD, fontsize=14, ha="center")
    for n, (what, _) in enumerate(left):
        for m in (m for m, (other, _) in enumerate(right) if other == what and m != n):
            ax.plot([WIDE, 1 - WIDE], [n, m], color=INK, linestyle=":", linewidth=1.5)
    ax.set(xlim=(-0.35, 1.35), ylim=(count - 0.5, -0.5))
    ax.set_yticks(range(count), [f"call {n + 1}" for n in range(count)])
    ax.set_xticks((0, 1), names)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.caption = caption
    words = (
        f"{name}: {'; '.join(', '.join(filter(None, call)) for call in calls)}"
        for name, calls in zip(names, (left, right), strict=True)
    )
    figure.alt = f"Two columns of calls by number. {'. '.join(words)}. {caption}"
    return figure


def _box(
    ax: Axes, column: int, n: int, call: tuple[str, str] | None, color: str
) -> None:
    corner, size = (column - WIDE, n - HIGH), (2 * WIDE, 2 * HIGH)
    look: dict[str, Any]
    if call is None:
        look = {"facecolor": "none", "edgecolor": INK, "linestyle": (0, (4, 3))}
        what, gives = "no call", ""
    else:
        look = {"facecolor": (color, 0.12), "edgecolor": color}
        what, gives = call
    ax.add_patch(Rectangle(corner, *size, **look))
    words = "\n".join(filter(None, (what, gives)))
    ax.text(column, n, words, ha="center", va="center", fontsize=8.5, linespacing=1.4)

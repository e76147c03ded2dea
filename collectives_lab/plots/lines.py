"""Curves of whatever a chapter measures: losses, shares, what ranks are worth.

Here you can draw named series of x and y (`lines`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator
from numpy.typing import ArrayLike

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    key_above,
)
from collectives_lab.plots.series import bytes_axis, seconds_axis, series_look

FEW = 20
"""Points up to which each has a mark."""

LONG = 3.2
"""Length of a line in the key, in letters: a whole period of the longest dashes."""

WIDE = 4.0
"""Inches that a phone would have to scroll."""

LETTER = 0.085
"""Inches of a figure for a letter of a name in its axes, which are smaller."""

SMALLEST = 1e-4
"""Below it a number has zeros that one has to count."""

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@mpl.rc_context(STYLE)
def lines(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]],
    caption: str,
    width: float = 6.0,
    height: float = 2.9,
    *,
    at_ends: bool = False,
    below: str = "",
    beside: Mapping[str, tuple[float, float]] | None = None,
    looks: Sequence[str] = (),
    log: bool = False,
    upright: Mapping[str, float] | None = None,
    **axes: Any,
) -> Diagram:
    """Draw each series, x and y by name, with a key above and the message below.

    width, height: inches. at_ends: whether each name stands at the right end of its
    curve, and not in the key. below: the series that others lie on, broad and pale.
    beside: where the names begin, as an x and a y by name, instead of in the key.
    looks: all names of several pictures, so that each looks the same in all of them.
    log: both axes logarithmic, y in seconds. upright: dotted lines at an x, by name.
    axes: what `Axes.set` takes, as `xlabel="step"` or `xscale="log"`; a logarithmic x
    that is called "bytes" has ticks such as 1 MiB. A wide picture is drawn for phones,
    too.
    Raises ValueError for x and y of different lengths.
    """
    order = [*looks, *(name for name in series if name not in looks)]
    places = at_ends, beside or {}
    curves = partial(
        _curves, series, height, order, places, below, log, upright or {}, axes
    )
    figure = curves(width)
    if width > WIDE:
        figure.narrow = curves(PHONE)
    figure.caption, figure.alt = caption, f"{', '.join(series)}. {caption}"
    return figure


def _curves(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]],
    height: float,
    order: Sequence[str],
    places: tuple[bool, Mapping[str, tuple[float, float]]],
    below: str,
    log: bool,
    upright: Mapping[str, float],
    axes: Mapping[str, Any],
    width: float,
) -> Diagram:
    """Draw the curves in a width; order: the names, as their looks follow.

    places: whether the names stand at the ends, and where others do.
    """
    at_ends, beside = places
    figure, ax = diagram(width, height)
    drawn = {}
    for name, (x, y) in series.items():
        style = series_look(order.index(name))
        if name == below:
            style |= {"linewidth": 7, "alpha": 0.4}
        (drawn[name],) = ax.plot(x, y, **style, markersize=4)
        if len(drawn[name].get_xdata()) >= FEW:
            drawn[name].set_marker("")
    for name, place in beside.items():
        ax.text(*place, name, color=drawn[name].get_color(), size=8, va="center")
    if not at_ends and not beside:
        with mpl.rc_context({"legend.handlelength": LONG} if len(drawn) > 4 else {}):
            key_above(ax, drawn, most=4)
    if log:
        ax.set(xscale="log", yscale="log")
        seconds_axis(ax)
    ax.set(**axes)
    _stand(ax, upright)
    for axis, where in ((ax.xaxis, "x"), (ax.yaxis, "y")):
        if axes.get(f"{where}scale") == "log":
            plain_ticks(axis)
    if axes.get("xlabel") == "bytes" and ax.get_xscale() == "log":
        sizes = np.concatenate([line.get_xdata() for line in drawn.values()])
        bytes_axis(ax.xaxis, sizes.min(), sizes.max())
    if log:
        ax.minorticks_off()
    if at_ends:
        _name_ends(ax, drawn)
    return figure


def _stand(ax: Axes, upright: Mapping[str, float]) -> None:
    """Draw upright lines with their names, on the left where the next is too close."""
    ax.autoscale_view()
    where = ax.transData + ax.transAxes.inverted()
    inches = {at: where.transform((at, 1))[0] * ax.figure.get_figwidth()
              for at in upright.values()}  # fmt: skip
    for name, at in upright.items():
        ax.axvline(at, color=INK, linewidth=1, linestyle=":")
        room = min((x - inches[at] for x in inches.values() if x > inches[at]),
                   default=math.inf)  # fmt: skip
        is_left = room < LETTER * len(name)
        look = {"xytext": (-3 if is_left else 3, -3), "textcoords": "offset points"}
        look |= {"ha": "right" if is_left else "left", "va": "top"}
        ax.annotate(name, (at, 1), xycoords=ax.get_xaxis_transform(), **look)


def _name_ends(ax: Axes, drawn: Mapping[str, Line2D]) -> None:
    """Write names to the right of their curves, from below, a line of text apart."""
    line = 1.2 * mpl.rcParams["font.size"]
    per_point = ax.figure.dpi / 72
    ax.autoscale_view()  # or the heights are those of an empty axis
    ends = {name: np.array(curve.get_xydata())[-1] for name, curve in drawn.items()}
    height = {name: ax.transData.transform(end)[1] for name, end in ends.items()}
    free = -np.inf
    for name in sorted(ends, key=height.__getitem__):
        at = height[name] / per_point
        free = max(at, free)
        look = {"xytext": (6, free - at), "textcoords": "offset points"}
        look |= {"color": drawn[name].get_color(), "va": "center"}
        ax.annotate(name, ends[name], annotation_clip=False, **look)
        free += line * (1 + name.count("\n"))


def plain_ticks(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis as numbers, or all as powers of ten.

    The powers are for an axis that goes below 0.0001.
    """

    def write(value: float, _: object) -> str:
        if axis.get_view_interval()[0] < SMALLEST:
            return "10" + f"{round(math.log10(value))}".translate(RAISED)
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"

    axis.set_major_formatter(write)
    axis.set_minor_locator(NullLocator())

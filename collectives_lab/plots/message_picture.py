"""The time of one message against its size: a latency, then its bytes.

Here you can draw a link, and what was measured on it (`message_time`).
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.fabrics import Link
from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, key_above
from collectives_lab.plots.series import (
    SERIES,
    SIZES,
    Samples,
    ascending,
    bytes_axis,
    medians,
    seconds_axis,
)


@mpl.rc_context(STYLE)
def message_time(
    link: Link,
    nbytes: ArrayLike = SIZES,
    *,
    measured: Samples | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw alpha + n beta, its two parts, and the size n_1/2 at which they are equal.

    nbytes: the sizes, ascending from above 0. measured: seconds by bytes, of one round
    or of several, drawn as the median and the quartiles. Raises ValueError for sizes
    that do not ascend.
    """
    sizes = ascending(nbytes)
    figure, ax = diagram(7.2, 3.6)
    low = _draw_parts(ax, link, sizes)
    if measured:
        at, middle, spread = medians(measured)
        style = {"fmt": "o", "color": SERIES[1], "capsize": 2, "markersize": 4.5}
        bars = spread if np.any(spread) else None
        ax.errorbar(at, middle, bars, label="measured", zorder=3, **style)
    ax.set(xscale="log", yscale="log", xlabel="size n", ylabel="time")
    ax.set(xlim=(sizes[0], sizes[-1]), ylim=(low, None))
    bytes_axis(ax.xaxis, sizes[0], sizes[-1])
    seconds_axis(ax)
    ax.grid()
    _mark_half(ax, link, sizes)
    handles, names = ax.get_legend_handles_labels()
    key_above(ax, dict(zip(names, handles, strict=True)))
    fact = (
        f"A message of n bytes takes {format_seconds(link.alpha)} of latency and "
        f"{format_seconds(link.beta * 2**20)} for each MiB; n½ is "
        f"{format_bytes(round(link.half_size))}."
    )
    figure.caption = fact if caption is None else caption
    figure.alt = f"Time against size, both logarithmic. {fact}"
    return figure


def _draw_parts(ax: Axes, link: Link, sizes: np.ndarray) -> float:
    """Draw the whole and both parts; return the least time that is shown."""
    whole = link.alpha + sizes * link.beta
    ax.plot(sizes, whole, color=SERIES[0], lw=1.8, label="α + nβ", zorder=2)
    parts = {"latency α": (0, (5, 1.5)), "bytes nβ": (0, (1, 1.2))}
    both = link.alpha + 0 * sizes, sizes * link.beta
    for (name, dashes), seconds in zip(parts.items(), both, strict=True):
        ax.plot(sizes, seconds, color=INK, lw=1.2, ls=dashes, label=name, zorder=1)
    return float(whole[0]) / 8


def _mark_half(ax: Axes, link: Link, sizes: np.ndarray) -> None:
    """Drop a line from where both parts are equal to the axis of sizes."""
    half = link.half_size
    if not sizes[0] < half < sizes[-1]:
        return
    ax.vlines(half, 0, link.alpha, INK, "dotted", linewidth=1, zorder=1)
    ax.plot(half, link.alpha, "o", ms=7, mfc="none", mec=INK, mew=1.4, zorder=4)
    label = "n½ = α/β"
    low, high = ax.get_ylim()
    place = {"ha": "left", "va": "bottom", "fontsize": 9}
    ax.text(half * (sizes[-1] / sizes[0]) ** 0.01, low * (high / low) ** 0.04, label,
            **place)  # fmt: skip

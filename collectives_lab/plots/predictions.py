"""Predicted and measured: two times for each size, and the gap between them.

Here you can draw both, with the gap below them (`predicted_measured`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from collectives_lab.basics.units import format_bytes
from collectives_lab.plots.figure import STYLE, Diagram, blank, key_above
from collectives_lab.plots.series import (
    SERIES,
    Samples,
    bytes_axis,
    medians,
    seconds_axis,
)

ABOVE = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
BELOW = (0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)


@mpl.rc_context(STYLE)
def predicted_measured(
    predicted: Mapping[int, float],
    measured: Samples,
    *,
    caption: str | None = None,
) -> Diagram:
    """Draw predicted and measured seconds by size, and below them their ratio.

    predicted: seconds by bytes. measured: the same, one number for each size or those
    of several runs, drawn as median and quartiles. Only sizes that are in both are
    drawn; ValueError if there are none.
    """
    sizes = sorted({*predicted} & {*measured})
    if not sizes:
        raise ValueError("no size is both predicted and measured; need one or more")
    at, middle, spread = medians({n: measured[n] for n in sizes})
    theory = np.array([predicted[n] for n in sizes], float)
    figure = blank(7, 4.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    _draw_times(above, at, theory, middle, spread)
    ratio = middle / theory
    _draw_gap(below, at, ratio, spread / theory)
    worst = int(np.argmax(abs(np.log(ratio))))
    fact = (
        f"What was measured takes {ratio.min():.3g} to {ratio.max():.3g} times what is "
        f"predicted; most off is {format_bytes(at[worst])}."
    )
    figure.caption = fact if caption is None else caption
    figure.alt = f"Points of predicted and of measured time by size. {fact}"
    return figure


def _draw_times(
    ax: Axes, at: np.ndarray, theory: np.ndarray, middle: np.ndarray, spread: np.ndarray
) -> None:
    """Draw the prediction hollow, so that a measurement on top of it shows."""
    ax.set(xscale="log", yscale="log", ylabel="time")
    hollow = {"mfc": "none", "ms": 9, "mew": 1.5, "lw": 1, "zorder": 2}
    (line,) = ax.plot(at, theory, "o-", color=SERIES[0], **hollow)
    bars = {"ms": 4.5, "capsize": 2, "elinewidth": 1, "zorder": 3}
    points = ax.errorbar(at, middle, spread, fmt="s", color=SERIES[1], **bars)
    ax.set_xlim(at[0] / 1.5, at[-1] * 1.5)
    seconds_axis(ax, 6)
    ax.grid()
    key_above(ax, {"predicted": line, "measured, median and quartiles": points})


def _draw_gap(ax: Axes, at: np.ndarray, ratio: np.ndarray, spread: np.ndarray) -> None:
    """Draw the ratio, in a logarithm: half and double are equally far from right."""
    ax.set(yscale="log", xlabel="size", ylabel="measured /\npredicted")
    ax.axhline(1, color=SERIES[0], linewidth=1.2, zorder=1)
    ax.vlines(at, 1, ratio, SERIES[1], linewidth=1.2, zorder=2)
    ax.errorbar(at, ratio, spread, fmt="s", color=SERIES[1], ms=4.5, capsize=2, lw=1)
    low, high = (ratio - spread[0]).min(), (ratio + spread[1]).max()
    low, high = min(0.97, low), max(1.03, high)
    beyond = (high / low) ** 0.1
    ax.set_ylim(low / beyond, high * beyond)
    ticks = _ticks(low, high)
    ax.set_yticks(ticks, [f"{tick:g}×" for tick in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.grid()
    bytes_axis(ax.xaxis, at[0] / 1.5, at[-1] * 1.5)


def _ticks(low: float, high: float) -> list[float]:
    """Choose the ticks: 1, then the outermost ratios in sight, as room permits.

    matplotlib's LogLocator has no ticks between 1 and 2.
    """
    ticks = [1.0]
    outermost = sorted((r for r in (*ABOVE, *BELOW) if low <= r <= high), key=_off)
    for ratio in reversed(outermost):
        if all(abs(math.log(ratio / t)) > 0.2 * math.log(high / low) for t in ticks):
            ticks.append(ratio)
    return sorted(ticks)


def _off(ratio: float) -> float:
    return abs(math.log(ratio))

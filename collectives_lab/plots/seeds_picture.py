"""Results of several seeds: a dot for each, in a row for each way to get them.

Here you can draw how ways to train compare, and how far seeds are apart (`by_seed`),
and what each of them costs in loss and in time (`loss_by_time`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator

from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, rank_color

WIDTH = 3.4  # inches, as wide as a phone, in an answer that is folded

APART = 0.17
"""Between two dots of a heap, in rows: less than a dot, so that five fit in a row.

Rows are higher where more stand above each other.
"""

HEAP = 0.85
"""The highest heap of dots, in rows."""


@mpl.rc_context(STYLE)
def by_seed(
    results: Mapping[str, Sequence[float]],
    caption: str,
    *,
    marks: Mapping[str, float] | None = None,
    near: tuple[float, float] | None = None,
    is_counted: bool = False,
    **axes: Any,
) -> Diagram:
    """Draw a row for each name: a dot for each seed, and a line at their mean.

    marks: values across all rows, by name, such as the two ends to compare with. near:
    a range that is drawn larger, on the left, with an arrow in a row that is beyond it.
    is_counted: whether dots that would cover each other stand above each other, to be
    counted, and rows have no mean. axes: what `Axes.set` takes, as `xlabel="loss"`.
    Raises ValueError for a row without dots.
    """
    if empty := [name for name, values in results.items() if not len(values)]:
        raise ValueError(f"{empty[0]} has no results; need one or more for each name")
    all_seen = [*np.concatenate([*results.values()]), *(marks or {}).values()]
    ends = min(all_seen), max(all_seen)
    higher = _most_in_a_heap(results, *ends) * APART / HEAP if is_counted else 1.0
    figure, ax = diagram(WIDTH, 1.0 + 0.27 * len(results) * max(1.0, higher))
    if near:
        figure.clear()
        close, ax = figure.subplots(1, 2, sharey=True, width_ratios=(4, 3))
        _rows(close, results, *near)
        close.set_xlim(near)
        close.set_title("enlarged", size=8)
        ax.set_title("all", size=8, loc="left")
        place = {"transform": close.get_yaxis_transform(), "va": "center"}
        for row, values in enumerate(results.values()):
            if min(values) > near[1]:
                close.text(0.97, row, "→", ha="right", color=rank_color(4), **place)
        label = figure.supxlabel(axes.pop("xlabel", ""), size="medium")
    for name, x in (marks or {}).items():
        ax.axvline(x, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        ax.text(x, -0.75, name, ha="center", va="bottom", size=8)
    _rows(ax, results, *ends, most=3 if near else 5, is_counted=is_counted)
    ax.set(**axes)
    ax.margins(x=0.08)
    if near:  # the label stands below the middle of both
        figure.draw_without_rendering()
        label.set_x((close.get_position().x0 + ax.get_position().x1) / 2)
    words = (
        f"{name} {np.mean(values):.3g} ({min(values):.3g} to {max(values):.3g})"
        for name, values in results.items()
    )
    figure.caption, figure.alt = caption, f"{', '.join(words)}. {caption}"
    return figure


def _rows(
    ax: Axes,
    results: Mapping[str, Sequence[float]],
    low: float,
    high: float,
    most: int = 5,
    is_counted: bool = False,
) -> None:
    """Draw a row of dots for each name, on an axis with at most so many steps."""
    for row, values in enumerate(results.values()):
        at = [float(row)] * len(values)
        if is_counted:
            apart = min(APART, HEAP / _most_in_a_heap(results, low, high))
            values, at = _stacked(values, row, (high - low) / 30, apart)
        else:
            bar = [np.mean(values)] * 2, [row - 0.3, row + 0.3]
            ax.plot(*bar, color=rank_color(4), lw=2, zorder=1)  # below the dots
        ax.plot(values, at, "o", ms=5, color=rank_color(0), alpha=0.55)
    ticks = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ticks = [x for x in ticks if low <= x <= high]
    ax.set(yticks=range(len(results)), yticklabels=[*results], xticks=ticks)
    ax.set_ylim(len(results) - 0.4, -0.7)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")


def _most_in_a_heap(
    results: Mapping[str, Sequence[float]], low: float, high: float
) -> int:
    """Return how many dots stand above each other at most."""
    heaps = (_heaps(values, (high - low) / 30) for values in results.values())
    return max(len(heap) for of_row in heaps for heap in of_row)


def _stacked(
    values: Sequence[float], row: int, near: float, apart: float
) -> tuple[list[float], list[float]]:
    """Return the sorted values, and heights that part those near the one before."""
    heaps = _heaps(values, near)
    heights = [
        row + apart * (place - (len(heap) - 1) / 2)
        for heap in heaps
        for place in range(len(heap))
    ]
    return [value for heap in heaps for value in heap], heights


def _heaps(values: Sequence[float], near: float) -> list[list[float]]:
    """Return the sorted values in heaps, of those near the one before."""
    heaps: list[list[float]] = []
    for value in sorted(values):
        if heaps and value - heaps[-1][-1] < near:
            heaps[-1].append(value)
        else:
            heaps.append([value])
    return heaps


@mpl.rc_context(STYLE)
def loss_by_time(
    results: Mapping[str, tuple[float, Sequence[float]]],
    caption: str,
    *,
    marks: Mapping[str, float] | None = None,
    **axes: Any,
) -> Diagram:
    """Draw a dot for each name, at its time and its mean, with a line over its seeds.

    results: a time and the values of the seeds, by name. marks: times to compare with,
    by name. axes: what `Axes.set` takes. Time has a scale of factors.
    """
    figure, ax = diagram(WIDTH, 3.2)
    for name, time in (marks or {}).items():
        ax.axvline(time, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        at = {"xy": (time, 1), "xycoords": ax.get_xaxis_transform(), "size": 8}
        ax.annotate(name, xytext=(4, -2), textcoords="offset points", va="top", **at)
    middle = np.mean([np.mean(values) for _, values in results.values()])
    for name, (time, values) in results.items():
        mean = float(np.mean(values))
        ax.plot([time] * 2, [min(values), max(values)], color=rank_color(0), lw=1.5)
        ax.plot([time], [mean], "o", ms=6, color=rank_color(4))
        side = 8 if mean > middle else -11  # away from the lines of the others
        at = {"xy": (time, mean), "xytext": (4, side), "textcoords": "offset points"}
        ax.annotate(name, va="center", size=8, **at)
    ax.set(xscale="log", **axes)
    low, high = ax.get_xlim()
    ticks = LogLocator(subs=(1, 2, 5)).tick_values(low, high)
    ticks = [x for x in ticks if low <= x <= high]
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
    ax.minorticks_off()
    ax.set_xlim(low, 1.6 * high)  # room for the name of the last one
    if marks:
        ax.margins(y=0.22)  # room for their names
    bottom, top = ax.get_ylim()
    ticks = MaxNLocator(5).tick_values(bottom, top)
    ax.set_yticks([y for y in ticks if bottom <= y <= top])
    ax.grid()
    words = (f"{n} {time:.3g} and {np.mean(v):.3g}" for n, (time, v) in results.items())
    figure.caption, figure.alt = caption, f"{', '.join(words)}. {caption}"
    return figure

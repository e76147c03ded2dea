"""A trace of too many calls to be drawn one by one: what share of its time each rank
spends in which state.

Here you can draw it in the lanes of a space-time diagram (`draw_shares`), and say it in
words (`facts`).
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from collectives_lab.basics.units import format_seconds
from collectives_lab.plots.figure import rank_color
from collectives_lab.plots.lanes import (
    FILLED,
    Bar,
    blocked_longest,
    count_ranks,
    never_completed,
)
from collectives_lab.plots.window import Window

MOST_CALLS = 5000
"""Calls that are drawn one by one; of more, each lane shows shares of its time."""

COLUMNS = 1000
"""Stretches of time, each as wide as a pixel or two."""

MOST_PIXELS = 1600
"""Height of all lanes together."""

OPACITY = {"in flight": 1.0, "blocked": 0.3, "computing": 0.12}
"""From the bottom of a lane up."""


def shares(seen: Window) -> dict[str, np.ndarray]:
    """Return the share of each stretch of time that each rank spends in a state.

    An array `[lane, stretch]` for each of OPACITY: a call in flight while its rank does
    other work, a rank that waits, one that says that it computes. What overlaps counts
    once, in this order.
    """
    trace, rows = seen.trace, seen.rows
    begin, wait, end = seen.begin[rows], seen.wait[rows], seen.end[rows]
    lane = np.searchsorted(seen.ranks, trace.columns["rank"][rows])
    computes = trace.is_op("compute")[rows]

    def part(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        return covered(len(seen.ranks), (seen.first, seen.last), lane, begin, end)

    parts = {
        "in flight": part(begin, np.where(computes, begin, wait)),
        "blocked": part(wait, end),
        "computing": part(begin, np.where(computes, end, begin)),
    }
    left = np.ones((len(seen.ranks), COLUMNS))
    for name in OPACITY:
        parts[name] = np.minimum(parts[name], left)
        left = left - parts[name]
    return parts


def covered(
    lanes: int,
    between: tuple[float, float],
    lane: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
) -> np.ndarray:
    """Return the share of each stretch that lies between begins and ends, by lane.

    An array `[lane, stretch]`, of COLUMNS stretches between two times; lane, begin,
    end: of each interval.
    """
    first, last = between
    shape = lanes, COLUMNS + 1
    row = lane * (COLUMNS + 1)
    total = np.zeros(shape)
    # Of the stretches, a time covers all that lie before it and a part of its own; what
    # an interval covers is its end's share without its begin's.
    for times, sign in ((end, 1.0), (begin, -1.0)):
        at = (times - first) / (last - first) * COLUMNS
        at = np.clip(at, 0, COLUMNS)
        column = at.astype(int)
        parts, ends, all_ends = (
            np.bincount(cell, weight, total.size).reshape(shape)
            for cell, weight in (
                (row + column, at - column),
                (row + column, None),
                (row, None),
            )
        )
        total += sign * (parts + np.cumsum(all_ends - ends, axis=1))
    return np.clip(total[:, :COLUMNS], 0.0, None)


def draw_shares(ax: Axes, seen: Window) -> dict[str, np.ndarray]:
    """Fill the lanes from the bottom up, as high as the share of each state."""
    drawn = shares(seen)
    lanes = len(seen.ranks)
    pixels = max(4, MOST_PIXELS // lanes // 2 * 2)
    height = (np.arange(pixels)[::-1] + 0.5) / pixels / FILLED - (1 / FILLED - 1) / 2
    image = np.zeros((lanes, pixels, COLUMNS, 4), dtype=np.uint8)
    below = np.zeros((lanes, 1, COLUMNS))
    level = height[None, :, None]
    for name, opacity in OPACITY.items():
        if seen.is_steps:
            opacity = OPACITY["blocked"]
        above = below + drawn[name][:, None]
        is_filled = (level >= below) & (level < above) & (level >= 0)
        for lane, rank in enumerate(seen.ranks):
            color = mpl.colors.to_rgba(rank_color(rank), opacity)
            image[lane][is_filled[lane]] = np.round(255 * np.array(color))
        below = above
    ax.imshow(
        image.reshape(lanes * pixels, COLUMNS, 4),
        extent=(seen.first, seen.last, lanes - 0.5, -0.5),
        aspect="auto",
        interpolation="nearest",
        zorder=2,
    )
    return drawn


def facts(
    seen: Window, by_state: dict[str, np.ndarray], stuck: Sequence[Bar]
) -> list[str]:
    """Describe the calls that are seen in sentences, and what is left out.

    by_state: their shares. stuck: those that never completed.
    """
    trace, rows = seen.trace, seen.rows
    ops, counts = np.unique(trace.columns["op"][rows], return_counts=True)
    names = {trace.texts[op]: n for op, n in zip(ops, counts.tolist(), strict=True)}
    things = ", ".join(f"{n} {name}" for name, n in sorted(names.items()))
    span = seen.last - seen.first
    sentences = [f"{count_ranks(seen)}, {format_seconds(span)}: calls of {things}."]
    if seen.is_steps:
        sentences = [f"{count_ranks(seen)}: calls of {things}."]
    if not seen.is_steps and not stuck:
        by_lane = by_state["blocked"].mean(axis=1) * span
        sentences += blocked_longest(
            dict(zip(seen.ranks, by_lane.tolist(), strict=True))
        )
    if stuck:
        sentences.append(never_completed(stuck))
    return [
        *sentences,
        too_many(len(rows), "a lane is as full as the share of its time"),
    ]


def too_many(calls: int, shown: str) -> str:
    """Say that calls are not drawn one by one, what is shown, and what to do."""
    return (
        f"{calls} calls are too many to draw each: {shown}. ranks=[...] and "
        "between=(start, stop) show fewer, one by one."
    )

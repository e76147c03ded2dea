"""Parts that pictures of times share: looks of algorithms, axes in bytes and time.

Here you can ask for the look of a series (`series_look`) and the colours of several
(`series_colors`), for sizes (`ascending`), for the seconds that somebody predicts
(`seconds_of`) or has measured (`medians`), for the fastest of several (`fastest`), and
put sizes and times on logarithmic axes (`bytes_axis`, `seconds_axis`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import ArrayLike

from collectives_lab.basics.units import format_bandwidth, format_bytes, format_seconds

# None of the colours of the ranks, since these stand for algorithms. Lines are thin,
# so each has a contrast of 3 with a white page and with a dark one.
SERIES = (
    "#816ED4",
    "#C33332",
    "#1DA656",
    "#9F9435",
    "#C7238B",
    "#2C60DA",
    "#297C5D",
    "#929292",
)
# Five, and eight colours: the first and the fifth series differ in both.
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (1, 1.2)),
    (0, (9, 1.5, 1, 1.5, 1, 1.5)),
)
MARKERS = "osD^vPX*"
SIZES = 2.0 ** np.arange(0, 30.01, 0.25)
"""1 B to 1 GiB, close enough for a curve."""

ALIKE = 1e-9  # of two times that differ by less, neither is the faster

Cost = Callable[..., Any] | ArrayLike
"""A function of (world_size, nbytes, alpha, beta), as in `costs`, or the seconds."""
Samples = Mapping[int, float | Sequence[float]]
"""Seconds by bytes: one number for each size, or those of several runs."""


def series_look(number: int) -> dict[str, Any]:
    """Return the colour, dashes and marker of the n-th algorithm."""
    return {
        "color": SERIES[number % len(SERIES)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def series_colors(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each name, by its place among them."""
    order = dict.fromkeys(names)
    return {name: str(series_look(n)["color"]) for n, name in enumerate(order)}


def ascending(nbytes: ArrayLike) -> np.ndarray:
    """Return sizes as an array; ValueError unless they ascend from above 0."""
    sizes = np.asarray(nbytes, float)
    if sizes.ndim != 1 or len(sizes) < 2 or not (np.diff(sizes, prepend=0) > 0).all():
        raise ValueError("need two or more sizes, ascending from above 0")
    return sizes


def seconds_of(
    name: str,
    cost: Cost,
    world_size: ArrayLike | None,
    nbytes: ArrayLike,
    alpha: float | None,
    beta: float | None,
) -> np.ndarray:
    """Return the seconds at these sizes; ValueError for times that do not fit."""
    worlds = () if world_size is None else np.asarray(world_size).shape
    shape = np.broadcast_shapes(worlds, np.asarray(nbytes).shape)
    if callable(cost):
        if world_size is None or alpha is None or beta is None:
            raise ValueError(
                f"{name} is a function of (world_size, nbytes, alpha, beta); "
                "say world_size=, alpha= and beta=, or give the seconds"
            )
        cost = cost(world_size, nbytes, alpha, beta)
    seconds = np.asarray(cost, float)
    try:
        return np.broadcast_to(seconds, shape)
    except ValueError:
        raise ValueError(
            f"{name} has times of shape {seconds.shape}; need {shape}, one a size"
        ) from None


def fastest(seconds: ArrayLike) -> np.ndarray:
    """Number the fastest series at each place, the first of equals; -1 for none.

    seconds: the series along the first axis, NaN where one has no time.
    """
    times = np.asarray(seconds, float)
    times = np.where(np.isnan(times), np.inf, times)
    best = times.min(axis=0)
    first = np.argmax(times <= best * (1 + ALIKE), axis=0)
    return np.where(np.isinf(best), -1, first)


def medians(samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sizes in order, their medians, and how far the quartiles are, `[2, n]`."""
    sizes = sorted(samples)
    parts = [np.quantile(np.atleast_1d(samples[n]), [0.25, 0.5, 0.75]) for n in sizes]
    low, middle, high = np.array(parts).reshape(-1, 3).T
    return np.array(sizes, float), middle, np.array([middle - low, high - middle])


def setting(world_size: Any, alpha: float | None, beta: float | None) -> str:
    """Write `8 ranks, alpha = 5 µs, 25 GB/s`, of those that are known."""
    known = []
    if isinstance(world_size, int):
        known.append(f"{world_size} ranks")
    if alpha is not None:
        known.append(f"alpha = {format_seconds(alpha)}")
    if beta:
        known.append(format_bandwidth(1 / beta))
    return ", ".join(known)


MOST_TICKS = 8


def bytes_axis(axis: Axis, low: float, high: float) -> None:
    """Set ticks at powers of two, in B, KiB, MiB and GiB.

    matplotlib's LogLocator would leave out 1 KiB and 1 MiB.
    """
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = next(s for s in (1, 2, 5, 10, 20, 40) if (last - first) // s < MOST_TICKS)
    ticks = [2.0**n for n in range(-(-first // step) * step, last + 1, step)]
    axis.set_ticks(ticks, [format_bytes(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


def seconds_axis(ax: Axes, most: int = 8) -> None:
    """Set ticks at powers of ten, and between a few of them, in µs, ms and s."""
    low, high = ax.get_ylim()
    digits = (1, 2, 5) if high / low <= 300 else (1,)
    ticks = LogLocator(subs=digits, numticks=most + 1).tick_values(low, high)
    ticks = [tick for tick in ticks if low <= tick <= high]
    ax.yaxis.set_ticks(ticks, [format_seconds(tick) for tick in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylim(low, high)

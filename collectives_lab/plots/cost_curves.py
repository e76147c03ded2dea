"""Cost curves: seconds against size, and where another algorithm becomes the fastest.

Here you can draw what formulas or numbers predict as lines, and what was measured as
points with their spread (`cost_curves`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from collectives_lab.basics.units import format_bytes
from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    Labels,
    diagram,
    settle,
)
from collectives_lab.plots.series import (
    SIZES,
    Cost,
    Samples,
    ascending,
    bytes_axis,
    fastest,
    medians,
    seconds_axis,
    seconds_of,
    series_look,
    setting,
)


@mpl.rc_context(STYLE)
def cost_curves(
    predicted: Mapping[str, Cost],
    nbytes: ArrayLike = SIZES,
    *,
    world_size: int | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    measured: Mapping[str, Samples] | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw seconds against bytes, with a mark where the fastest algorithm changes.

    predicted: by name, a function of (world_size, nbytes, alpha, beta) as in `costs`,
    or the seconds at each of nbytes. measured: by name, seconds by bytes, of one run or
    of several, drawn as the median and the quartiles. Raises ValueError for sizes that
    are not positive and for times that do not fit them.
    """
    sizes, measured = ascending(nbytes), dict(measured or {})
    names = list(dict.fromkeys([*predicted, *measured]))
    if not names:
        raise ValueError("there is nothing to draw; give predicted or measured times")
    lines = {
        name: seconds_of(name, cost, world_size, sizes, alpha, beta)
        for name, cost in predicted.items()
    }
    figure, ax = diagram(8.4, 4.2)
    _draw(ax, names, sizes, lines, measured)
    changes = crossings(sizes, lines)
    _set_axes(ax, sizes, len(changes), bool(measured))
    figure.get_layout_engine().set(w_pad=0.1)  # a backend may draw the names wider
    settle(figure)
    _mark(ax, changes)
    where = setting(world_size, alpha, beta)
    fact = f"{where}: {ranking(sizes, lines)}" if where else ranking(sizes, lines)
    points = " Points: medians and quartiles, measured." if measured else ""
    figure.caption = f"{_upper(fact)}{points}" if caption is None else caption
    figure.alt = (
        f"Curves of time against size, both logarithmic: {', '.join(names)}. "
        f"{_upper(fact)}{points}"
    )
    return figure


def crossings(
    sizes: np.ndarray, lines: Mapping[str, np.ndarray]
) -> list[tuple[float, float, str]]:
    """Return the crossings: bytes, seconds, and the algorithm fastest from there.

    Between two sizes the curves are taken as straight, as alpha + beta S is.
    """
    if len(lines) < 2:
        return []
    names, times = list(lines), np.array(list(lines.values()))
    best = fastest(times)
    crossed = []
    for i in np.flatnonzero(np.diff(best)):
        old, new = best[i], best[i + 1]
        if min(old, new) < 0:
            continue
        behind, ahead = times[new, i : i + 2] - times[old, i : i + 2]
        if np.isfinite(behind - ahead):
            part, line = behind / (behind - ahead), times[old, i : i + 2]
        else:  # one of them has no time at one of the sizes
            part, line = 1.0, times[new, i + 1].repeat(2)
        size, seconds = (
            np.interp(part, [0, 1], values) for values in (sizes[i : i + 2], line)
        )
        crossed.append((float(size), float(seconds), names[new]))
    return crossed


def ranking(sizes: np.ndarray, lines: Mapping[str, np.ndarray]) -> str:
    """Describe in a sentence which algorithm is fastest from which size on."""
    if not lines:
        return "measured times."
    first = list(lines)[fastest(np.array(list(lines.values())))[0]]
    changes = crossings(sizes, lines)
    then = [f"from {_size(size)} {name}" for size, _, name in changes]
    return f"fastest is {', '.join([first, *then])}."


def _size(nbytes: float) -> str:
    """Format a size with two digits: nobody sees more in a picture."""
    number, unit = format_bytes(nbytes).split()
    return f"{float(f'{float(number):.2g}'):g} {unit}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _draw(
    ax: Axes,
    names: Sequence[str],
    sizes: np.ndarray,
    lines: Mapping[str, np.ndarray],
    measured: Mapping[str, Samples],
) -> None:
    """Draw lines and points, named right of them from top to bottom as they end."""
    ends, signs = {}, {}
    for number, name in enumerate(names):
        style = series_look(number)
        marker = style.pop("marker")
        if name in measured:
            at, middle, spread = medians(measured[name])
            bars = {"capsize": 2, "elinewidth": 1, "markersize": 4.5, "zorder": 3}
            dots: dict[str, Any] = {"fmt": marker, "color": style["color"]}
            signs[name] = ax.errorbar(at, middle, spread, **dots, **bars)
            ends[name] = float(middle[-1])
        if name in lines:
            (signs[name],) = ax.plot(sizes, lines[name], lw=1.8, zorder=2, **style)
            known = lines[name][~np.isnan(lines[name])]
            ends[name] = float(known[-1]) if len(known) else 0.0
    shown = sorted((name for name in names if ends[name] > 0), key=lambda n: -ends[n])
    place = {"loc": "outside right upper", "handlelength": 2.4, "fontsize": 9}
    ax.get_figure().legend([signs[name] for name in shown], shown, **place)


def _set_axes(ax: Axes, sizes: np.ndarray, rows: int, has_points: bool) -> None:
    """Make both axes logarithmic, with room below for the names of crossings."""
    beyond = (sizes[-1] / sizes[0]) ** (0.015 * has_points)
    ax.set(xscale="log", yscale="log", xlabel="size", ylabel="time")
    ax.set_xlim(sizes[0] / beyond, sizes[-1] * beyond)
    low, high = ax.get_ylim()
    room = (high / low) ** (0.04 + 0.06 * min(rows, 3))
    ax.set_ylim(low / room, high)
    bytes_axis(ax.xaxis, sizes[0], sizes[-1])
    seconds_axis(ax)
    ax.grid()


def _mark(ax: Axes, changes: Sequence[tuple[float, float, str]]) -> None:
    """Draw a ring at each crossing, and name below it who is fastest from there."""
    labels = Labels(ax, 8)
    bottom = ax.get_window_extent().y0
    for size, seconds, name in changes:
        ax.plot(size, seconds, "o", ms=7, mfc="none", mec=INK, mew=1.4, zorder=4)
        ax.vlines(size, 0, seconds, INK, "dotted", linewidth=1, zorder=1)
        x = ax.transData.transform((size, seconds))[0]
        for text in (f"{name} from {_size(size)}", _size(size)):
            width, height = labels.size(text)
            rows = (bottom + height * (0.7 + 1.15 * row) for row in range(4))
            if any(labels.put(text, x - width / 2, row) for row in rows):
                break

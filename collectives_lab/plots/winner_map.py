"""The winner map: which algorithm is fastest, for every size and world size.

Here you can draw it from formulas or numbers (`winner_map`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    Labels,
    diagram,
    key_above,
    settle,
)
from collectives_lab.plots.series import (
    SERIES,
    Cost,
    bytes_axis,
    fastest,
    seconds_of,
    setting,
)

SIZES = np.geomspace(1, 1e10, 301)
WORLD_SIZES = 2 ** np.arange(1, 18)
CLOSE = 0.05
EDGE = 2  # pixels between a name and the right edge of the map
DASHES = "--", ":", "-."


@mpl.rc_context(STYLE)
def winner_map(
    costs: Mapping[str, Cost],
    alpha: float | None = None,
    beta: float | None = None,
    *,
    nbytes: ArrayLike = SIZES,
    world_sizes: ArrayLike = WORLD_SIZES,
    lines: Mapping[str, ArrayLike] | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw which algorithm is fastest at each size and number of ranks.

    costs: by name, a function of (world_size, nbytes, alpha, beta) as in `costs`, or
    seconds `[world size, size]`. world_sizes: powers of two up to 131072 if left out.
    lines: sizes by name, one for each number of ranks, nan where there is none.
    Pale is where the next best is at most 5 % slower; a name there says which one, and
    a thin line stands between two such names. Of equals the first one wins.
    """
    sizes, worlds = np.asarray(nbytes, float), np.asarray(world_sizes)
    names = list(costs)
    if not names:
        raise ValueError("there is nothing to compare; give one algorithm or more")
    times = np.array(
        [seconds_of(n, costs[n], worlds[:, None], sizes, alpha, beta) for n in names]
    )
    winner = fastest(times)
    figure, ax = diagram(8, 4.4)
    second = _next(times, winner)
    _draw(ax, winner, second >= 0, sizes)
    _set_axes(ax, sizes, worlds)
    signs: dict[str, Any] = {"the next is within 5 %": Patch(fc=(INK, 0.3))}
    signs |= _draw_lines(ax, lines or {})
    key_above(ax, signs)  # so that the layout knows of a key before it is settled
    settle(figure)
    labels = Labels(ax, 8.5)
    labels.occupied += [box for line in ax.lines for box in _boxes(ax, line)]
    small = _name_regions(labels, winner, names)
    named = _name_next(labels, second, names)
    _part(ax, winner, np.where(np.isin(second, named), second, -1), _edges(sizes))
    patches = {n: Patch(fc=SERIES[names.index(n) % len(SERIES)]) for n in small}
    key_above(ax, patches | signs)
    where = setting(None, alpha, beta)
    shares = [(float((winner == i).mean()), name) for i, name in enumerate(names)]
    won = [f"{n} on {100 * s:.0f} %" for s, n in sorted(shares, reverse=True) if s]
    fact = f"Fastest: {', '.join(won)} of the map{f' ({where})' if where else ''}."
    figure.caption = fact if caption is None else caption
    figure.alt = (
        f"Map of size and world size, coloured by the fastest algorithm. {fact}"
    )
    return figure


def _next(times: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """Return who is second and hardly slower than the fastest; -1 where none is."""
    is_first = np.arange(len(times))[:, None, None] == winner
    rest = np.where(is_first, np.nan, times)
    second = fastest(rest)
    with np.errstate(invalid="ignore"):
        best = np.where(is_first, times, np.nan)
        is_close = np.fmin.reduce(rest) <= np.fmin.reduce(best) * (1 + CLOSE)
    return np.where(is_close, second, -1)


def _draw(
    ax: Axes, winner: np.ndarray, is_close: np.ndarray, sizes: np.ndarray
) -> None:
    pixels = mpl.colors.ListedColormap(SERIES)(winner % len(SERIES))
    pixels[..., 3] = np.where(winner < 0, 0, np.where(is_close, 0.5, 1))
    rows = np.arange(len(winner) + 1) - 0.5
    ax.set_xscale("log")
    ax.pcolormesh(_edges(sizes), rows, pixels, rasterized=True)


def _part(ax: Axes, winner: np.ndarray, second: np.ndarray, edges: np.ndarray) -> None:
    """Rule a line where the winner stays and the next, -1 for none, is another."""
    others = np.where(second < 0, np.nan, second)
    under, beside = (
        np.argwhere((np.diff(winner, axis=n) == 0) & (abs(np.diff(others, axis=n)) > 0))
        for n in (0, 1)
    )
    rules = [[(edges[c], r + 0.5), (edges[c + 1], r + 0.5)] for r, c in under]
    rules += [[(edges[c + 1], r - 0.5), (edges[c + 1], r + 0.5)] for r, c in beside]
    if rules:
        for color, width in ("white", 2.5), ("black", 1):  # on white to be seen
            style = {"colors": color, "linewidths": width, "capstyle": "projecting"}
            ax.add_collection(LineCollection(rules, **style), autolim=False)


def _draw_lines(ax: Axes, lines: Mapping[str, ArrayLike]) -> dict[str, Line2D]:
    """Draw sizes by number of ranks, on white to be seen; return a sign of each."""
    signs = {}
    for (name, sizes), dashes in zip(lines.items(), cycle(DASHES), strict=False):
        at = np.asarray(sizes, float)
        rows, free = np.arange(len(at)), {"scalex": False, "scaley": False}
        ax.plot(at, rows, color="white", linewidth=3.5, **free)
        ax.plot(at, rows, color="black", linestyle=dashes, **free)
        signs[name] = Line2D([], [], color=INK, linestyle=dashes)
    return signs


def _boxes(ax: Axes, line: Line2D, parts: int = 8) -> Iterator[Bbox]:
    """Yield small boxes in pixels that cover what is seen of a line."""
    frame = ax.get_window_extent()
    points = line.get_transform().transform(line.get_xydata())
    for start, end in pairwise(points):
        corners = np.linspace(start, end, parts + 1)
        for one, other in pairwise(corners):
            if frame.contains(*one) and frame.contains(*other):
                yield Bbox([np.minimum(one, other), np.maximum(one, other)])


def _edges(sizes: np.ndarray) -> np.ndarray:
    """Return the logarithmic middles between sizes, and as far beyond the ends.

    pcolormesh would take the middles of the sizes themselves, and go below 0.
    """
    logs = np.log(sizes)
    middles = (logs[1:] + logs[:-1]) / 2
    ends = 2 * logs[[0, -1]] - middles[[0, -1]]
    return np.exp([ends[0], *middles, ends[1]])


def _set_axes(ax: Axes, sizes: np.ndarray, worlds: np.ndarray) -> None:
    bytes_axis(ax.xaxis, sizes[0], sizes[-1])
    rows = range(0, len(worlds), -(-len(worlds) // 17))
    ax.set_yticks(rows, [str(worlds[row]) for row in rows])
    ax.set(xlabel="size", ylabel="ranks")


def _name_regions(
    labels: Labels, winner: np.ndarray, names: Sequence[str]
) -> list[str]:
    """Write each name into its region; return those that have no room for theirs.

    In a legend alone eight colours would have to be looked up.
    """
    without = []
    for number, name in enumerate(names):
        region = winner == number
        texts = name, _in_two_lines(name)
        if region.any() and not any(_name(labels, region, text) for text in texts):
            without.append(name)
    return without


def _name_next(labels: Labels, second: np.ndarray, names: Sequence[str]) -> list[int]:
    """Write into the pale regions who is hardly slower; return for whom is room."""
    texts = [f"{name}\nis within 5 %" for name in names]
    return [
        number
        for number, text in enumerate(texts)
        if any(_name(labels, second == number, text, angle) for angle in (0, 90))
    ]


def _name(labels: Labels, region: np.ndarray, text: str, angle: float = 0) -> bool:
    """Write a text into a region, if there is a place where it fits in."""
    frame = labels.ax.get_window_extent()
    cell_width, cell_height = frame.width / region.shape[1], frame.height / len(region)
    width, height = labels.size(text, angle)
    box = math.ceil(width / cell_width), math.ceil(height / cell_height)
    free = region.copy()
    free[:, -math.ceil(EDGE / cell_width) :] = False
    for one in labels.occupied:
        left, right = ((x - frame.x0) / cell_width for x in (one.x0, one.x1))
        low, high = ((y - frame.y0) / cell_height for y in (one.y0, one.y1))
        free[int(low) : math.ceil(high), int(left) : math.ceil(right)] = False
    place = _roomiest(free, *box)
    if place is None:
        return False
    x = frame.x0 + (place[1] + 0.5) * cell_width - width / 2
    return labels.put(text, x, frame.y0 + (place[0] + 0.5) * cell_height, angle)


def _in_two_lines(name: str) -> str:
    """Break a name before the underscore that is nearest to its middle."""
    breaks = [i for i, letter in enumerate(name) if letter in "_ "]
    if not breaks:
        return name
    at = min(breaks, key=lambda i: abs(i - len(name) / 2))
    return f"{name[:at]}\n{name[at:].strip()}"


def _roomiest(
    region: np.ndarray, width: int, height: int
) -> tuple[float, float] | None:
    """Return the middle, row and column, of the box nearest the region's centre."""
    sums = np.pad(region.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    if region.shape[0] < height or region.shape[1] < width:
        return None
    inside = sums[height:, width:] - sums[:-height, width:]
    inside = inside - sums[height:, :-width] + sums[:-height, :-width]
    rows, columns = np.nonzero(inside == width * height)
    if not len(rows):
        return None
    middle = rows + (height - 1) / 2, columns + (width - 1) / 2
    centre = [places.mean() for places in np.nonzero(region)]
    away = [
        (at - to) / n for at, to, n in zip(middle, centre, region.shape, strict=True)
    ]
    best = np.argmin(away[0] ** 2 + away[1] ** 2)
    return float(middle[0][best]), float(middle[1][best])

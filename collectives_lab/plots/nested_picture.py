"""The GPUs of a large mesh as boxes in boxes.

Here you can draw which dimension of a mesh lies on which link (`nested`), for thousands
of ranks: GPUs in a box, boxes in a row, and rows below each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import INK, STYLE, Diagram, blank, key_above
from collectives_lab.plots.series import series_colors

GPU, COLUMNS = 0.17, 4
"""Inches of a GPU, and GPUs beside each other."""
WIDTH, HEIGHT = COLUMNS * GPU + 0.14, 2 * GPU + 0.32
"""Inches of a box, with its name above the GPUs."""
ACROSS, DOWN = 0.3, 0.56
"""Inches between two boxes of a row, and between boxes of two rows."""


@mpl.rc_context(STYLE)
def nested(
    degrees: Mapping[str, int],
    boxes: tuple[str, str],
    links: Mapping[str, str],
    caption: str,
    looks: Sequence[str] = (),
) -> Diagram:
    """Draw a mesh of three dimensions, with a line between boxes along each of them.

    degrees: ranks along each dimension by its name, the outermost first. boxes: what a
    row and a box of GPUs are called. links: by dimension what its messages cross.
    looks: as for `mesh`. Of more than three rows or boxes the first two and the last
    are drawn, with dots to the last. Raises ValueError for other than three dimensions,
    and for more than eight GPUs in a box.
    """
    if len(degrees) != 3 or not 1 <= [*degrees.values()][-1] <= 2 * COLUMNS:
        raise ValueError(
            f"a mesh of {dict(degrees)}; need three dimensions and at most "
            f"{2 * COLUMNS} GPUs in a box"
        )
    (outer, rows), (middle, columns), (inner, gpus) = degrees.items()
    colors = series_colors([*looks, *degrees])
    lefts = {n: at * (WIDTH + ACROSS) for at, n in enumerate(_drawn(columns))}
    tops = {n: at * (HEIGHT + DOWN) for at, n in enumerate(_drawn(rows))}
    right, bottom = max(lefts.values()) + WIDTH, max(tops.values()) + HEIGHT
    figure = blank(right + 0.3, bottom + 1.15)
    ax = figure.add_subplot()
    ax.set_axis_off()
    ax.set(xlim=(-0.13, right + 0.13), ylim=(bottom + 0.13, -0.33), aspect="equal")
    line = {"linewidth": 2.2, "zorder": 0}
    for row, top in tops.items():
        frame = (-0.1, top - 0.27), right + 0.2, HEIGHT + 0.36
        look = {"fc": "none", "ec": colors[middle], "lw": 1.4}
        ax.add_patch(Rectangle(*frame, **look))
        ax.text(-0.02, top - 0.14, f"{boxes[0]} {row}", size=7.5, va="center")
        for one, other in pairwise(lefts):
            ends, y = [lefts[one] + WIDTH, lefts[other]], top + HEIGHT / 2
            style = "-" if other == one + 1 else ":"
            ax.plot(ends, [y, y], color=colors[middle], linestyle=style, **line)
        for column, left in lefts.items():
            _box(ax, (left, top), f"{boxes[1]} {column}", gpus, colors[inner])
    for left in lefts.values():
        for one, other in pairwise(tops):
            ends, x = [tops[one] + HEIGHT, tops[other]], left + 0.94 * WIDTH
            style = "-" if other == one + 1 else ":"
            ax.plot([x, x], ends, color=colors[outer], linestyle=style, **line)
    sign = {"linewidth": 2.2}
    sizes = {f"{name}, {n} ranks: {links[name]}": name for name, n in degrees.items()}
    key = {text: Line2D([], [], color=colors[sizes[text]], **sign) for text in sizes}
    key_above(ax, dict(reversed(key.items())), most=1)
    figure.caption = caption
    figure.alt = f"{caption} From the outermost: {'; '.join(sizes)}."
    return figure


def _drawn(count: int) -> list[int]:
    """Return the numbers of the boxes that are drawn."""
    return [*range(count)] if count <= 3 else [0, 1, count - 1]


def _box(
    ax: Axes, corner: tuple[float, float], name: str, gpus: int, color: str
) -> None:
    """Draw a box with its name and its GPUs."""
    left, top = corner
    look = {"fc": "none", "ec": color, "lw": 1.8}
    ax.add_patch(Rectangle(corner, WIDTH, HEIGHT, **look))
    ax.text(left + 0.07, top + 0.13, name, size=7.5, va="center")
    for gpu in range(gpus):
        x = left + 0.07 + gpu % COLUMNS * GPU
        y = top + 0.25 + gpu // COLUMNS * GPU
        side = 0.8 * GPU
        ax.add_patch(Rectangle((x, y), side, side, fc=INK, ec="none"))

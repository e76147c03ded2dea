"""Before and after: what all ranks hold, and which ranks are in each number.

Here you can draw the buffers of all ranks before and after a verb (`before_after`), and
ask which ranks a sum is made of (`ranks_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from collectives_lab.plots.buffer_cells import (
    MOST_DOTS,
    ROW,
    Cells,
    Part,
    cells_of,
    part_of,
)
from collectives_lab.plots.dots import Dots
from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    diagram,
    pill_text,
    settle,
)

MOST_RANKS = 26  # whose powers of four are exact in float64
LARGE = 1500  # dots whose drawing is larger than a page can be
COUNTED = f"The number in a dark box counts the ranks where they are over {MOST_DOTS}."


def ranks_in(value: float) -> list[int]:
    """Return the ranks in a sum of `4**rank`, or of that times its slot's power of ten.

    A rank that was added twice is there twice. Of the powers of ten that fit, the first
    is taken with which no rank is doubled: `ranks_in(850)` is `[0, 1, 2, 3]`. What is
    no such sum has no ranks.
    """
    if not 0 < value < float("inf") or value != int(value):
        return []
    whole, readings = int(value), []
    while whole:
        ranks = [r for r in range(MOST_RANKS) for _ in range(whole // 4**r % 4)]
        readings.append(ranks)
        whole = whole // 10 if whole % 10 == 0 else 0
    return next((r for r in readings if len({*r}) == len(r)), readings[0])


@mpl.rc_context(STYLE)
def before_after(
    before: Sequence[Any],
    after: Sequence[Any],
    *,
    who: Callable[[float], Sequence[int]] = ranks_in,
    ranks: Iterable[int] | None = None,
    numbers: tuple[int, int] | None = None,
    own_slots: bool = False,
    caption: str | None = None,
) -> Diagram:
    """Draw what every rank holds before and after a verb, with dots for who is in it.

    before, after: the buffer of each rank, a one-dimensional tensor or a list of
    numbers; None where a rank has none. who: the ranks whose contributions are in a
    number; of more than 32 their count is written in place of dots. ranks: those to
    look at, of all. numbers: `(start, stop)`, those of a buffer to look at. own_slots:
    whether a rank's only number stands in the column of that rank. Of a buffer
    at most 16 numbers are drawn, and in all at most 512; where that is too few for all
    ranks, the first and the last ranks are drawn. The caption says what is left out.
    Raises ValueError unless the ranks are the same before and after, for a rank that is
    not there, and unless 0 <= start < stop.
    """
    part = part_of(before, after, ranks, numbers)
    sides = [part.of(before), part.of(after)]
    contributors = [[[who(v) for v in values] for values in side] for side in sides]
    counts = [len(whose) for side in contributors for row in side for whose in row]
    cells = cells_of(part, sides, counts, own_slots)
    figure = _picture(part, sides, contributors, cells)
    stacked = cells.for_a_phone()
    if stacked:
        figure.narrow = _picture(part, sides, contributors, stacked)
    _describe(figure, part, sides, max([0, *counts]), caption)
    return figure


def _picture(
    part: Part,
    sides: Sequence[Sequence[list[float]]],
    contributors: Sequence[Sequence[Sequence[Sequence[int]]]],
    cells: Cells,
) -> Diagram:
    """Draw both sides, beside each other or one above the other."""
    figure, ax = diagram(*cells.size())
    _set_axes(ax, part.shown, cells)
    settle(figure)
    if part.shown[-1] > 99:
        _make_room(ax, len(str(part.shown[-1])))
    dots = Dots(0.2, cells.inch, part.world_size)
    for (left, tops), side, rows in zip(
        cells.sides(), sides, contributors, strict=True
    ):
        lefts = cells.lefts(left, part.shown, side)
        _draw(ax, side, lefts, tops, cells)
        _draw_contributors(ax, dots, rows, lefts, tops, cells)
    dots.draw(ax)
    figure.is_large = len(dots.places) > LARGE
    return figure


def _describe(
    figure: Diagram,
    part: Part,
    sides: Sequence[Sequence[list[float]]],
    most: int,
    caption: str | None,
) -> None:
    """Write the caption and the alternative text; most: contributors of one number."""
    p = part.world_size
    fact = f"{p} ranks, before and after; a dot says that a rank's number is in it."
    left_out = [COUNTED] * (most > MOST_DOTS) + part.left_out()
    figure.caption = " ".join([fact if caption is None else caption, *left_out])
    words = [
        _described(when, side, part.shown)
        for when, side in zip(("Before", "After"), sides, strict=True)
    ]
    figure.alt = " ".join([f"What {p} ranks hold.", *left_out, *words])


def _make_room(ax: Axes, digits: int) -> None:
    """Leave room for long names of ranks, of which the layout cuts a few pixels off."""
    box, width = ax.get_position(), ax.figure.get_figwidth()
    left = (0.44 + 0.08 * digits) / width
    ax.set_position((left, box.y0, 1 - left - 0.04 / width, box.height))
    ax.set_anchor("W")


def _draw_contributors(
    ax: Axes,
    dots: Dots,
    rows: Sequence[Sequence[Sequence[int]]],
    lefts: Sequence[int],
    tops: Sequence[float],
    cells: Cells,
) -> None:
    """Place dots below each number, in rows of a few, or write how many they are."""
    for middle, left, row in zip(tops, lefts, rows, strict=True):
        top = middle - cells.height / 2
        for x, ranks in enumerate(row, left):
            if len(ranks) > MOST_DOTS:
                _count(ax, x, top, len(ranks), cells.inch)
                continue
            for n in range(0, len(ranks), ROW):
                dots.row(x, top + 0.62 + 0.24 * n / ROW, ranks[n : n + ROW])


def _count(ax: Axes, x: float, top: float, ranks: int, inch: float) -> None:
    """Write below the number how many ranks are in it."""
    size = min(8.0, inch * 72 / (0.66 * len(str(ranks)) + 0.9))
    pill_text(ax, x, top + 0.8, str(ranks), size)


def _set_axes(ax: Axes, shown: Sequence[int], cells: Cells) -> None:
    height, sides = cells.height, cells.sides()
    ax.set(xlim=(-0.55, cells.columns() - 0.45), aspect="equal")
    ax.set_ylim(sides[1][1][-1] + 0.5 * height + 0.05, -0.5 * height - 0.45)
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    named = sides if cells.is_stacked else sides[:1]
    places = [top for _, tops in named for top in tops]
    ax.set_yticks(places, [f"rank {rank}" for rank in shown] * len(named))
    ax.tick_params(length=0)
    words = "before", "↓ after" if cells.is_stacked else "after"
    for (left, tops), width, word in zip(sides, cells.widths, words, strict=True):
        y = tops[0] - 0.5 * height - 0.1
        ax.text(left + (width - 1) / 2, y, word, ha="center", va="bottom")
    for top in [] if cells.is_stacked else cells.tops:
        ax.text(cells.widths[0], top, "→", ha="center", va="center", fontsize=12)


def _draw(
    ax: Axes,
    side: Sequence[list[float]],
    lefts: Sequence[int],
    tops: Sequence[float],
    cells: Cells,
) -> None:
    """Draw the cells and, where there is room, their numbers, or None without any."""
    boxes = []
    for middle, left, values in zip(tops, lefts, side, strict=True):
        top = middle - cells.height / 2
        for x, value in enumerate(values, left):
            boxes.append(Rectangle((x - 0.5, top), 1, cells.height))
            text = _short(value)
            size = min(9.0, cells.inch * 72 / (0.66 * len(text) + 0.5))
            if size >= 5:
                y = top + 0.3
                ax.text(x, y, text, fontsize=size, ha="center", va="center")
        if not values and cells.inch >= 0.5:
            style = {"fontsize": 8, "fontstyle": "italic", "alpha": 0.7}
            ax.text(left, middle, "None", ha="center", va="center", **style)
    edge = {"edgecolor": (INK, 0.5), "linewidth": 0.6}
    ax.add_collection(PatchCollection(boxes, facecolor="none", **edge))


def _short(value: float) -> str:
    exact = f"{value:.7g}"
    return exact if len(exact) <= 7 else f"{value:.3g}"


def _described(when: str, side: Sequence[list[float]], shown: Sequence[int]) -> str:
    rows = (
        f"rank {rank} {', '.join(f'{v:.7g}' for v in values) or 'nothing'}"
        for rank, values in zip(shown, side, strict=True)
    )
    return f"{when}: {'; '.join(rows)}."

"""Before and after: what all ranks hold, and which ranks are in each number.

Here you can draw the buffers of all ranks before and after a verb (`before_after`), and
ask which ranks a sum is made of (`ranks_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from collectives_lab.plots.dots import Dots
from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, settle

MOST_RANKS = 26  # whose powers of four are exact in float64
MOST_NUMBERS = 16  # of a buffer that are drawn
ROW = 4  # dots beside each other
WIDEST = 9.5  # inches


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
    caption: str | None = None,
) -> Diagram:
    """Draw what every rank holds before and after a verb, with dots for who is in it.

    before, after: the buffer of each rank, a one-dimensional tensor or a list of
    numbers; None where a rank has none. who: the ranks whose contributions are in a
    number. Of a buffer the first 16 numbers are drawn, and the caption says so. Raises
    ValueError unless the ranks are the same before and after.
    """
    if len(before) != len(after) or not len(before):
        raise ValueError(
            f"{len(before)} ranks before and {len(after)} after; need the same, and one"
        )
    sides = [
        [_numbers(rank, buffer) for rank, buffer in enumerate(side)]
        for side in (before, after)
    ]
    longest = max(len(values) for side in sides for values in side)
    sides = [[values[:MOST_NUMBERS] for values in side] for side in sides]
    p, widths = len(before), [max(1, *map(len, side)) for side in sides]
    most = max(len(who(v)) for side in sides for values in side for v in values or [0])
    height = 0.62 + 0.24 * -(-most // ROW)
    columns = sum(widths) + 1
    inch = min(0.6, (WIDEST - 0.95) / columns)
    figure, ax = diagram(columns * inch + 0.95, p * height * inch + 0.35)
    _set_axes(ax, p, widths, height)
    settle(figure)
    dots = Dots(0.21, inch, p)
    for side, left in zip(sides, (0, widths[0] + 1), strict=True):
        _draw(ax, side, left, height, inch)
        for rank, values in enumerate(side):
            for slot, value in enumerate(values):
                _place(dots, left + slot, (rank - 0.5) * height, who(value))
    dots.draw(ax)
    fact = f"{p} ranks, before and after; a dot says that a rank's number is in it."
    figure.caption = fact if caption is None else caption
    if longest > MOST_NUMBERS:
        figure.caption += f" The first {MOST_NUMBERS} of {longest} numbers."
    figure.alt = f"What {p} ranks hold. {_described('Before', sides[0])} " + _described(
        "After", sides[1]
    )
    return figure


def _numbers(rank: int, buffer: Any) -> list[float]:
    if buffer is None:
        return []
    numbers = buffer.tolist() if hasattr(buffer, "tolist") else list(buffer)
    if not all(isinstance(number, (int, float)) for number in numbers):
        raise ValueError(
            f"rank {rank}: a buffer of more than one dimension, or not of numbers; "
            "need a one-dimensional tensor"
        )
    return numbers


def _place(dots: Dots, x: float, top: float, ranks: Sequence[int]) -> None:
    """Place dots below the number, in rows of a few."""
    for n in range(0, len(ranks), ROW):
        dots.row(x, top + 0.62 + 0.24 * n / ROW, ranks[n : n + ROW])


def _set_axes(ax: Axes, p: int, widths: Sequence[int], height: float) -> None:
    before, after = widths
    ax.set(xlim=(-0.55, before + after + 0.55), aspect="equal")
    ax.set_ylim((p - 0.5) * height + 0.05, -0.5 * height - 0.45)
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([r * height for r in range(p)], [f"rank {r}" for r in range(p)])
    ax.tick_params(length=0)
    middles = (before - 1) / 2, before + 1 + (after - 1) / 2
    for x, word in zip(middles, ("before", "after"), strict=True):
        ax.text(x, -0.5 * height - 0.1, word, ha="center", va="bottom")
    for rank in range(p):
        ax.text(before, rank * height, "→", ha="center", va="center", fontsize=12)


def _draw(
    ax: Axes, side: Sequence[list[float]], left: int, height: float, inch: float
) -> None:
    """Draw the cells and, where there is room, their numbers."""
    cells = []
    for rank, values in enumerate(side):
        top = (rank - 0.5) * height
        for slot, value in enumerate(values):
            x = left + slot
            cells.append(Rectangle((x - 0.5, top), 1, height))
            text = _short(value)
            size = min(9.0, inch * 72 / (0.66 * len(text) + 0.5))
            if size >= 5:
                y = top + 0.3
                ax.text(x, y, text, fontsize=size, ha="center", va="center")
    edge = {"edgecolor": (INK, 0.5), "linewidth": 0.6}
    ax.add_collection(PatchCollection(cells, facecolor="none", **edge))


def _short(value: float) -> str:
    exact = f"{value:.7g}"
    return exact if len(exact) <= 7 else f"{value:.3g}"


def _described(when: str, side: Sequence[list[float]]) -> str:
    rows = (
        f"rank {rank} {', '.join(f'{v:.7g}' for v in values) or 'nothing'}"
        for rank, values in enumerate(side)
    )
    return f"{when}: {'; '.join(rows)}."

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

from collectives_lab.plots.dots import Dots
from collectives_lab.plots.figure import INK, PILL, STYLE, Diagram, diagram, settle
from collectives_lab.plots.window import chosen_of

MOST_RANKS = 26  # whose powers of four are exact in float64
MOST_NUMBERS = 16  # of a buffer that are drawn
MOST_CELLS = 512  # of all buffers that are drawn
MOST_ROWS = 16  # ranks that are drawn in any case
FIRST_AND_LAST = 4  # ranks that are drawn of each, of too many
LARGE = 1500  # dots whose drawing is larger than a page can be
MOST_DOTS = 32  # in a number; of more their count is written
GAP = 0.5  # between ranks where others are left out
COUNTED = f"The number in a dark box counts the ranks where they are over {MOST_DOTS}."
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
    ranks: Iterable[int] | None = None,
    numbers: tuple[int, int] | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw what every rank holds before and after a verb, with dots for who is in it.

    before, after: the buffer of each rank, a one-dimensional tensor or a list of
    numbers; None where a rank has none. who: the ranks whose contributions are in a
    number; of more than 32 their count is written in place of dots. ranks: those to
    look at, of all. numbers: `(start, stop)`, those of a buffer to look at. Of a buffer
    at most 16 numbers are drawn, and in all at most 512; where that is too few for all
    ranks, the first and the last ranks are drawn. The caption says what is left out.
    Raises ValueError unless the ranks are the same before and after, for a rank that is
    not there, and unless 0 <= start < stop.
    """
    if len(before) != len(after) or not len(before):
        raise ValueError(
            f"{len(before)} ranks before and {len(after)} after; need the same, and one"
        )
    p, chosen = len(before), chosen_of(len(before), ranks)
    start, stop = numbers or (0, MOST_NUMBERS)
    if not 0 <= start < stop:
        raise ValueError(f"numbers {start} to {stop}; need 0 <= start < stop")
    part = slice(start, min(stop, start + MOST_NUMBERS))
    longest = max(_length(buffer) for side in (before, after) for buffer in side)
    wide = sum(
        max(1, *(len(range(*part.indices(_length(side[r])))) for r in chosen))
        for side in (before, after)
    )
    is_all = len(chosen) <= max(MOST_ROWS, MOST_CELLS // wide)
    shown = chosen if is_all else _ends(chosen)
    sides = [
        [_numbers(rank, side[rank], part) for rank in shown] for side in (before, after)
    ]
    inside = [[[who(v) for v in values] for values in side] for side in sides]
    widths = [max(1, *map(len, side)) for side in sides]
    drawn = [len(w) for side in inside for row in side for w in row]
    most, dotted = max([0, *drawn]), max([0, *(n for n in drawn if n <= MOST_DOTS)])
    rows = max(-(-dotted // ROW), 2 * (most > MOST_DOTS))  # a count is as high as two
    height = 0.62 + 0.24 * rows
    columns = sum(widths) + 1
    names = 0.95 + 0.1 * max(0, len(str(shown[-1])) - 2)
    inch = min(0.6, (WIDEST - names) / columns)
    tops = _tops(shown, chosen, height)
    figure, ax = diagram(columns * inch + names, (tops[-1] + height) * inch + 0.35)
    _set_axes(ax, shown, widths, height, tops)
    settle(figure)
    if shown[-1] > 99:
        _make_room(ax, len(str(shown[-1])))
    dots = Dots(0.21, inch, p)
    for side, insides, left in zip(sides, inside, (0, widths[0] + 1), strict=True):
        _draw(ax, side, left, height, inch, tops)
        for top, row in zip(tops, insides, strict=True):
            for slot, whose in enumerate(row):
                place = left + slot, top - height / 2
                if len(whose) <= MOST_DOTS:
                    _place(dots, *place, whose)
                else:
                    _count(ax, *place, len(whose), inch)
    dots.draw(ax)
    figure.is_large = len(dots.places) > LARGE
    fact = f"{p} ranks, before and after; a dot says that a rank's number is in it."
    left_out = _left_out(p, chosen, shown, part, longest)
    if most > MOST_DOTS:
        left_out = [COUNTED, *left_out]
    figure.caption = " ".join([fact if caption is None else caption, *left_out])
    words = [
        _described(when, side, shown)
        for when, side in zip(("Before", "After"), sides, strict=True)
    ]
    figure.alt = " ".join([f"What {p} ranks hold.", *left_out, *words])
    return figure


def _make_room(ax: Axes, digits: int) -> None:
    """Leave room for long names of ranks, of which the layout cuts a few pixels off."""
    box, width = ax.get_position(), ax.figure.get_figwidth()
    left = (0.44 + 0.08 * digits) / width
    ax.set_position((left, box.y0, 1 - left - 0.04 / width, box.height))
    ax.set_anchor("W")


def _ends(ranks: list[int]) -> list[int]:
    """Return the first and the last few ranks."""
    return ranks[:FIRST_AND_LAST] + ranks[-FIRST_AND_LAST:]


def _tops(shown: list[int], chosen: list[int], height: float) -> list[float]:
    """Return where the middle of each row is; where ranks are left out is a gap."""
    gap = GAP if len(shown) < len(chosen) else 0.0
    return [row * height + gap * (row >= FIRST_AND_LAST) for row in range(len(shown))]


def _left_out(
    p: int, chosen: list[int], shown: list[int], part: slice, longest: int
) -> list[str]:
    """Say in sentences which numbers and ranks are not drawn, and how to see them."""
    sentences = []
    if part.start or part.stop < longest:
        stop = min(part.stop, longest)
        which = f"Numbers {part.start} to {stop - 1} of {longest}"
        if not part.start:
            which = f"The first {stop} of {longest} numbers"
        sentences.append(f"{which}; numbers=(start, stop) shows others.")
    if len(shown) < len(chosen):
        sentences.append(
            f"The first {FIRST_AND_LAST} and the last {FIRST_AND_LAST} of "
            f"{len(chosen)} ranks; ranks=[...] shows others."
        )
    elif len(chosen) < p:
        sentences.append(f"{len(chosen)} of {p} ranks are drawn.")
    return sentences


def _length(buffer: Any) -> int:
    return 0 if buffer is None else len(buffer)


def _numbers(rank: int, buffer: Any, part: slice) -> list[float]:
    """Return a part of a rank's numbers; the others are not looked at."""
    if buffer is None:
        return []
    some = buffer[part]
    numbers = some.tolist() if hasattr(some, "tolist") else list(some)
    if not all(isinstance(number, (int, float)) for number in numbers):
        raise ValueError(
            f"rank {rank}: a buffer of more than one dimension, or not of numbers; "
            "need a one-dimensional tensor"
        )
    return numbers


def _count(ax: Axes, x: float, top: float, ranks: int, inch: float) -> None:
    """Write below the number how many ranks are in it."""
    size = min(8.0, inch * 72 / (0.66 * len(str(ranks)) + 0.9))
    pill = {"boxstyle": "round,pad=0.2", "facecolor": PILL, "edgecolor": "none"}
    style: dict[str, Any] = {"ha": "center", "va": "center", "bbox": pill}
    ax.text(x, top + 0.8, str(ranks), fontsize=size, color="white", **style)


def _place(dots: Dots, x: float, top: float, ranks: Sequence[int]) -> None:
    """Place dots below the number, in rows of a few."""
    for n in range(0, len(ranks), ROW):
        dots.row(x, top + 0.62 + 0.24 * n / ROW, ranks[n : n + ROW])


def _set_axes(
    ax: Axes,
    shown: Sequence[int],
    widths: Sequence[int],
    height: float,
    tops: Sequence[float],
) -> None:
    before, after = widths
    ax.set(xlim=(-0.55, before + after + 0.55), aspect="equal")
    ax.set_ylim(tops[-1] + 0.5 * height + 0.05, -0.5 * height - 0.45)
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks(tops, [f"rank {rank}" for rank in shown])
    ax.tick_params(length=0)
    middles = (before - 1) / 2, before + 1 + (after - 1) / 2
    for x, word in zip(middles, ("before", "after"), strict=True):
        ax.text(x, -0.5 * height - 0.1, word, ha="center", va="bottom")
    for top in tops:
        ax.text(before, top, "→", ha="center", va="center", fontsize=12)


def _draw(
    ax: Axes,
    side: Sequence[list[float]],
    left: int,
    height: float,
    inch: float,
    tops: Sequence[float],
) -> None:
    """Draw the cells and, where there is room, their numbers."""
    cells = []
    for middle, values in zip(tops, side, strict=True):
        top = middle - height / 2
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


def _described(when: str, side: Sequence[list[float]], shown: Sequence[int]) -> str:
    rows = (
        f"rank {rank} {', '.join(f'{v:.7g}' for v in values) or 'nothing'}"
        for rank, values in zip(shown, side, strict=True)
    )
    return f"{when}: {'; '.join(rows)}."

"""The cells of a picture of buffers: which numbers are drawn, and where.

Here you can choose ranks and numbers for which there is room (`part_of`), and place
their cells (`cells_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collectives_lab.plots.figure import PHONE
from collectives_lab.plots.window import chosen_of

MOST_NUMBERS = 16  # of a buffer that are drawn
MOST_CELLS = 512  # of all buffers that are drawn
MOST_ROWS = 16  # ranks that are drawn in any case
FIRST_AND_LAST = 4  # ranks that are drawn of each, of too many
MOST_DOTS = 32  # in a number; of more their count is written
GAP = 0.5  # between ranks where others are left out
ROW = 4  # dots beside each other
WIDEST = 9.5  # inches


@dataclass(frozen=True)
class Part:
    """The ranks and the numbers of their buffers that are drawn.

    chosen: the ranks to look at. shown: those of them for which there is room. numbers:
    a slice of each buffer. longest: numbers in the longest one.
    """

    world_size: int
    chosen: list[int]
    shown: list[int]
    numbers: slice
    longest: int

    def of(self, buffers: Sequence[Any]) -> list[list[float]]:
        """Return the numbers that are drawn, by rank; others are not looked at."""
        return [_numbers(rank, buffers[rank], self.numbers) for rank in self.shown]

    def left_out(self) -> list[str]:
        """Say which numbers and ranks are not drawn, and how to see them."""
        sentences = []
        start, stop = self.numbers.start, min(self.numbers.stop, self.longest)
        if start or self.numbers.stop < self.longest:
            which = f"Numbers {start} to {stop - 1} of {self.longest}"
            if not start:
                which = f"The first {stop} of {self.longest} numbers"
            sentences.append(f"{which}; numbers=(start, stop) shows others.")
        count = len(self.chosen)
        if len(self.shown) < count:
            sentences.append(
                f"The first {FIRST_AND_LAST} and the last {FIRST_AND_LAST} of "
                f"{count} ranks; ranks=[...] shows others."
            )
        elif count < self.world_size:
            sentences.append(f"{count} of {self.world_size} ranks are drawn.")
        return sentences


@dataclass(frozen=True)
class Cells:
    """The places of the cells, in units of a cell's width.

    widths: cells of a rank before and after. height: of a cell. tops: the middle of
    each rank's row. inch: inches in a unit. names: inches for the names of the ranks.
    is_stacked: whether the cells after the verb are below those before it. own_slots:
    whether a rank's only number stands in the column of that rank.
    """

    widths: list[int]
    height: float
    tops: list[float]
    inch: float
    names: float
    is_stacked: bool = False
    own_slots: bool = False

    def sides(self) -> list[tuple[int, list[float]]]:
        """Return the first column before and after, and the middles of the rows."""
        if not self.is_stacked:
            return [(0, self.tops), (self.widths[0] + 1, self.tops)]
        below = self.tops[-1] + self.height + 0.6
        return [(0, self.tops), (0, [below + top for top in self.tops])]

    def lefts(
        self, left: int, shown: Sequence[int], side: Sequence[list[float]]
    ) -> list[int]:
        """Return the column of each rank's first number on a side.

        left: the first column of the side.
        """
        return [
            left + rank * (self.own_slots and len(values) == 1)
            for rank, values in zip(shown, side, strict=True)
        ]

    def columns(self) -> int:
        """Return how many cells are beside each other, an arrow's place counted."""
        return max(self.widths) if self.is_stacked else sum(self.widths) + 1

    def size(self) -> tuple[float, float]:
        """Return the width and the height of the figure in inches."""
        width = self.columns() * self.inch + self.names
        return width, (self.sides()[1][1][-1] + self.height) * self.inch + 0.35

    def for_a_phone(self) -> Cells | None:
        """Return the cells stacked, if they fit a phone only then."""
        stacked = replace(self, is_stacked=True)
        return stacked if stacked.size()[0] <= PHONE < self.size()[0] else None


def part_of(
    before: Sequence[Any],
    after: Sequence[Any],
    ranks: Iterable[int] | None,
    numbers: tuple[int, int] | None,
) -> Part:
    """Choose the ranks and the numbers to draw; errors as for `before_after`."""
    if len(before) != len(after) or not len(before):
        raise ValueError(
            f"{len(before)} ranks before and {len(after)} after; need the same, and one"
        )
    chosen = chosen_of(len(before), ranks)
    start, stop = numbers or (0, MOST_NUMBERS)
    if not 0 <= start < stop:
        raise ValueError(f"numbers {start} to {stop}; need 0 <= start < stop")
    part = slice(start, min(stop, start + MOST_NUMBERS))
    longest = max(_length(buffer) for side in (before, after) for buffer in side)
    widest = sum(
        max(1, *(len(range(*part.indices(_length(side[r])))) for r in chosen))
        for side in (before, after)
    )
    has_room = len(chosen) <= max(MOST_ROWS, MOST_CELLS // widest)
    shown = chosen if has_room else chosen[:FIRST_AND_LAST] + chosen[-FIRST_AND_LAST:]
    return Part(len(before), chosen, shown, part, longest)


def cells_of(
    part: Part,
    sides: Sequence[Sequence[list[float]]],
    counts: Sequence[int],
    own_slots: bool = False,
) -> Cells:
    """Lay out the cells; counts: contributors of each number."""
    least = part.world_size if own_slots else 1
    widths = [max(least, *map(len, side)) for side in sides]
    dotted = max([0, *(n for n in counts if n <= MOST_DOTS)])
    is_counted = max([0, *counts]) > MOST_DOTS
    rows = max(-(-dotted // ROW), 2 * is_counted)  # a count is as high as two
    height = 0.62 + 0.24 * rows
    names = 0.95 + 0.1 * max(0, len(str(part.shown[-1])) - 2)
    inch = min(0.6, (WIDEST - names) / (sum(widths) + 1))
    gap = GAP if len(part.shown) < len(part.chosen) else 0.0
    tops = [
        row * height + gap * (row >= FIRST_AND_LAST) for row in range(len(part.shown))
    ]
    return Cells(widths, height, tops, inch, names, own_slots=own_slots)


def _length(buffer: Any) -> int:
    return 0 if buffer is None else len(buffer)


def _numbers(rank: int, buffer: Any, part: slice) -> list[float]:
    """Return a part of a rank's numbers."""
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

"""Dots for ranks: which of them are in a number, in a chunk, in a buffer.

Here you can collect dots, each in the colour of its rank with the rank's number on it,
and draw all of them at once (`Dots`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, PathCollection
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from collectives_lab.plots.figure import on_color, rank_color

SMALLEST = 4.5  # points; a number smaller than that is not read


@dataclass
class Dots:
    """Dots of one size, in units of the axes' data, which must be equal in x and y.

    inch: how long a unit is, which decides whether a dot has room for its number, that
    of a rank of `world_size`.
    """

    size: float
    inch: float
    world_size: int
    places: list[tuple[float, float, int]] = field(default_factory=list)

    def grid(self, x: float, y: float, ranks: Sequence[int]) -> None:
        """Place dots in a square around (x, y), a place a rank; doubled ones queue."""
        columns = math.ceil(math.sqrt(self.world_size))
        rows = math.ceil(self.world_size / columns)
        slots = ranks if len({*ranks}) == len(ranks) else range(len(ranks))
        step = 1.1 * self.size
        for slot, rank in zip(slots, ranks, strict=True):
            row, column = divmod(slot, columns)
            left, top = column - (columns - 1) / 2, row - (rows - 1) / 2
            self.places.append((x + left * step, y + top * step, rank))

    def row(self, x: float, y: float, ranks: Sequence[int]) -> None:
        """Place dots in a row with its middle at (x, y)."""
        for n, rank in enumerate(ranks):
            left = (n - (len(ranks) - 1) / 2) * 1.1 * self.size
            self.places.append((x + left, y, rank))

    @property
    def has_numbers(self) -> bool:
        """Return whether there is room for the numbers of the ranks."""
        return self._fontsize() >= SMALLEST

    def _fontsize(self) -> float:
        share = 0.72 if self.world_size <= 10 else 0.55
        return min(8.0, self.size * self.inch * 72 * share)

    def draw(self, ax: Axes) -> None:
        """Draw all of them."""
        sizes = [self.size] * len(self.places)
        at = [(x, y) for x, y, _ in self.places]
        colors = [rank_color(rank) for *_, rank in self.places]
        dots = EllipseCollection(
            sizes, sizes, [0] * len(sizes), units="x", offsets=at, facecolors=colors
        )
        dots.set(offset_transform=ax.transData, zorder=3, linewidth=0)
        ax.add_collection(dots, autolim=False)
        if self.has_numbers:
            for rank in {rank for *_, rank in self.places}:
                ax.add_collection(self._number(ax, rank), autolim=False)

    def _number(self, ax: Axes, rank: int) -> PathCollection:
        """Return a rank's number on all its dots: thousands of texts would be slow."""
        number = TextPath((0, 0), str(rank), size=self._fontsize())
        digits = TextPath((0, 0), "0", size=self._fontsize()).get_extents()
        middle = number.get_extents().width / 2 + number.get_extents().x0
        path = number.transformed(Affine2D().translate(-middle, -digits.height / 2))
        numbers = PathCollection(
            [path],
            offsets=[(x, y) for x, y, other in self.places if other == rank],
            offset_transform=ax.transData,
            facecolors=on_color(rank_color(rank)),
            linewidth=0,
            zorder=4,
        )
        # Points, whatever the resolution.
        numbers.set_transform(Affine2D().scale(1 / 72) + ax.figure.dpi_scale_trans)
        return numbers

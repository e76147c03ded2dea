"""Dots for ranks: which of them are in a number, in a chunk, in a buffer.

Here you can collect dots, each in the colour of its rank with the rank's number on it,
and draw all of them at once (`Dots`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection

from collectives_lab.plots.figure import on_color, rank_color

SMALLEST = 4.5  # points; a number smaller than that is not read


@dataclass
class Dots:
    """Dots of one size, in units of the axes' data, which must be equal in x and y.

    inch: how long a unit is, which decides whether a dot has room for its number.
    """

    size: float
    inch: float
    places: list[tuple[float, float, int]] = field(default_factory=list)

    def grid(self, x: float, y: float, ranks: Sequence[int], world_size: int) -> None:
        """Place dots in a square around (x, y), a place a rank; doubled ones queue."""
        columns = math.ceil(math.sqrt(world_size))
        rows = math.ceil(world_size / columns)
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
        digits = max((len(str(rank)) for *_, rank in self.places), default=1)
        return min(8.0, self.size * self.inch * 72 * (0.72 if digits == 1 else 0.55))

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
            for x, y, rank in self.places:
                color = on_color(rank_color(rank))
                style = {"fontsize": self._fontsize(), "color": color, "zorder": 4}
                ax.text(x, y, str(rank), ha="center", va="center_baseline", **style)

"""Matrices cut into blocks: which rank has which part of a product.

Here you can draw matrices (`Matrix`) in a row with signs between them (`product`): a
layer cut by columns, one cut by rows, gradients that are summed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

Cut = Literal["columns", "rows", "terms"] | None

SHEET = 0.18  # inches by which a term lies beside the one below it
MARGIN = 0.1
SIGN, LETTER = 0.24, 0.085  # inches around a sign, and for each of its letters
ABOVE, BELOW = 0.3, 0.28  # inches for the name and the shape
WIDEST = 9.5
SMALLEST = 0.25  # inches of a side


@dataclass(frozen=True)
class Matrix:
    """A matrix: its name, the sizes of its sides, and how it is cut over the ranks.

    cut: by columns or rows, of which each rank has a block; "terms" if the ranks have
    whole matrices that must be added; None if all ranks have the same. shape: what is
    written below it, such as "T × 4h".
    """

    name: str
    rows: float
    columns: float
    cut: Cut = None
    ranks: int = 2
    shape: str = ""

    def __post_init__(self) -> None:
        if self.cut not in ("columns", "rows", "terms", None):
            raise ValueError(
                f"{self.name} is cut by {self.cut!r}; need columns, rows, terms or None"
            )
        if min(self.rows, self.columns, self.ranks) <= 0:
            raise ValueError(f"{self.name} has a side or ranks of 0; need more")

    @property
    def sheets(self) -> int:
        """Return how many matrices lie on each other."""
        return self.ranks if self.cut == "terms" else 1

    def words(self) -> str:
        """Return who has what of it."""
        if self.cut is None:
            return f"{self.name} whole on every rank"
        if self.cut == "terms":
            return f"{self.name} in {self.ranks} terms, one a rank"
        return f"{self.name} in {self.ranks} blocks of {self.cut}, one a rank"


@mpl.rc_context(STYLE)
def product(*parts: Matrix | str, unit: float, caption: str | None = None) -> Diagram:
    """Draw matrices in a row, with the words between them, such as "×" and "=".

    unit: inches for a row or a column of 1; a side has a quarter of an inch at least. A
    block has the colour and the number of its rank. Raises ValueError if there is no
    matrix, or if they are too wide for a page.
    """
    matrices = [part for part in parts if isinstance(part, Matrix)]
    if not matrices:
        raise ValueError("there is no matrix to draw; give one or more of Matrix")
    widths = [_width(part, unit) for part in parts]
    if (whole := sum(widths) + 2 * MARGIN) > WIDEST:
        raise ValueError(
            f"with a unit of {unit} inches the row is {whole:.1f} inches wide; need at "
            f"most {WIDEST}, so a smaller unit"
        )
    tall = max(_height(matrix, unit) for matrix in matrices)
    figure = blank(whole, ABOVE + tall + BELOW)
    ax = figure.add_subplot()
    ax.set(
        xlim=(-MARGIN, whole - MARGIN), ylim=(ABOVE + tall + BELOW, 0), aspect="equal"
    )
    ax.set_axis_off()
    x = 0.0
    for part, width in zip(parts, widths, strict=True):
        if isinstance(part, Matrix):
            _draw(ax, part, unit, x, ABOVE + (tall - _height(part, unit)) / 2)
        else:
            middle = x + width / 2, ABOVE + tall / 2
            ax.text(*middle, part, ha="center", va="center", size=10)
        x += width
    words = "; ".join(matrix.words() for matrix in matrices)
    line = " ".join(p if isinstance(p, str) else p.name for p in parts)
    figure.caption = caption or f"{line}. A block has the colour of its rank."
    figure.alt = f"{figure.caption} {words}."
    return figure


def _side(count: float, unit: float) -> float:
    return max(SMALLEST, count * unit)


def _width(part: Matrix | str, unit: float) -> float:
    if isinstance(part, str):
        return 2 * SIGN + LETTER * (len(part) - 1)
    return _side(part.columns, unit) + SHEET * (part.sheets - 1)


def _height(matrix: Matrix, unit: float) -> float:
    return _side(matrix.rows, unit) + SHEET * (matrix.sheets - 1)


def _draw(ax: Axes, matrix: Matrix, unit: float, left: float, top: float) -> None:
    wide, high = _width(matrix, unit), _height(matrix, unit)
    middle = {"ha": "center", "va": "center"}
    ax.text(left + wide / 2, top - 0.13, matrix.name, size=9, weight="bold", **middle)
    ax.text(left + wide / 2, top + high + 0.14, matrix.shape, size=8, **middle)
    if matrix.cut is None:
        _block(ax, (left, top, wide, high), "all", (INK, 0.15), INK)
    for rank, place in enumerate(_places(matrix, unit, left, top)):
        color = rank_color(rank)
        is_corner = matrix.cut == "terms" and rank + 1 < matrix.ranks
        _block(ax, place, str(rank), color, on_color(color), is_corner=is_corner)


def _places(
    matrix: Matrix, unit: float, left: float, top: float
) -> Iterator[tuple[float, float, float, float]]:
    """Yield the corner, the width and the height of each rank's block, in inches."""
    wide, high = _side(matrix.columns, unit), _side(matrix.rows, unit)
    for rank in range(matrix.ranks if matrix.cut else 0):
        if matrix.cut == "terms":
            yield left + SHEET * rank, top + SHEET * rank, wide, high
        elif matrix.cut == "columns":
            each = wide / matrix.ranks
            yield left + each * rank, top, each, high
        else:
            each = high / matrix.ranks
            yield left, top + each * rank, wide, each


def _block(
    ax: Axes,
    place: tuple[float, float, float, float],
    text: str,
    color: Any,
    ink: str,
    is_corner: bool = False,
) -> None:
    """Draw a block with a word in its middle, or in the corner that stays visible."""
    left, top, wide, high = place
    edge = "white" if text != "all" else INK
    ax.add_patch(Rectangle((left, top), wide, high, fc=color, ec=edge, lw=0.8))
    x, y = (SHEET / 2, SHEET / 2) if is_corner else (wide / 2, high / 2)
    size = 6.5 if is_corner else 8
    style = {"ha": "center", "va": "center", "weight": "bold", "color": ink}
    ax.text(left + x, top + y, text, size=size, zorder=1, **style)

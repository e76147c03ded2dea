"""Verbs as matrices of zeros and ones, by the ranks that numbers come from and go to.

Here you can draw some of them beside each other (`verb_matrices`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from numpy.typing import ArrayLike

from collectives_lab.plots.figure import INK, STYLE, Diagram, blank, rank_color

ACROSS = 4  # matrices in a row
LONGEST = 2  # times the shorter side, which has to hold the numbers of the ranks


@mpl.rc_context(STYLE | {"axes.spines.top": True, "axes.spines.right": True})
def verb_matrices(
    matrices: Mapping[str, ArrayLike], ranks: int = 4, caption: str | None = None
) -> Diagram:
    """Draw each matrix: a 1 has the colour of the rank that its number comes from.

    matrices: by the name of the verb; the columns are slots of the input and the rows
    are slots of the result, those of rank 0 first. Raises ValueError unless the ranks
    have equally many of both.
    """
    filled = {name: np.asarray(m).astype(bool) for name, m in matrices.items()}
    for name, matrix in filled.items():
        if matrix.ndim != 2 or any(side % ranks or not side for side in matrix.shape):
            raise ValueError(
                f"{name} has the shape {matrix.shape}; need rows and columns that "
                f"{ranks} ranks share evenly"
            )
    down = max(1, math.ceil(len(filled) / ACROSS))
    figure = blank(7.6, 2.2 * down)
    for place, (name, matrix) in enumerate(filled.items(), 1):
        ax = figure.add_subplot(down, min(ACROSS, len(filled)), place)
        _draw(ax, matrix, ranks)
        ax.set_title(name, fontsize=9)
    figure.supxlabel("from rank (slots of the input)", fontsize=9)
    figure.supylabel("to rank (slots of the result)", fontsize=9)
    figure.caption = caption or f"{', '.join(filled)} as matrices."
    words = [f"{name}: {_words(matrix, ranks)}" for name, matrix in filled.items()]
    figure.alt = f"{figure.caption} {'; '.join(words)}."
    return figure


def _draw(ax: Axes, matrix: np.ndarray, ranks: int) -> None:
    rows, columns = matrix.shape
    colors = np.zeros((rows, columns, 4))
    for rank in range(ranks):
        own = np.s_[:, columns * rank // ranks : columns * (rank + 1) // ranks]
        colors[own][matrix[own]] = to_rgba(rank_color(rank))
    sides = rows / columns
    cell = min(max(sides, 1 / LONGEST), LONGEST) / sides  # its height over its width
    ax.imshow(colors, interpolation="nearest", aspect=cell)
    for side, ticks, line in (
        (columns, ax.set_xticks, ax.axvline),
        (rows, ax.set_yticks, ax.axhline),
    ):
        ticks([side * (r + 0.5) / ranks - 0.5 for r in range(ranks)], range(ranks))
        for r in range(1, ranks):
            line(side * r / ranks - 0.5, color=INK, linewidth=0.4)
    ax.tick_params(length=0, labelsize=7)
    ax.set_anchor("N")


def _words(matrix: np.ndarray, ranks: int) -> str:
    """Say from which ranks numbers go to which."""
    rows, columns = (side // ranks for side in matrix.shape)
    blocks = np.asarray(matrix.reshape(ranks, rows, ranks, columns).any(axis=(1, 3)))
    froms = (_list(np.flatnonzero(blocks[to])) for to in range(ranks))
    return ", ".join(
        f"to rank {to} from {ranks_of}" for to, ranks_of in enumerate(froms)
    )


def _list(ranks: np.ndarray) -> str:
    return " ".join(map(str, ranks)) if len(ranks) else "none"

"""A policy in a world of squares: which way it goes from each of them.

Here you can draw one as arrows (`grid_policy`).
"""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    cell_grid,
    diagram,
)

WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
"""What the four columns of the logits mean: steps in columns and rows."""

LONGEST = 0.42
"""Of a square, the length of an arrow that is certain."""


@mpl.rc_context(STYLE)
def grid_policy(logits: ArrayLike, caption: str, size: float = 3.0) -> Diagram:
    """Draw the chances of the four directions in each square of a square world.

    logits: (squares, 4), row by row from the start to the goal; up, down, left, right.
    An arrow is the longer and the stronger, the likelier its direction. size: inches.
    Raises ValueError for another shape.
    """
    table = np.asarray(logits, float)
    side = math.isqrt(len(table))
    if table.shape != (side * side, len(WAYS)):
        raise ValueError(
            f"logits of shape {table.shape}; need (side * side, 4), a row a square"
        )
    shares = np.exp(table - table.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    figure, ax = diagram(size, size)
    cell_grid(ax, side)
    _arrows(ax, side, shares)
    ax.text(0, -0.36, "start", ha="center", va="center", fontsize=7)
    goal = side - 1, side - 1
    ax.add_patch(mpl.patches.Circle(goal, 0.3, fill=False, edgecolor=INK, linewidth=2))
    ax.text(*goal, "goal", ha="center", va="center", fontsize=7)
    ax.set(xlim=(-0.5, side - 0.5), ylim=(side - 0.5, -0.5), xticks=[], yticks=[])
    ax.set_aspect("equal")
    ax.spines[:].set_visible(False)
    names = [*WAYS]
    likeliest = [names[way] for way in shares.argmax(axis=1)[:-1]]
    counts = ", ".join(f"{likeliest.count(name)} {name}" for name in names)
    figure.caption = caption
    figure.alt = (
        f"A world of {side} by {side} squares with arrows. The likeliest direction of "
        f"the {side * side - 1} squares before the goal: {counts}. {caption}"
    )
    return figure


def _arrows(ax: Axes, side: int, shares: np.ndarray) -> None:
    """Draw four arrows from the middle of each square but the goal."""
    for square, row in enumerate(shares[:-1]):
        x, y = square % side, square // side
        for (right, down), share in zip(WAYS.values(), row, strict=True):
            if share < 0.02:
                continue
            length = LONGEST * math.sqrt(share)
            arrow = mpl.patches.FancyArrowPatch(
                (x, y),
                (x + length * right, y + length * down),
                arrowstyle="-|>",
                mutation_scale=7,
                shrinkA=0,
                shrinkB=0,
                color=INK,
                alpha=0.4 + 0.6 * share,
                linewidth=1.4,
            )
            ax.add_patch(arrow)

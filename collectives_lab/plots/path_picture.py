"""Paths of weights: ranks that train apart and meet again.

Here you can draw what each rank's weights pass through, in the plane in which they move
most (`paths`).
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from numpy.typing import ArrayLike

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    key_above,
    rank_color,
)


@mpl.rc_context(STYLE)
def paths(
    weights: ArrayLike, agreed: ArrayLike, caption: str, width: float = 6.0
) -> Diagram:
    """Draw the ranks' ways from each point that they agree on, and these points.

    A cross is at the mean of their ends.

    weights: of (rounds, ranks, steps, numbers), after each step of a round. agreed: of
    (rounds + 1, numbers), from where each round begins and where the last one ends. The
    plane is that of the two directions in which all these points are furthest apart.
    A phone gets a narrower one. Raises ValueError for shapes that do not fit.
    """
    apart, met = np.asarray(weights, float), np.asarray(agreed, float)
    rounds, ranks, _, numbers = apart.shape
    if met.shape != (rounds + 1, numbers):
        raise ValueError(
            f"agreed has shape {met.shape}; need {(rounds + 1, numbers)}: a point "
            "before each round, and one after the last"
        )
    points = np.concatenate([apart.reshape(-1, numbers), met])
    middle = points.mean(axis=0)
    plane = _widest_plane(points - middle)
    apart, met = (apart - middle) @ plane, (met - middle) @ plane
    figure = _picture(apart, met, width)
    figure.narrow = _picture(apart, met, PHONE) if width > PHONE else None
    figure.caption = caption
    figure.alt = (
        f"The ways of {ranks} ranks in {rounds} rounds. They leave a common point in "
        f"different directions and meet in the next one. {caption}"
    )
    return figure


def _picture(apart: np.ndarray, met: np.ndarray, width: float) -> Diagram:
    figure, ax = diagram(width, 0.62 * width)
    signs = {}
    for rank in range(apart.shape[1]):
        for begin, steps in zip(met, apart[:, rank], strict=False):
            x, y = np.concatenate([begin[None], steps]).T
            (line,) = ax.plot(x, y, color=rank_color(rank), lw=1.3, marker=".", ms=3)
            signs[f"rank {rank}"] = line
    look = {"color": INK, "ms": 5, "mew": 1.5, "zorder": 3}
    (signs["mean of ends"],) = ax.plot(*apart[:, :, -1].mean(axis=1).T, "x", **look)
    (signs["agreed"],) = ax.plot(*met.T, "o--", color=INK, ms=9, mfc="none", lw=1.2)
    for number, (x, y) in enumerate(met):
        ax.annotate(f"{number}", (x, y), (-4, 8), textcoords="offset points", size=9)
    ax.set(xlabel="first direction", ylabel="second direction", xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="datalim")
    key_above(ax, signs)
    return figure


def _widest_plane(points: np.ndarray) -> np.ndarray:
    """Return two unit vectors, as columns, along which centred points vary most.

    From the products of the points with each other, of which there are far fewer than
    numbers in a point: a singular value decomposition would take seconds.
    """
    _, ways = np.linalg.eigh(points @ points.T)
    plane, _ = np.linalg.qr(points.T @ ways[:, :-3:-1])  # the largest come last
    return plane

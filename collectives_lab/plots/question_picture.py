"""Questions in the order in which they are asked, each with what its yes means.

Here you can draw such a search, from the first question down (`questions`).
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from collectives_lab.plots.figure import INK, PHONE, STYLE, Diagram, diagram, rank_color

ROW = 0.72
"""Inches from one question to the next."""
HALF_WIDE, HALF_HIGH = 0.38, 0.36
"""Half of the width and of the height of a box, in columns and in rows."""


@mpl.rc_context(STYLE)
def questions(rows: Mapping[str, str], otherwise: str, *, caption: str) -> Diagram:
    """Draw the questions below each other, and beside each what its yes means.

    rows: by question, the answer. otherwise: what is left if each was answered by no.
    Lines of a text are divided by a newline; three lines of 22 letters have room.
    """
    figure, ax = diagram(PHONE, ROW * (len(rows) + 0.9))
    for y, (question, answer) in enumerate(rows.items()):
        _box(ax, 0, y, question)
        _box(ax, 1, y, answer, rank_color(0))
        _lead(ax, "yes", (HALF_WIDE, y), (1 - HALF_WIDE, y), (0.5, y - 0.12))
        down = (0, y + HALF_HIGH), (0, y + 1 - HALF_HIGH), (0.07, y + 0.5)
        _lead(ax, "no", *down)
    _box(ax, 0, len(rows), otherwise, rank_color(0))
    ax.set(xlim=(-0.42, 1.42), ylim=(len(rows) + 0.45, -0.45))
    ax.set_axis_off()
    figure.caption = caption
    words = (f"{question} Yes: {answer}." for question, answer in rows.items())
    alt = f"{caption} {' '.join(words)} Otherwise: {otherwise}."
    figure.alt = alt.replace("\n", " ")
    return figure


def _box(ax: Axes, x: float, y: float, words: str, color: str | None = None) -> None:
    """Draw words in a box; one with a color is an answer."""
    corner, size = (x - HALF_WIDE, y - HALF_HIGH), (2 * HALF_WIDE, 2 * HALF_HIGH)
    look = {"fc": (color, 0.08) if color else "none", "ec": color or INK, "lw": 0.9}
    shape = {"boxstyle": "round,pad=0,rounding_size=0.05"}
    ax.add_patch(FancyBboxPatch(corner, *size, **shape, **look))
    ax.text(x, y, words, ha="center", va="center", size=8)


def _lead(
    ax: Axes,
    word: str,
    begin: tuple[float, float],
    end: tuple[float, float],
    at: tuple[float, float],
) -> None:
    """Draw an arrow, and the word that leads along it."""
    look = {"color": INK, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
    ax.add_patch(FancyArrowPatch(begin, end, arrowstyle="-|>", **look))
    ax.text(*at, word, ha="center", va="center", size=7.5)

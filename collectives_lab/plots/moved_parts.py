"""Which parts of the tensors of all GPUs move in a step, and for whom.

Here you can draw the steps of an all-reduce that cuts each tensor in as many parts as
there are GPUs (`moved_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import (
    PHONE,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

CELL = 0.3  # inches
MOST = 4
"""Steps that have room beside each other."""

Moved = Sequence[Sequence[int | None]]
"""By GPU and part: the GPU for which the part leaves, None where it stays."""


@mpl.rc_context(STYLE)
def moved_parts(steps: Mapping[str, Moved], *, caption: str | None = None) -> Diagram:
    """Draw a table for each step: a row is a GPU's tensor, a column one of its parts.

    A part that moves has the colour and the number of the GPU for which it does, and at
    the end of a row is what leaves this GPU, in units of the tensor's size S. On a
    phone the tables stand below each other.
    Raises ValueError for a number of steps that has no room, and for rows whose number
    is not that of the parts.
    """
    if not 0 < len(steps) <= MOST:
        raise ValueError(f"{len(steps)} steps; need 1 to {MOST}")
    for name, rows in steps.items():
        if lengths := {len(row) for row in rows} - {len(rows)}:
            raise ValueError(f"{name}: rows of {lengths} parts; need {len(rows)}")
    figure = _tables(steps, across=len(steps))
    if figure.get_figwidth() > PHONE:
        figure.narrow = _tables(steps, across=1)
    figure.caption = caption or f"What moves: {', '.join(steps)}."
    words = "; ".join(f"{name}: {_words(rows)}" for name, rows in steps.items())
    figure.alt = f"{figure.caption} {words}."
    return figure


def _tables(steps: Mapping[str, Moved], across: int) -> Diagram:
    gpus, down = max(map(len, steps.values())), -(-len(steps) // across)
    figure = blank(across * (gpus * CELL + 1.15), down * (gpus * CELL + 0.55))
    for number, (name, rows) in enumerate(steps.items(), 1):
        _table(figure.add_subplot(down, across, number), name, rows)
    return figure


def _words(rows: Moved) -> str:
    return ", ".join(f"{_share(row)} from GPU {gpu}" for gpu, row in enumerate(rows))


def _table(ax: Axes, name: str, rows: Moved) -> None:
    size = len(rows)
    ax.set(xlim=(-1.6, size + 0.8), ylim=(size + 0.1, -1.1), aspect="equal")
    ax.set_axis_off()
    ax.text(size / 2 - 0.4, -0.6, name, ha="center", va="center", size=9)
    for gpu, row in enumerate(rows):
        ax.text(-0.15, gpu + 0.5, f"GPU {gpu}", ha="right", va="center", size=8)
        ax.text(size + 0.15, gpu + 0.5, _share(row), ha="left", va="center", size=8)
        for part, target in enumerate(row):
            _cell(ax, part, gpu, target)


def _cell(ax: Axes, part: int, gpu: int, target: int | None) -> None:
    face = "none" if target is None else rank_color(target)
    edge = mpl.rcParams["axes.edgecolor"]
    ax.add_patch(Rectangle((part, gpu), 1, 1, facecolor=face, edgecolor=edge, lw=0.8))
    if target is not None:
        label = {"color": on_color(face), "size": 8, "weight": "bold"}
        ax.text(part + 0.5, gpu + 0.5, str(target), ha="center", va="center", **label)


def _share(row: Sequence[int | None]) -> str:
    """Return what leaves a GPU in units of S: 0, S, S/4, 3S/4."""
    share = Fraction(sum(target is not None for target in row), len(row))
    top = "S" if share.numerator == 1 else f"{share.numerator}S"
    bottom = "" if share.denominator == 1 else f"/{share.denominator}"
    return f"{top}{bottom}" if share else "0"

"""GPUs in the frames that a fast link joins, and which groups of ranks lie in them.

Here you can draw such frames, with the slower network beside them (`domains`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import INK, STYLE, Diagram, blank, rank_color

CELL, PAD, APART, HEAD, LINE, BAR = 0.15, 0.05, 0.08, 0.3, 0.12, 0.17
"""Inches of a GPU, around GPUs, between frames, of a head, a line and the network."""

Frame = Sequence[int | None]
"""The group of each GPU that one fast link joins, None for a GPU without a rank."""


@mpl.rc_context(STYLE)
def domains(
    ways: Mapping[str, Sequence[Frame]], per_row: int = 8, *, caption: str
) -> Diagram:
    """Draw frames of GPUs below the name of each way, a group in its colour.

    ways: by name, the frames, and in each the group of every GPU, None where a GPU has
    no rank. Several frames have lines to the network at their right; a single one has
    none. Raises ValueError for a way without GPUs.
    """
    if empty := [name for name, frames in ways.items() if not all(frames or [()])]:
        raise ValueError(f"{empty[0]!r} has a frame without GPUs, or no frame")
    rows = {n: [-(-len(frame) // per_row) for frame in ways[n]] for n in ways}
    high = max(sum(r) * CELL + len(r) * (2 * PAD + APART) for r in rows.values())
    wide = per_row * CELL + 2 * PAD + LINE + BAR + 0.16
    figure = blank(len(ways) * wide, HEAD + high)
    for number, (name, frames) in enumerate(ways.items(), 1):
        ax = figure.add_subplot(1, len(ways), number)
        ax.set(xlim=(-0.08, wide - 0.08), ylim=(high, -HEAD), aspect="equal")
        ax.set_axis_off()
        middle = per_row * CELL / 2 + PAD
        ax.text(middle, -HEAD / 2, name, ha="center", va="center", size=8.5)
        _frames(ax, frames, rows[name], per_row)
    sentences = (f"{name}: {_words(frames)}." for name, frames in ways.items())
    figure.caption, figure.alt = caption, f"{caption} {' '.join(sentences)}"
    return figure


def _frames(
    ax: Axes, frames: Sequence[Frame], rows: Sequence[int], per_row: int
) -> None:
    right, top, middles = per_row * CELL + 2 * PAD, 0.0, []
    for frame, count in zip(frames, rows, strict=True):
        high = count * CELL + 2 * PAD
        ax.add_patch(Rectangle((0, top), right, high, fc=(INK, 0.1), ec=INK, lw=1))
        for place, number in enumerate(frame):
            row, column = divmod(place, per_row)
            corner = PAD + column * CELL + 0.015, top + PAD + row * CELL + 0.015
            color = "none" if number is None else rank_color(number)
            look = {"fc": color, "ec": INK, "lw": 0.5}
            ax.add_patch(Rectangle(corner, CELL - 0.03, CELL - 0.03, **look))
        middles.append(top + high / 2)
        top += high + APART
    if len(frames) > 1:
        for y in middles:
            ax.plot([right, right + LINE], [y, y], color=INK, lw=1)
        bar = Rectangle((right + LINE, 0), BAR, top - APART, fc=(INK, 0.12), ec=INK)
        ax.add_patch(bar)
        x, y = right + LINE + BAR / 2, (top - APART) / 2
        ax.text(x, y, "network", ha="center", va="center", size=8, rotation=90)


def _words(frames: Sequence[Frame]) -> str:
    """Say how many GPUs of each group are in each frame."""
    groups = sorted({g for g in chain(*frames) if g is not None})
    counts = [
        [f"{frame.count(g)} of group {g}" for g in groups if g in frame]
        for frame in map(list, frames)
    ]
    inside = [" and ".join(parts) or "none" for parts in counts]
    return f"{len(frames)} frames with " + "; ".join(dict.fromkeys(inside))

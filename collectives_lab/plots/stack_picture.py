"""The layers of a step below each other, and what each pass sends between them.

Here you can draw layers that ranks share and tensors that all of them have, with the
verbs of the forward and of the backward pass (`layer_stack` of `Layer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    on_color,
    rank_color,
)

HIGH, GAP = 0.3, 0.42  # inches of a row, and below it
LEFT, WIDE = 0.95, 1.6  # inches


class Layer(NamedTuple):
    """A row: its name, whether ranks share it, and what is sent below it, or "".

    A layer that ranks share has a box of each rank; what is not shared is on all ranks.
    """

    name: str
    is_shared: bool
    forward: str = ""
    backward: str = ""


@mpl.rc_context(STYLE)
def layer_stack(
    layers: Sequence[Layer], ranks: int = 4, caption: str | None = None
) -> Diagram:
    """Draw layers from the top, the forward pass on the left, backward on the right.

    An arrow is bold where something is sent, with the words that say what. Raises
    ValueError for fewer than two layers or ranks.
    """
    if min(len(layers), ranks) < 2:
        raise ValueError(f"{len(layers)} layers of {ranks} ranks; need two or more")
    high = len(layers) * (HIGH + GAP) - GAP + 0.35
    figure, ax = diagram(PHONE, high)
    ax.set(xlim=(0, PHONE), ylim=(high - 0.3, -0.35), aspect="equal")
    ax.set_axis_off()
    for x, side, word in ((0.3, "left", "forward ↓"), (0.7, "right", "backward ↑")):
        ax.text(LEFT + x * WIDE, -0.2, word, size=8, va="center", ha=_away(side))
    for number, layer in enumerate(layers):
        top = number * (HIGH + GAP)
        _row(ax, layer, top, ranks)
        if number + 1 < len(layers):
            _passes(ax, layer, top + HIGH)
    figure.caption = caption or "Layers, and what both passes send between them."
    rows = (
        f"{layer.name}, {f'in parts on {ranks} ranks' if layer.is_shared else 'whole'}"
        f"; below it, forward: {layer.forward or 'nothing'}, backward: "
        f"{layer.backward or 'nothing'}"
        for layer in layers
    )
    figure.alt = f"{figure.caption} {'. '.join(rows)}."
    return figure


def _away(side: str) -> str:
    return "right" if side == "left" else "left"


def _row(ax: Axes, layer: Layer, top: float, ranks: int) -> None:
    """Draw the boxes of all ranks with a name across them, or one box for all."""
    words: dict[str, Any] = {"ha": "center", "va": "center", "size": 8}
    colors = [rank_color(r) for r in range(ranks)] if layer.is_shared else [(INK, 0.2)]
    each = WIDE / len(colors)
    for rank, color in enumerate(colors):
        place = LEFT + each * rank, top
        edge = "white" if layer.is_shared else "none"
        ax.add_patch(Rectangle(place, each, HIGH, fc=color, ec=edge, lw=0.8))
        if layer.is_shared:
            look = {"color": on_color(color), "weight": "bold"}
            ax.text(place[0] + each / 2, top + HIGH / 2, str(rank), **words | look)
    if layer.is_shared:
        words |= {"ha": "right"}
        ax.text(LEFT - 0.08, top + HIGH / 2, layer.name, **words)
    else:
        ax.text(LEFT + WIDE / 2, top + HIGH / 2, layer.name, **words)


def _passes(ax: Axes, layer: Layer, top: float) -> None:
    """Draw the arrows of both passes in the gap below a row."""
    for x, text, side, ends in (
        (LEFT + 0.3 * WIDE, layer.forward, "left", (top, top + GAP)),
        (LEFT + 0.7 * WIDE, layer.backward, "right", (top + GAP, top)),
    ):
        look = {"arrowstyle": "-|>", "color": INK, "lw": 2.2 if text else 0.8}
        look |= {"shrinkA": 1, "shrinkB": 1}
        ax.annotate("", xy=(x, ends[1]), xytext=(x, ends[0]), arrowprops=look)
        beside = x + (-0.1 if side == "left" else 0.1)
        style = {"size": 8, "weight": "bold", "va": "center", "ha": _away(side)}
        ax.text(beside, top + GAP / 2, text, **style)

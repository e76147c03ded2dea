"""The verbs around divided layers, as Megatron-LM draws them.

Here you can draw Copy before and Sum behind some layers that each rank has a part of
(`copy_and_sum`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    diagram,
    on_color,
    rank_color,
)

BOX, GAP, LANE = 1.05, 0.3, 0.6  # inches
MOVES = {"Copy": ("nothing", "all_reduce"), "Sum": ("all_reduce", "nothing")}
"""What each of the two moves forward and backward."""


@mpl.rc_context(STYLE)
def copy_and_sum(
    layers: Sequence[str], ranks: int = 2, caption: str | None = None
) -> Diagram:
    """Draw x, Copy, a lane of layers for each rank, Sum and y, with what each moves.

    layers: what stands on the boxes of a lane. Raises ValueError without a layer, and
    for fewer than two ranks.
    """
    if not layers or ranks < 2:
        raise ValueError(
            f"{len(layers)} layers of {ranks} ranks; need one layer or more, and two "
            "ranks or more"
        )
    count = len(layers)
    pitch = BOX + GAP
    xs = [0.45, 1.45, *[2.75 + pitch * n for n in range(count)]]
    xs += [xs[-1] + 1.3, xs[-1] + 2.3]
    middle, high = LANE * (ranks - 1) / 2, LANE * ranks
    figure, ax = diagram(xs[-1] + 0.55, high + 1.15)
    ax.set(xlim=(0, xs[-1] + 0.55), ylim=(high + 0.3, -0.85), aspect="equal")
    ax.set(xticks=[], yticks=[])
    ax.set_axis_off()
    copy, added = xs[1], xs[-2]
    for rank in range(ranks):
        y, color = LANE * rank, rank_color(rank)
        _line(ax, (copy, middle), (xs[2], y))
        _line(ax, (xs[2], y), (xs[-3], y))
        _line(ax, (xs[-3], y), (added, middle))
        for x, layer in zip(xs[2:-2], layers, strict=True):
            _box(ax, x, y, layer, color)
        ax.text(xs[2], y - 0.21, f"rank {rank}", size=7, ha="center")
    for x, name in ((xs[0], "x"), (xs[-1], "y")):
        _line(ax, (x, middle), (copy if name == "x" else added, middle))
        _box(ax, x, middle, name, INK, width=0.5)
    for x, name in ((copy, "Copy"), (added, "Sum")):
        _box(ax, x, middle, name, "#4A4A4A", width=0.62)
    _direction(ax, -0.55, "forward", (xs[0], xs[-1]), (copy, added), 0)
    _direction(ax, high + 0.05, "backward", (xs[-1], xs[0]), (copy, added), 1)
    figure.caption = caption or "Copy before and Sum behind layers in parts."
    figure.alt = (
        f"{figure.caption} From left to right: x, Copy, on each of {ranks} ranks "
        f"{', '.join(layers)}, then Sum and y. Forward: Copy moves nothing, Sum makes "
        "an all_reduce. Backward: Sum moves nothing, Copy makes an all_reduce."
    )
    return figure


def _line(ax: Axes, one: tuple[float, float], other: tuple[float, float]) -> None:
    ax.plot(*zip(one, other, strict=True), color=INK, lw=1.1, zorder=1)


def _box(
    ax: Axes, x: float, y: float, text: str, color: str, width: float = BOX
) -> None:
    corner, high = (x - width / 2, y - 0.14), 0.28
    style: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.05", "lw": 0}
    ax.add_patch(FancyBboxPatch(corner, width, high, fc=color, zorder=2, **style))
    words = {"ha": "center", "va": "center", "color": on_color(color), "size": 8}
    ax.text(x, y, text, zorder=3, **words)


def _direction(
    ax: Axes,
    y: float,
    name: str,
    ends: tuple[float, float],
    verbs: tuple[float, float],
    number: int,
) -> None:
    """Draw an arrow along the picture, with what Copy and Sum move in its direction."""
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1}
    ax.annotate("", xy=(ends[1], y), xytext=(ends[0], y), arrowprops=arrow)
    ax.text(sum(ends) / 2, y - 0.12, name, ha="center", va="center", size=8)
    for x, moves in zip(verbs, MOVES.values(), strict=True):
        style = {"weight": "bold"} if moves[number] == "all_reduce" else {}
        ax.text(x, y - 0.12, moves[number], ha="center", va="center", size=8, **style)

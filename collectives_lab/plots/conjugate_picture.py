"""The verbs around divided layers, as Megatron-LM draws them.

Here you can draw Copy before and Sum behind some layers that each rank has a part of
(`copy_and_sum`), and the gradients of a sum over ranks, from a loss of each rank or
from one loss (`losses_of_sum`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    on_color,
    pill_text,
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


@mpl.rc_context(STYLE)
def losses_of_sum(
    ranks: int = 4, *, is_one: bool, caption: str | None = None
) -> Diagram:
    """Draw the gradients that come back through an all_reduce of x to y.

    is_one: whether all ranks have copies of one loss, grey, whose gradient passes on
    as it is; else each rank has a loss of its own, and the backward pass adds up their
    gradients.
    Raises ValueError for fewer than two ranks.
    """
    if ranks < 2:
        raise ValueError(f"a sum over {ranks} ranks; need two or more")
    xs, high = (0.3, 1.35, 2.35, 3.15), LANE * ranks
    figure, ax = diagram(PHONE, high + 1.15)
    ax.set(xlim=(0, PHONE), ylim=(high + 0.3, -0.85), aspect="equal")
    ax.set_axis_off()
    middle = LANE * (ranks - 1) / 2
    lanes = [(LANE * rank, rank_color(rank)) for rank in range(ranks)]
    gradient = 1 if is_one else ranks
    begin = xs[2] - 0.22 if is_one else xs[1] - 0.4  # past the verb, or from it
    for rank, (y, color) in enumerate(lanes):
        _gradient(ax, (begin, y if is_one else middle), (xs[0] + 0.22, y), gradient)
        if not is_one:
            _gradient(ax, (xs[2] - 0.22, y), (xs[1] + 0.4, middle))
        _gradient(ax, (xs[3] - 0.25, y), (xs[2] + 0.22, y), 1)
        same = INK if is_one else color
        _box(ax, xs[0], y, "x", color, width=0.44)
        _box(ax, xs[2], y, "y", same, width=0.44)
        _box(ax, xs[3], y, "loss", same, width=0.5)
        for x in (xs[0], (xs[2] + xs[3]) / 2):
            ax.text(x, y - 0.21, f"rank {rank}", size=7, ha="center")
    if not is_one:
        _box(ax, xs[1], middle, "all_reduce", "#4A4A4A", width=0.8)
    sent = "nothing" if is_one else "all_reduce"
    for y, name, ends, moves in (
        (-0.55, "forward", (xs[0], xs[3]), "all_reduce"),
        (high + 0.05, "backward", (xs[3], xs[0]), sent),
    ):
        _pass(ax, y, name, ends, xs[2])
        _moved(ax, xs[1], y, moves)
    losses = "one loss" if is_one else f"{ranks} losses"
    held = "copies of one loss" if is_one else losses
    verb = "" if is_one else " an all_reduce,"
    figure.caption = caption or f"The gradients of a sum, from {losses}."
    figure.alt = (
        f"{figure.caption} From left to right: x of each of {ranks} ranks,{verb} "
        f"y, and {held}. Backward: the gradient of each loss for y is 1, "
        f"the verb moves {sent if is_one else 'as much again'}, and the gradient of x "
        f"is {gradient} on every rank."
    )
    return figure


def _gradient(
    ax: Axes, begin: tuple[float, float], end: tuple[float, float], size: int = 0
) -> None:
    """Draw an arrow of the backward pass, with the gradient that it carries, if any."""
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", xy=end, xytext=begin, arrowprops=arrow, zorder=1)
    if size:
        x, y = ((one + other) / 2 for one, other in zip(begin, end, strict=True))
        pill_text(ax, x, y, str(size), 7, zorder=3)


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
    _pass(ax, y, name, ends, sum(ends) / 2)
    for x, moves in zip(verbs, MOVES.values(), strict=True):
        _moved(ax, x, y, moves[number])


def _pass(
    ax: Axes, y: float, name: str, ends: tuple[float, float], beside: float
) -> None:
    """Draw the arrow of a pass along the picture, with its name at `beside`."""
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1}
    ax.annotate("", xy=(ends[1], y), xytext=(ends[0], y), arrowprops=arrow)
    ax.text(beside, y - 0.12, name, ha="center", va="center", size=8)


def _moved(ax: Axes, x: float, y: float, moves: str) -> None:
    """Write what a verb moves in a pass, bold if it moves anything."""
    style = {} if moves == "nothing" else {"weight": "bold"}
    ax.text(x, y - 0.12, moves, ha="center", va="center", size=8, **style)

"""A step of data-parallel training: what each rank does, from its tokens to the update.

Here you can draw such a step (`data_parallel_step`).
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.patches import Rectangle

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
from collectives_lab.plots.step_picture import COLORS

TIMES = {
    "tokens": (0.0, 0.8),
    "forward": (1.0, 2.0),
    "backward": (2.0, 4.0),
    "all-reduce": (4.1, 5.9),
    "update": (6.0, 6.8),
}
"""When each part begins and ends; the backward pass takes twice the forward pass."""

HEIGHT = 0.66
"""Of a part, in lanes."""


@mpl.rc_context(STYLE)
def data_parallel_step(world_size: int = 4, *, caption: str) -> Diagram:
    """Draw the parts of a step for each rank, and the all-reduce across all ranks.

    The tokens of a rank have its colour: they are all that differs between ranks.
    """
    figure, ax = diagram(PHONE, 0.75 + 0.36 * world_size)
    for rank in range(world_size):
        for part in TIMES:
            if part != "all-reduce":
                look: dict[str, Any] = {"fc": (INK, 0.6), "ec": INK, "lw": 0.7}
                if part == "tokens":
                    look = {"fc": rank_color(rank), "lw": 0}
                _part(ax, part, rank - HEIGHT / 2, HEIGHT, look)
        middle = sum(TIMES["tokens"]) / 2
        ink = {"color": on_color(rank_color(rank)), "size": 7.5, "zorder": 4}
        ax.text(middle, rank, f"part {rank}", ha="center", va="center", **ink)
    top, bottom = -HEIGHT / 2, world_size - 1 + HEIGHT / 2
    _part(ax, "all-reduce", top, bottom - top, {"fc": COLORS["all-reduce"], "lw": 0})
    begin, end = TIMES["all-reduce"]
    words = "sum of\nall gradients"
    pill_text(ax, (begin + end) / 2, (world_size - 1) / 2, words, 7.5, zorder=4)
    for part, (begin, end) in TIMES.items():
        name = "batch" if part == "tokens" else part
        ax.text((begin + end) / 2, top - 0.28, name, ha="center", size=7.5)
    ax.set_yticks(range(world_size), [f"rank {rank}" for rank in range(world_size)])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set(xlim=(-0.1, 6.9), ylim=(bottom + 0.15, top - 0.6), xticks=[])
    ax.set_xlabel("time")
    figure.caption = caption
    parts = "forward pass, backward pass, then one all-reduce of all ranks, then update"
    figure.alt = (
        f"{caption} {world_size} ranks, each with its part of a batch: {parts}."
    )
    return figure


def _part(
    ax: mpl.axes.Axes, part: str, top: float, height: float, look: dict[str, Any]
) -> None:
    begin, end = TIMES[part]
    ax.add_patch(Rectangle((begin, top), end - begin, height, **look))

"""A layer of experts: where each token goes, and the way back.

Here you can draw one pass through the layer (`expert_layer`), with one expert on each
rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

MOST_TOKENS = 40
PITCH = 0.25  # inches between tokens
GAP = 0.3  # inches between ranks
HOME, ARRIVED, EXPERT, RESULT, BACK = 0.95, 3.3, 3.85, 4.4, 6.75  # inches
TITLES = {
    HOME: "router",
    (HOME + ARRIVED) / 2: "dispatch",
    EXPERT: "expert",
    (RESULT + BACK) / 2: "combine",
    BACK: "result",
}

Token = tuple[int, int]
"""The rank that has a token, and the token's number there."""


@mpl.rc_context(STYLE)
def expert_layer(
    choices: Sequence[Sequence[int]], *, caption: str | None = None
) -> Diagram:
    """Draw tokens that travel to their experts, and results that travel home.

    choices: by rank, the expert of each of its tokens; expert e lives on rank e. Raises
    ValueError for an expert that no rank has, and for more tokens than there is room
    for.
    """
    experts = range(len(choices))
    total = sum(map(len, choices))
    if total > MOST_TOKENS:
        raise ValueError(f"{total} tokens have no room; {MOST_TOKENS} have")
    if wrong := {e for row in choices for e in row} - {*experts}:
        raise ValueError(f"experts {sorted(wrong)} of {len(choices)}; one is on a rank")
    tokens = [(r, n) for r, row in enumerate(choices) for n in range(len(row))]
    arrived: list[list[Token]] = [
        [token for token in tokens if choices[token[0]][token[1]] == expert]
        for expert in experts
    ]
    heights = [max(1, len(choices[e]), len(arrived[e])) * PITCH for e in experts]
    tops = [0.25 + sum(heights[:e]) + GAP * e for e in experts]
    bottom = tops[-1] + heights[-1] + 0.1
    figure = blank(7.5, bottom + 0.1)
    ax = figure.add_subplot()
    ax.set(xlim=(0, 7.5), ylim=(bottom, -0.1), aspect="equal")
    ax.set_axis_off()
    for x, title in TITLES.items():
        ax.text(x, 0, title, ha="center", va="center", size=9)
    for rank, (top, height) in enumerate(zip(tops, heights, strict=True)):
        ax.text(0.05, top + height / 2, f"rank {rank}", ha="left", va="center", size=8)
        _box(ax, rank, top, height)
        _draw(ax, arrived[rank], top + height / 2, tops, heights, choices)
    figure.caption = caption or f"{total} tokens on {len(choices)} ranks."
    loads = ", ".join(f"expert {e}: {len(arrived[e])}" for e in experts)
    figure.alt = f"{figure.caption} Tokens by expert: {loads}."
    return figure


def _box(ax: Axes, expert: int, top: float, height: float) -> None:
    place = (EXPERT - 0.2, top + 0.02), 0.4, height - 0.04
    style = "round,pad=0,rounding_size=0.06"
    ax.add_patch(FancyBboxPatch(*place, style, fc=(INK, 0.15), ec=INK))
    name = {"ha": "center", "va": "center", "size": 9, "weight": "bold"}
    ax.text(EXPERT, top + height / 2, str(expert), **name)


def _draw(
    ax: Axes,
    arrived: Sequence[Token],
    middle: float,
    tops: Sequence[float],
    heights: Sequence[float],
    choices: Sequence[Sequence[int]],
) -> None:
    """Draw the tokens of one expert at home, beside the expert, and at home again."""
    for place, (rank, number) in enumerate(arrived):
        y = middle + (place - (len(arrived) - 1) / 2) * PITCH
        lane = tops[rank] + heights[rank] / 2
        home = lane + (number - (len(choices[rank]) - 1) / 2) * PITCH
        color = rank_color(rank)
        for ends in ((HOME, ARRIVED), (home, y)), ((RESULT, BACK), (y, home)):
            ax.plot(*ends, color=color, lw=1.1, alpha=0.8, zorder=1)
        for x in (ARRIVED, RESULT):
            side = EXPERT - 0.2 if x < EXPERT else EXPERT + 0.2
            ax.plot((x, side), (y, y), color=color, lw=1.1, alpha=0.8, zorder=1)
        at = [(HOME, home), (ARRIVED, y), (RESULT, y), (BACK, home)]
        ax.scatter(*zip(*at, strict=True), s=95, color=color, zorder=2, linewidth=0)
        label = {"color": on_color(color), "size": 7, "ha": "center", "va": "center"}
        for x, row in at:
            ax.text(x, row, str(number), zorder=3, **label)

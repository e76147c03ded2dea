"""The wait-for graph of a job that hangs: which rank waits for which.

Here you can draw it (`waits_for`): with the ranks that wait for nobody on the right, or
as a circle if every rank waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.patches import FancyArrowPatch

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    diagram,
    on_color,
    rank_color,
)

COLUMN, ROW, RADIUS = 1.15, 0.62, 0.2  # inches

Places = dict[int, tuple[float, float]]


@mpl.rc_context(STYLE)
def waits_for(waits: Mapping[int, Sequence[int]], *, caption: str) -> Diagram:
    """Draw an arrow from each rank that waits to each rank that it waits for.

    waits: by rank, for whom it waits. Arrows lead to the right, so that who waits for
    nobody stands there, with a ring around it; only ranks that wait for each other in a
    circle share a column. If every rank waits, all stand on a circle.
    """
    depth = _depths(waits)
    all_wait = all(waits.get(rank) for rank in depth)
    places = _on_a_circle(waits) if all_wait else _in_columns(depth)
    xs, ys = zip(*places.values(), strict=True)
    left, right = min(xs) - COLUMN / 2, max(xs) + COLUMN / 2
    top, bottom = min(ys) - 2 * RADIUS, max(ys) + 2 * RADIUS
    figure, ax = diagram(right - left, bottom - top)
    for rank, (x, y) in places.items():
        if not waits.get(rank):
            ax.add_patch(mpl.patches.Circle((x, y), 1.35 * RADIUS, fc="none", ec=INK))
        ax.add_patch(mpl.patches.Circle((x, y), RADIUS, color=rank_color(rank)))
        ink = on_color(rank_color(rank))
        ax.text(x, y, str(rank), color=ink, ha="center", va="center")
        for other in waits.get(rank, ()):
            is_far = abs(x - places[other][0]) > 1.5 * COLUMN
            bow = -0.2 if all_wait else (0.25 if y > 0 else -0.25) if is_far else 0
            arrow = FancyArrowPatch(
                (x, y),
                places[other],
                arrowstyle="-|>",
                connectionstyle=f"arc3,rad={bow}",
                mutation_scale=10,
                color=INK,
                shrinkA=72 * RADIUS + 2,
                shrinkB=72 * 1.4 * RADIUS,
            )
            ax.add_patch(arrow)
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    ax.set_axis_off()
    figure.caption = caption
    words = (f"rank {r} waits for {[*t] or 'nobody'}" for r, t in waits.items())
    figure.alt = f"{caption} {'; '.join(words)}."
    return figure


def _in_columns(depth: Mapping[int, int]) -> Places:
    """Place the ranks of equal depth above each other, the least depth on the right."""
    columns = [[r for r in depth if depth[r] == d] for d in sorted({*depth.values()})]
    return {
        rank: (-COLUMN * column, ROW * (row - (len(ranks) - 1) / 2))
        for column, ranks in enumerate(columns)
        for row, rank in enumerate(ranks)
    }


def _on_a_circle(waits: Mapping[int, Sequence[int]]) -> Places:
    """Place the ranks clockwise, each behind the one that waits for it."""
    order = [min(waits)]
    while len(order) < len(waits):
        behind = [other for other in waits[order[-1]] if other not in order]
        order.append(behind[0] if behind else min({*waits} - {*order}))
    radius = COLUMN / 2 / math.sin(math.pi / max(len(order), 2))
    turns = [2 * math.pi * i / len(order) for i in range(len(order))]
    return {
        rank: (-radius * math.cos(turn), -radius * math.sin(turn))
        for rank, turn in zip(order, turns, strict=True)
    }


def _depths(waits: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return how many ranks at most stand between each rank and one that goes on."""
    ranks = sorted({*waits, *(other for others in waits.values() for other in others)})
    depth = dict.fromkeys(ranks, 0)
    for _ in ranks:  # a circle never settles, so this ends after as many rounds
        for rank in ranks:
            behind = [depth[other] for other in waits.get(rank, ())]
            depth[rank] = min(1 + max(behind, default=-1), len(ranks))
    return depth

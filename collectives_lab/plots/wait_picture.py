"""The wait-for graph of a job that hangs: which rank waits for which.

Here you can draw it with the ranks that wait for nobody on the right (`waits_for`).
"""

from __future__ import annotations

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


@mpl.rc_context(STYLE)
def waits_for(waits: Mapping[int, Sequence[int]], *, caption: str) -> Diagram:
    """Draw an arrow from each rank that waits to each rank that it waits for.

    waits: by rank, for whom it waits. Arrows lead to the right, so that who waits for
    nobody stands there, with a ring around it; only ranks that wait for each other in a
    circle share a column.
    """
    depth = _depths(waits)
    columns = [[r for r in depth if depth[r] == d] for d in sorted({*depth.values()})]
    tallest = max(map(len, columns))
    figure, ax = diagram(COLUMN * len(columns), ROW * tallest + 0.5)
    places = {
        rank: (-COLUMN * column, ROW * (row - (len(ranks) - 1) / 2))
        for column, ranks in enumerate(columns)
        for row, rank in enumerate(ranks)
    }
    for rank, (x, y) in places.items():
        if not waits.get(rank):
            ax.add_patch(mpl.patches.Circle((x, y), 1.35 * RADIUS, fc="none", ec=INK))
        ax.add_patch(mpl.patches.Circle((x, y), RADIUS, color=rank_color(rank)))
        ink = on_color(rank_color(rank))
        ax.text(x, y, str(rank), color=ink, ha="center", va="center")
        for other in waits.get(rank, ()):
            is_far = abs(x - places[other][0]) > 1.5 * COLUMN
            bow = f"arc3,rad={(0.25 if y > 0 else -0.25) if is_far else 0}"
            arrow = FancyArrowPatch(
                (x, y),
                places[other],
                arrowstyle="-|>",
                connectionstyle=bow,
                mutation_scale=10,
                color=INK,
                shrinkA=72 * RADIUS + 2,
                shrinkB=72 * 1.4 * RADIUS,
            )
            ax.add_patch(arrow)
    half = ROW * tallest / 2 + 0.15
    ax.set(xlim=(-COLUMN * (len(columns) - 0.6), 0.6), ylim=(half, -half))
    ax.set(aspect="equal")
    ax.set_axis_off()
    figure.caption = caption
    words = (f"rank {r} waits for {[*t] or 'nobody'}" for r, t in waits.items())
    figure.alt = f"{caption} {'; '.join(words)}."
    return figure


def _depths(waits: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return how many ranks at most stand between each rank and one that goes on."""
    ranks = sorted({*waits, *(other for others in waits.values() for other in others)})
    depth = dict.fromkeys(ranks, 0)
    for _ in ranks:  # a circle never settles, so this ends after as many rounds
        for rank in ranks:
            behind = [depth[other] for other in waits.get(rank, ())]
            depth[rank] = min(1 + max(behind, default=-1), len(ranks))
    return depth

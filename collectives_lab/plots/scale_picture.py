"""Sums of exponentials that are scaled to one maximum before they are added.

Here you can draw two or more shards of scores and their merge (`rescaled`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes

from collectives_lab.plots.figure import PHONE, STYLE, Diagram, blank, rank_color


@mpl.rc_context(STYLE)
def rescaled(shards: Sequence[Sequence[float]], caption: str | None = None) -> Diagram:
    """Draw a bar for each score: its exponential, on its rank and after the merge.

    shards: the finite scores of each rank. On the left a rank's bars are relative to
    its own largest score, on the right to the largest of all. Below each group is what
    its bars add up to. Raises ValueError for a rank without scores.
    """
    if not shards or not all(map(len, shards)):
        raise ValueError(f"the scores are {shards}; need one or more on every rank")
    largest = max(map(max, shards))
    figure = blank(PHONE, 1.9)
    alone, merged = figure.subplots(1, 2, sharey=True)
    own = _bars(alone, shards, [max(shard) for shard in shards])
    after = _bars(merged, shards, [largest] * len(shards))
    alone.set_title("before: own largest", fontsize=9)
    merged.set_title(f"merged: largest {largest:g}", fontsize=9)
    figure.caption = caption or "Exponentials, scaled to one largest score."
    words = (
        f"rank {rank}: largest {max(shard):g}, total {total:.2f}, scaled {scaled:.2f}"
        for rank, (shard, total, scaled) in enumerate(
            zip(shards, own, after, strict=True)
        )
    )
    figure.alt = f"{figure.caption} {'; '.join(words)}; together {sum(after):.2f}."
    return figure


def _bars(
    ax: Axes, shards: Sequence[Sequence[float]], scales: Sequence[float]
) -> list[float]:
    """Draw the exponentials of each rank relative to a scale; return their sums."""
    left, totals, ticks = 0.0, [], []
    for rank, (shard, scale) in enumerate(zip(shards, scales, strict=True)):
        heights = [math.exp(score - scale) for score in shard]
        places = [left + n for n in range(len(shard))]
        ax.bar(places, heights, width=0.9, color=rank_color(rank))
        totals.append(sum(heights))
        ticks.append((left + len(shard) / 2 - 0.5, f"rank {rank}\n{totals[-1]:.2f}"))
        left += len(shard) + 0.8
    ax.set_xticks(*zip(*ticks, strict=True), size=8)
    ax.set(ylim=(0, 1.05), yticks=[0, 0.5, 1], xlim=(-0.9, left - 0.9))
    ax.tick_params(axis="x", length=0)
    return totals

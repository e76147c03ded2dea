"""Trees drawn as trees: who is whose parent.

Here you can draw one tree over the ranks or several above the same ranks (`trees`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

MOST_RANKS = 32
LEVEL = 0.52  # inches between levels

Parents = Sequence[int | None]


@mpl.rc_context(STYLE)
def trees(
    parents: Mapping[str, Parents],
    *,
    is_downward: bool = False,
    per_node: int | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw trees over the same ranks, each rank in its column.

    parents: by name of the tree, the parent of each rank, None for the root, as
    `basics.trees.double_tree` gives them. is_downward: whether data travels only from
    parents to children, as arrows then say. per_node: ranks of a node, which then has a
    frame, and edges between nodes are dashed. Raises ValueError for more than 32 ranks
    and for parents that make no tree.
    """
    depths = {name: _depths(name, of) for name, of in parents.items()}
    if not depths:
        raise ValueError("there is no tree to draw; give parents by the tree's name")
    p = max(map(len, depths.values()))
    if p > MOST_RANKS:
        raise ValueError(f"{p} ranks have no room beside each other; {MOST_RANKS} have")
    levels = [max(of) + 1 for of in depths.values()]
    width = max(2.2, 0.3 * p + 0.3)
    figure = blank(min(9.5, width * len(depths)), LEVEL * max(levels) + 0.35)
    for number, (name, depth) in enumerate(depths.items(), 1):
        ax = figure.add_subplot(1, len(depths), number)
        ax.set_title(name, fontsize=9, pad=2)
        ax.set(xlim=(-0.7, p - 0.3), ylim=(max(levels) - 0.5, -0.5))
        ax.set_axis_off()
        _draw(ax, parents[name], depth, is_downward, per_node or p)
        if per_node:
            _frames(ax, depth, per_node)
    figure.caption = caption or f"{', '.join(depths)} over {p} ranks."
    figure.alt = f"{figure.caption} {'; '.join(map(_words, depths, parents.values()))}."
    return figure


def _depths(name: str, parents: Parents) -> list[int]:
    """Return how many edges are above each rank."""

    def depth(rank: int) -> int:
        above, at = 0, parents[rank]
        while at is not None:
            above, at = above + 1, parents[at]
            if above > len(parents):
                raise ValueError(f"{name}: rank {rank} never reaches a root")
        return above

    return [depth(rank) for rank in range(len(parents))]


def _frames(ax: Axes, depths: Sequence[int], per_node: int) -> None:
    """Frame the ranks of each node, with its number."""
    for first in range(0, len(depths), per_node):
        rows = depths[first : first + per_node]
        corner, wide = (first - 0.46, min(rows) - 0.36), len(rows) - 0.08
        high = max(rows) - min(rows) + 0.72
        frame = Rectangle(corner, wide, high, fc=(INK, 0.08), ec=(INK, 0.5), lw=0.7)
        ax.add_patch(frame).set_zorder(0)
        place = {"ha": "right", "va": "top", "size": 8}
        right, top = corner[0] + wide - 0.1, corner[1] + 0.08
        ax.text(right, top, f"node {first // per_node}", **place)


def _draw(
    ax: Axes,
    parents: Parents,
    depths: Sequence[int],
    is_downward: bool,
    per_node: int,
) -> None:
    """Draw edges or arrows, then a disc with the number of each rank."""
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1.2, "shrinkA": 0, "shrinkB": 8}
    for rank, parent in enumerate(parents):
        if parent is None:
            continue
        child, above = (rank, depths[rank]), (parent, depths[parent])
        if is_downward:
            ax.annotate("", child, above, arrowprops=arrow, zorder=1)
        else:
            ls = "-" if rank // per_node == parent // per_node else (0, (4, 2))
            xs, ys = zip(child, above, strict=True)
            ax.plot(xs, ys, color=INK, lw=1.2, ls=ls, zorder=1)
    for rank, depth in enumerate(depths):
        color = rank_color(rank)
        ax.scatter(rank, depth, s=230, color=color, zorder=2, linewidth=0)
        style = {"color": on_color(color), "size": 8, "weight": "bold"}
        ax.text(rank, depth, str(rank), ha="center", va="center", zorder=3, **style)


def _words(name: str, parents: Parents) -> str:
    edges = (f"{p} above {r}" for r, p in enumerate(parents) if p is not None)
    return f"{name}: {', '.join(edges)}"

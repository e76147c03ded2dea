"""Merges drawn as trees: which of two items survives each merge.

Here you can draw several orders and groupings of the same merges (`merge_trees`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

Tree = Any
"""The number of a rank, or a pair of trees: the left argument and the right one."""

LEAF, LEVEL = 0.92, 0.5  # inches between leaves, and between levels


@mpl.rc_context(STYLE)
def merge_trees(
    trees: Mapping[str, Tree],
    items: Sequence[Any],
    merge: Callable[[Any, Any], Any],
    *,
    label: Callable[[Any], str] = str,
    caption: str | None = None,
) -> Diagram:
    """Draw what each merge of a tree returns, in the colour of the rank it is from.

    The trees stand below each other, so that a narrow page has room for them.
    trees: by title, nested pairs of ranks such as `((0, 1), (2, 3))`, the left argument
    first. items: what each rank has. merge: called on two items; a result that is none
    of the items is grey. label: writes an item. Raises ValueError for a rank that has
    no item, and without a tree.
    """
    if not trees:
        raise ValueError("there is no tree to draw; give nested pairs by their title")
    leaves = {title: list(_ranks(tree)) for title, tree in trees.items()}
    for title, ranks in leaves.items():
        if unknown := [rank for rank in ranks if not 0 <= rank < len(items)]:
            raise ValueError(
                f"{title}: rank {unknown[0]} has no item; need 0 to {len(items) - 1}"
            )
    levels = [_height(tree) + 1.15 for tree in trees.values()]
    wide = max(map(len, leaves.values()))
    figure = blank(LEAF * wide, LEVEL * sum(levels) + 0.25 * len(trees))
    grid = figure.add_gridspec(len(trees), 1, height_ratios=levels)
    results = []
    for row, (title, tree) in enumerate(trees.items()):
        ax = figure.add_subplot(grid[row])
        ax.set_title(title, fontsize=9, pad=2)
        ax.set(xlim=(-0.5, wide - 0.5), ylim=(-0.75, levels[row] - 0.75))
        ax.set(xticks=[], yticks=[])
        ax.set_axis_off()
        results.append(_draw(ax, tree, iter(range(len(items))), items, merge, label)[2])
    pairs = zip(trees.items(), results, strict=True)
    sentences = [
        f"{_written(tree)} gives {label(result)}" for (_, tree), result in pairs
    ]
    figure.caption = caption or f"{'; '.join(sentences)}."
    figure.alt = f"{figure.caption} Merged as trees: {'; '.join(sentences)}."
    return figure


def _ranks(tree: Tree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        for child in tree:
            yield from _ranks(child)


def _height(tree: Tree) -> int:
    return 0 if isinstance(tree, int) else 1 + max(map(_height, tree))


def _written(tree: Tree) -> str:
    return f"{tree}".replace(",", " with")


def _draw(
    ax: Axes,
    tree: Tree,
    columns: Iterator[int],
    items: Sequence[Any],
    merge: Callable[[Any, Any], Any],
    label: Callable[[Any], str],
) -> tuple[float, int, Any]:
    """Draw a tree, and return where its top is and what it holds."""
    if isinstance(tree, int):
        x, y, item = float(next(columns)), 0, items[tree]
        ax.text(x, -0.42, f"rank {tree}", ha="center", va="center", size=7.5)
    else:
        below = [_draw(ax, child, columns, items, merge, label) for child in tree]
        x = sum(child[0] for child in below) / 2
        y, item = _height(tree), merge(below[0][2], below[1][2])
        for left, low, _ in below:
            ax.plot((left, x), (low, y), color=INK, lw=1.1, zorder=1)
    owners = [rank for rank, own in enumerate(items) if own is item]
    color = rank_color(owners[0]) if owners else INK
    box = {"boxstyle": "round,pad=0.28", "fc": color, "ec": "none"}
    style = {"ha": "center", "va": "center", "size": 8, "color": on_color(color)}
    ax.text(x, y, label(item), bbox=box, zorder=2, **style)
    return x, y, item

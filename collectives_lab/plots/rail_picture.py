"""A rail-optimised network: a leaf switch for all cards of one number, and a spine.

Here you can draw one, and the ways of messages through it (`rails`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    key_above,
    on_color,
    rank_color,
)
from collectives_lab.plots.series import series_look

# In inches: columns, and heights from the top.
PITCH, BOX, GAP = 0.4, 0.3, 0.35
SPINE, LEAF, GPU, NVLINK, BOTTOM = 0.5, 1.2, 2.25, 2.75, 3.15
HALF = 0.12
"""Half of the height of a switch: lines end at its edge, where no name is."""
ASIDE = 0.05
"""How far the lines of two ways keep apart."""


@mpl.rc_context(STYLE)
def rails(
    ways: Mapping[str, Sequence[int]],
    nodes: int = 3,
    per_node: int = 4,
    *,
    caption: str,
) -> Diagram:
    """Draw nodes, a leaf switch for each rail, and a spine above the leaves.

    ways: by name, the ranks that a message passes, in order. Between GPUs of one node
    it passes NVLink, between GPUs of equal number a leaf, and else leaf, spine, leaf.
    Raises ValueError for ranks that there are not.
    """
    known = range(nodes * per_node)
    for name, stops in ways.items():
        if len(stops) < 2 or not {*stops} <= {*known}:
            raise ValueError(
                f"{name}: {list(stops)}; need two ranks or more of {known}"
            )
    width = nodes * (per_node * PITCH + GAP) + 0.2
    figure = blank(width + 1.2, BOTTOM)
    ax = figure.add_subplot()
    ax.set(xlim=(0, width + 1.2), ylim=(BOTTOM, 0), aspect="equal")
    ax.set_axis_off()
    _switches(ax, nodes, per_node, width)
    signs = {}
    for n, (name, stops) in enumerate(ways.items()):
        look = series_look(n) | {"lw": 2.6, "marker": "", "zorder": 3}
        points = _points(stops, per_node, width)
        aside = ASIDE * (n - (len(ways) - 1) / 2)
        xs, ys = ([x + aside for x, _ in points], [y for _, y in points])
        (signs[name],) = ax.plot(xs, ys, **look)
    if signs:
        key_above(ax, signs)
    for y, text in ((SPINE, "spine"), (LEAF, "leaf switches"), (GPU, "GPU and card")):
        ax.text(width + 0.05, y, text, ha="left", va="center", size=8)
    figure.caption = caption
    words = "; ".join(f"{name}: {' to '.join(map(str, w))}" for name, w in ways.items())
    figure.alt = f"{caption} {nodes} nodes of {per_node} GPUs. {words}."
    return figure


def _x(rank: int, per_node: int) -> float:
    node, gpu = divmod(rank, per_node)
    return 0.2 + node * (per_node * PITCH + GAP) + (gpu + 0.5) * PITCH


def _leaf_x(rail: int, per_node: int, width: float) -> float:
    return width * (rail + 0.5) / per_node


def _side(per_node: int, width: float) -> float:
    """Return how far from its middle a leaf is linked to the spine."""
    return min(0.42, 0.32 * width / per_node)


def _switches(ax: Axes, nodes: int, per_node: int, width: float) -> None:
    _bar(ax, 0.2, width - 0.2, SPINE, "spine switches")
    thin = {"color": INK, "lw": 0.8, "alpha": 0.7, "zorder": 1}
    for rail in range(per_node):
        x = _leaf_x(rail, per_node, width)
        side = _side(per_node, width)
        _bar(ax, x - side - 0.08, x + side + 0.08, LEAF, f"rail {rail}")
        ax.plot([x + side, x + side], [SPINE + HALF, LEAF - HALF], **thin)
    for rank in range(nodes * per_node):
        x, color = _x(rank, per_node), rank_color(rank)
        leaf = _leaf_x(rank % per_node, per_node, width)
        ax.plot([x, leaf], [GPU, LEAF + HALF], **thin)
        ax.plot([x, x], [GPU, NVLINK - HALF], **thin)
        ax.scatter(x, GPU, s=210, color=color, zorder=4, linewidth=0, marker="s")
        style = {"color": on_color(color), "size": 8, "weight": "bold", "zorder": 5}
        ax.text(x, GPU, str(rank), ha="center", va="center", **style)
    for node in range(nodes):
        left, right = (_x(node * per_node + g, per_node) for g in (0, per_node - 1))
        _bar(ax, left - BOX / 2, right + BOX / 2, NVLINK, f"NVLink of node {node}")


def _points(
    stops: Sequence[int], per_node: int, width: float
) -> list[tuple[float, float]]:
    """Return the corners of a way: down to NVLink, or up to a leaf or the spine."""
    points = [(_x(stops[0], per_node), GPU)]
    for a, b in pairwise(stops):
        if a // per_node == b // per_node:
            points += [(_x(rank, per_node), NVLINK - HALF - 0.05) for rank in (a, b)]
        else:
            leaf, other = (_leaf_x(r % per_node, per_node, width) for r in (a, b))
            points.append((leaf, LEAF + HALF))
            if leaf != other:
                sides = [x + _side(per_node, width) for x in (leaf, other)]
                below = SPINE + HALF + 0.06
                points += [(sides[0], LEAF + HALF), (sides[0], below)]
                points += [(sides[1], below), (sides[1], LEAF + HALF)]
                points.append((other, LEAF + HALF))
        points.append((_x(b, per_node), GPU))
    return points


def _bar(ax: Axes, left: float, right: float, y: float, name: str) -> None:
    style = "round,pad=0,rounding_size=0.04"
    frame = FancyBboxPatch(
        (left, y - HALF), right - left, 2 * HALF, style, fc=(INK, 0.14), ec=INK, lw=0.7
    )
    frame.set_zorder(2)
    ax.add_patch(frame)
    ax.text((left + right) / 2, y, name, ha="center", va="center", size=7.5, zorder=6)

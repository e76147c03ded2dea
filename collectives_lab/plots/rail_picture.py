"""A rail-optimised network: a leaf switch for all cards of one number, and a spine.

Here you can draw one, and the ways of messages through it (`rails`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    blank,
    key_above,
    on_color,
    rank_color,
)
from collectives_lab.plots.series import series_look

# In inches: heights from the top, and words at the right.
SPINE, LEAF, GPU, NVLINK, BOTTOM = 0.5, 1.2, 2.25, 2.8, 3.02
TOP = 0.3
WORDS = 1.2
HALF = 0.17
"""Half of the height of a switch: links end at its edge."""
INSIDE = 0.12
"""How far below or above the middle of a switch a way passes it, beside its name."""
ASIDE = 0.05
"""How far the lines of two ways keep apart."""


@dataclass(frozen=True)
class _Columns:
    """Where GPUs and leaves stand, in inches from the left."""

    nodes: int
    per_node: int
    pitch: float = 0.4
    gap: float = 0.35
    margin: float = 0.2

    @property
    def width(self) -> float:
        return self.margin + self.nodes * (self.per_node * self.pitch + self.gap)

    @property
    def side(self) -> float:
        """How far from its middle a leaf is linked to the spine."""
        return min(0.42, 0.32 * self.width / self.per_node)

    def gpu(self, rank: int) -> float:
        node, gpu = divmod(rank, self.per_node)
        left = self.margin + node * (self.per_node * self.pitch + self.gap)
        return left + (gpu + 0.5) * self.pitch

    def leaf(self, rank: int) -> float:
        return self.width * (rank % self.per_node + 0.5) / self.per_node


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
    A phone gets the same picture in its width, if the nodes fit.
    Raises ValueError for ranks that there are not.
    """
    known = range(nodes * per_node)
    for name, stops in ways.items():
        if len(stops) < 2 or not {*stops} <= {*known}:
            raise ValueError(
                f"{name}: {list(stops)}; need two ranks or more of {known}"
            )
    figure = _picture(ways, _Columns(nodes, per_node), WORDS)
    narrow = _Columns(nodes, per_node, pitch=0.25, gap=0.12, margin=0.1)
    if narrow.width <= PHONE:
        figure.narrow = _picture(ways, narrow)
    figure.caption = caption
    words = "; ".join(f"{name}: {' to '.join(map(str, w))}" for name, w in ways.items())
    figure.alt = f"{caption} {nodes} nodes of {per_node} GPUs. {words}."
    return figure


def _picture(
    ways: Mapping[str, Sequence[int]], columns: _Columns, words: float = 0.0
) -> Diagram:
    """Draw the network and the ways, with so many inches of words at the right."""
    figure = blank(columns.width + words, BOTTOM + 0.15)
    ax = figure.add_subplot()
    ax.set(xlim=(0, columns.width + words), ylim=(BOTTOM, TOP), aspect="equal")
    ax.set_axis_off()
    _switches(ax, columns)
    signs = {}
    for n, (name, stops) in enumerate(ways.items()):
        look = series_look(n) | {"lw": 2.6, "marker": "", "zorder": 3}
        aside = ASIDE * (n - (len(ways) - 1) / 2)
        xs, ys = zip(*_points(stops, columns), strict=True)
        (signs[name],) = ax.plot([x + aside for x in xs], ys, **look)
    if signs:
        key_above(ax, signs)
    if words:
        names = {SPINE: "spine", LEAF: "leaf switches", GPU: "GPU and card"}
        for y, text in names.items():
            ax.text(columns.width + 0.05, y, text, ha="left", va="center", size=8)
    return figure


def _switches(ax: Axes, columns: _Columns) -> None:
    margin, side, half = columns.margin, columns.side, 0.375 * columns.pitch
    _bar(ax, margin, columns.width - margin, SPINE, "spine switches")
    thin = {"color": INK, "lw": 0.8, "alpha": 0.7, "zorder": 1}
    for rail in range(columns.per_node):
        x = columns.leaf(rail)
        _bar(ax, x - side - 0.08, x + side + 0.08, LEAF, f"rail {rail}")
        ax.plot([x + side, x + side], [SPINE + HALF, LEAF - HALF], **thin)
    for rank in range(columns.nodes * columns.per_node):
        x, color = columns.gpu(rank), rank_color(rank)
        ax.plot([x, columns.leaf(rank)], [GPU, LEAF + HALF], **thin)
        ax.plot([x, x], [GPU, NVLINK - HALF], **thin)
        ax.scatter(x, GPU, s=210, color=color, zorder=4, linewidth=0, marker="s")
        style = {"color": on_color(color), "size": 8, "weight": "bold", "zorder": 5}
        ax.text(x, GPU, str(rank), ha="center", va="center", **style)
    for node in range(columns.nodes):
        first = node * columns.per_node
        left, right = columns.gpu(first), columns.gpu(first + columns.per_node - 1)
        _bar(ax, left - half, right + half, NVLINK, f"NVLink of node {node}")


def _points(stops: Sequence[int], columns: _Columns) -> list[tuple[float, float]]:
    """Return the corners of a way: down to NVLink, or up to a leaf or the spine."""
    points = [(columns.gpu(stops[0]), GPU)]
    for a, b in pairwise(stops):
        if a // columns.per_node == b // columns.per_node:
            points += [(columns.gpu(rank), NVLINK - INSIDE) for rank in (a, b)]
        else:
            leaf, other = columns.leaf(a), columns.leaf(b)
            points.append((leaf, LEAF + INSIDE))
            if leaf != other:
                sides = [x + columns.side for x in (leaf, other)]
                below = SPINE + INSIDE
                points += [(sides[0], LEAF + INSIDE), (sides[0], below)]
                points += [(sides[1], below), (sides[1], LEAF + INSIDE)]
                points.append((other, LEAF + INSIDE))
        points.append((columns.gpu(b), GPU))
    return points


def _bar(ax: Axes, left: float, right: float, y: float, name: str) -> None:
    style = "round,pad=0,rounding_size=0.04"
    frame = FancyBboxPatch(
        (left, y - HALF), right - left, 2 * HALF, style, fc=(INK, 0.14), ec=INK, lw=0.7
    )
    frame.set_zorder(2)
    ax.add_patch(frame)
    ax.text((left + right) / 2, y, name, ha="center", va="center", size=7.5, zorder=6)

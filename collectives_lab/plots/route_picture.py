"""The ways of messages through nodes: which GPUs they pass on NVLink and network.

Here you can draw such ways beside each other (`routes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

APART, SIDE, PITCH = 1.0, 0.46, 0.42  # inches
WIDEST_BOW = 0.61
"""Inches that a bow may swing out, twice; a frame is wider."""
MOST = 3
"""Ways that have room beside each other."""

Hop = tuple[int, int]
"""The ranks that a message leaves and reaches."""


@mpl.rc_context(STYLE)
def routes(
    ways: Mapping[str, Sequence[Hop]],
    per_node: int = 4,
    nodes: int = 2,
    *,
    rank_at: Mapping[str, Sequence[int]] | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw the hops of each way between the GPUs of nodes.

    ways: by name, the hops as pairs of ranks; the first per_node ranks are node 0. A
    hop inside a node is drawn as a bow, one between nodes as a straight line, with a
    head at each end if there is one back. rank_at: by the same names, the rank at each
    place, where it is another than the place. A figure that is little wider than a
    phone is drawn smaller there.
    Raises ValueError for ranks that the nodes do not have.
    """
    if not 0 < len(ways) <= MOST:
        raise ValueError(f"{len(ways)} ways; need 1 to {MOST}")
    for name, hops in ways.items():
        if wrong := {r for hop in hops for r in hop} - {*range(nodes * per_node)}:
            raise ValueError(f"{name}: ranks {sorted(wrong)} of {nodes * per_node}")
    figure = _picture(ways, per_node, nodes, rank_at or {})
    width = figure.get_figwidth()
    if PHONE < width < 1.2 * PHONE:
        figure.narrow = _picture(ways, per_node, nodes, rank_at or {}, PHONE / width)
    figure.caption = caption or f"{', '.join(ways)}, between {nodes} nodes."
    words = (f"{name}: {', '.join(f'{a} to {b}' for a, b in hops)}"
             for name, hops in ways.items())  # fmt: skip
    figure.alt = f"{figure.caption} {'; '.join(words)}."
    return figure


def _picture(
    ways: Mapping[str, Sequence[Hop]],
    per_node: int,
    nodes: int,
    rank_at: Mapping[str, Sequence[int]],
    scale: float = 1.0,
) -> Diagram:
    apart = APART * (nodes - 1)
    width, height = apart + 2 * SIDE, PITCH * per_node + 0.6
    figure = blank(scale * width * len(ways), scale * height)
    for number, (name, hops) in enumerate(ways.items(), 1):
        ax = figure.add_subplot(1, len(ways), number)
        ax.set(xlim=(-SIDE, apart + SIDE), ylim=(height - 0.5, -0.5), aspect="equal")
        ax.set_axis_off()
        ax.text(apart / 2, -0.4, name, ha="center", va="center", size=9)
        ranks = list(rank_at.get(name, range(nodes * per_node)))
        _nodes(ax, ranks, per_node)
        between = [(ranks.index(src), ranks.index(dst)) for src, dst in hops]
        for hop in between:
            _hop(ax, hop, per_node, nodes, has_way_back=hop[::-1] in between)
    return figure


def _point(place: int, per_node: int) -> tuple[float, float]:
    node, number = divmod(place, per_node)
    return node * APART, number * PITCH


def _nodes(ax: Axes, ranks: Sequence[int], per_node: int) -> None:
    for node in range(len(ranks) // per_node):
        corner = (node * APART - 0.32, -0.22)
        style = "round,pad=0,rounding_size=0.06"
        frame = FancyBboxPatch(
            corner, 0.64, PITCH * per_node + 0.02, style, fc=(INK, 0.06), ec=(INK, 0.6)
        )
        ax.add_patch(frame)
    for place, rank in enumerate(ranks):
        x, y = _point(place, per_node)
        color = rank_color(rank)
        ax.scatter(x, y, s=190, color=color, zorder=2, linewidth=0, marker="s")
        label = {"color": on_color(color), "size": 8, "weight": "bold"}
        ax.text(x, y, str(rank), ha="center", va="center", zorder=3, **label)


def _hop(
    ax: Axes, hop: Hop, per_node: int, nodes: int, has_way_back: bool = False
) -> None:
    """Draw a hop between two places, and on the same line the way back."""
    is_inside = hop[0] // per_node == hop[1] // per_node
    is_mutual = has_way_back and not is_inside
    if is_mutual and hop[0] > hop[1]:
        return  # two dashed lines on each other would look solid
    bow = 0.0
    if is_inside:  # down on the outer side, up on the inner one
        apart = abs(hop[1] - hop[0])
        bow = min(0.35 + 0.4 / apart, WIDEST_BOW / (apart * PITCH))
        bow *= 1 if hop[0] // per_node < nodes - 1 else -1
    arrow = FancyArrowPatch(
        _point(hop[0], per_node),
        _point(hop[1], per_node),
        connectionstyle=f"arc3,rad={bow}",
        arrowstyle="<|-|>" if is_mutual else "-|>",
        mutation_scale=11,
        shrinkA=8,
        shrinkB=8,
        color=INK,
        lw=1.5,
        ls="-" if is_inside else (0, (4, 2)),
        zorder=4 if is_inside else 1.5,  # below the GPUs that it passes
    )
    ax.add_patch(arrow)

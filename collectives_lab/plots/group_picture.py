"""Ranks on the GPUs of nodes, and which of them form a group.

Here you can draw where the members of one group are (`group`).
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

CELL, LEFT, TOP = 0.34, 0.62, 0.25
"""Inches of a GPU, of the names on the left, and of the head."""
MOST = 16
"""Nodes that are drawn."""


@mpl.rc_context(STYLE)
def group(
    members: Sequence[int],
    rank_at: Sequence[int],
    per_node: int = 8,
    *,
    caption: str,
) -> Diagram:
    """Draw the ranks by the place that they have, those of one group filled.

    rank_at: the rank at each place; the first per_node places are node 0. The colour
    is that of the group's first rank. Raises ValueError where the places do not fill
    nodes.
    """
    nodes, rest = divmod(len(rank_at), per_node)
    if rest or not nodes:
        raise ValueError(f"{len(rank_at)} places; need a multiple of {per_node}")
    shown = min(nodes, MOST)
    width = LEFT + per_node * CELL + 0.1
    height = TOP + shown * CELL + (0.1 if shown == nodes else 0.35)
    figure = blank(width, height)
    ax = figure.add_subplot()
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.set_axis_off()
    color, inside = rank_color(min(members)), {*members}
    words = {"ha": "center", "va": "center"}
    ax.text(LEFT + per_node * CELL / 2, TOP / 2, "GPUs of a node", size=8, **words)
    for place, rank in enumerate(rank_at[: shown * per_node]):
        node, gpu = divmod(place, per_node)
        x, y = LEFT + gpu * CELL, TOP + node * CELL
        is_member = rank in inside
        look = {"fc": color if is_member else (INK, 0.08), "ec": INK, "lw": 0.6}
        ax.add_patch(Rectangle((x + 0.02, y + 0.02), CELL - 0.04, CELL - 0.04, **look))
        style = {"color": on_color(color), "weight": "bold"} if is_member else {}
        ax.text(x + CELL / 2, y + CELL / 2, str(rank), size=7.5, **words, **style)
        if not gpu:
            ax.text(LEFT - 0.06, y + CELL / 2, f"node {node}", ha="right", va="center",
                    size=8)  # fmt: skip
    if shown < nodes:
        ax.text(width / 2, height - 0.15, f"and {nodes - shown} nodes more", **words)
    places = [place for place, rank in enumerate(rank_at) if rank in inside]
    by_node = {place // per_node for place in places}
    figure.caption = caption
    figure.alt = (
        f"{caption} {len(inside)} ranks on {len(by_node)} of {nodes} nodes: ranks "
        f"{sorted(inside)} at places {places}."
    )
    return figure

"""Memory in bars: who keeps which part of a training state, and what it adds up to.

Here you can draw the parts that each rank keeps in the stages of ZeRO (`shards`)
or in hybrid sharding (`hybrid_shards`), and stacked bars of bytes by kind against what
a GPU has (`memory`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    blank,
    diagram,
    key_above,
    rank_color,
)
from collectives_lab.plots.series import series_colors

STAGES = ("data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3")
GAP = 0.6
"""Between two kinds, in bytes a parameter."""
LABEL = 32
"""Pixels that a sum takes behind its bar."""


@mpl.rc_context(STYLE)
def shards(sizes: Mapping[str, float], *, world_size: int = 4, caption: str) -> Diagram:
    """Draw which part of each kind every rank keeps, from data parallelism to ZeRO-3.

    sizes: bytes a parameter by kind, in the order parameters, gradients, optimizer; a
    box is as wide. A part has the colour of the rank that owns it, and is hollow where
    it is not kept. The stages stand below each other, for narrow pages.
    """
    figure = blank(3.8, len(STAGES) * (0.24 * world_size + 0.36) + 0.3)
    axes = figure.subplots(len(STAGES), 1, sharex=True, sharey=True)
    for stage, ax in enumerate(axes):
        cut = list(sizes)[len(sizes) - stage :]
        kept = sum(n / world_size if kind in cut else n for kind, n in sizes.items())
        for rank in range(world_size):
            _row(ax, rank, rank, sizes, cut, world_size)
        head = f"{STAGES[stage]}: {kept:g} bytes a parameter"
        ax.set_title(head, loc="left", fontsize=9)
        ax.set_yticks(range(world_size), [f"rank {r}" for r in range(world_size)])
        _bare(ax)
    _heads(axes[0], sizes)
    axes[0].set_title(axes[0].get_title(loc="left"), loc="left", fontsize=9, pad=16)
    axes[0].set(xlim=(-0.1, _width(sizes) + 0.1), ylim=(world_size - 0.6, -0.4))
    figure.caption = caption
    figure.alt = (
        f"Four panels, from data parallel to ZeRO-3, with a row for each of "
        f"{world_size} ranks. {caption}"
    )
    return figure


@mpl.rc_context(STYLE)
def hybrid_shards(
    sizes: Mapping[str, float], *, nodes: int = 2, per_node: int = 2, caption: str
) -> Diagram:
    """Draw which parts the ranks of each node keep, if each node keeps all of them.

    sizes: bytes a parameter by kind; a box is as wide. A part has one colour in all
    nodes, and a line joins the ranks that keep it.
    """
    ranks = nodes * per_node
    figure, ax = diagram(3.8, 0.3 * ranks + 0.45 * nodes + 0.5)
    width = _width(sizes)
    rows = [rank + 0.9 * (rank // per_node) for rank in range(ranks)]
    for rank, row in enumerate(rows):
        _row(ax, row, rank % per_node, sizes, list(sizes), per_node)
    for node in range(nodes):
        first = rows[node * per_node]
        box = (-0.25, first - 0.5), width + 0.5, per_node
        ax.add_patch(Rectangle(*box, fill=False, ec=INK, ls=":"))
        what = f"node {node}: all_gather, reduce_scatter"
        ax.text(-0.25, first - 0.58, what, va="bottom", fontsize=8)
    for part in range(per_node):
        at, same = width + 0.9 + 0.6 * part, rows[part::per_node]
        look = {"color": rank_color(part), "marker": "o", "linewidth": 2}
        ax.plot([at] * nodes, same, **look)
    ax.text(width + 2.7, rows[0] - 0.58, "all_reduce", ha="right", va="bottom", size=8)
    ax.set_yticks(rows, [f"rank {r}" for r in range(ranks)])
    _bare(ax)
    _heads(ax, sizes, rows[-1] + 1.0)
    ax.set(xlim=(-0.3, width + 2.7), ylim=(rows[-1] + 1.1, -1.0))
    figure.caption = caption
    figure.alt = (
        f"{nodes} nodes of {per_node} ranks; each node keeps all parts of "
        f"{', '.join(sizes)}. {caption}"
    )
    return figure


def _row(
    ax: Axes,
    row: float,
    own: int,
    sizes: Mapping[str, float],
    cut: list[str],
    parts: int,
) -> None:
    """Draw what one rank keeps: whole boxes, or its own part of those that are cut."""
    left = 0.0
    for kind, size in sizes.items():
        part = size / parts
        for owner in range(parts):
            corner = left + owner * part, row - 0.33
            look = {"ec": INK, "lw": 0.4, "fc": "none"}
            if kind not in cut or owner == own:
                look = {"ec": "white", "lw": 0.4, "fc": rank_color(owner)}
            ax.add_patch(Rectangle(corner, part, 0.66, **look))
        left += size + GAP


def _width(sizes: Mapping[str, float]) -> float:
    return sum(sizes.values()) + GAP * (len(sizes) - 1)


def _bare(ax: Axes) -> None:
    """Leave the names of the rows, and no ticks and no frame."""
    ax.tick_params(axis="y", length=0)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)


def _heads(ax: Axes, sizes: Mapping[str, float], at: float = -0.55) -> None:
    """Name the kinds, by default above the first row."""
    left = 0.0
    for kind, size in sizes.items():
        ax.text(left + size / 2, at, kind, ha="center", va="bottom", fontsize=7.5)
        left += size + GAP


@mpl.rc_context(STYLE)
def memory(
    bars: Mapping[str, Mapping[str, float]],
    *,
    caption: str,
    xlabel: str,
    limits: Mapping[str, float] | None = None,
    most: float | None = None,
    looks: Sequence[str] = (),
) -> Diagram:
    """Draw a bar for each name, stacked by kind; a kind has its colour in all bars.

    limits: dashed lines by name, such as what a GPU has. most: where the axis ends; a
    longer bar is cut there, with an arrow behind its sum. looks: all kinds of several
    pictures, so that each has its colour in all of them. A phone gets the same picture
    in its width.
    """
    drawn = {width: blank(width, 0.3 * len(bars) + 1.2) for width in (6.0, PHONE)}
    for figure in drawn.values():
        _stack(figure.add_subplot(), bars, xlabel, limits or {}, most, looks)
    figure, figure.narrow = drawn[6.0], drawn[PHONE]
    figure.caption = caption
    kinds = dict.fromkeys(kind for bar in bars.values() for kind in bar)
    ends = {name: sum(bar.values()) for name, bar in bars.items()}
    sums = "; ".join(f"{name}: {end:.3g}" for name, end in ends.items())
    figure.alt = f"Bars stacked by {', '.join(kinds)}. {sums}. {caption}"
    return figure


def _stack(
    ax: Axes,
    bars: Mapping[str, Mapping[str, float]],
    xlabel: str,
    limits: Mapping[str, float],
    most: float | None,
    looks: Sequence[str],
) -> None:
    kinds = list(dict.fromkeys(kind for bar in bars.values() for kind in bar))
    colors = series_colors([*looks, *kinds])
    ends = dict.fromkeys(bars, 0.0)
    for kind in kinds:
        for row, (name, bar) in enumerate(bars.items()):
            ax.barh(row, bar.get(kind, 0), 0.62, ends[name], color=colors[kind])
            ends[name] += bar.get(kind, 0)
    edge = most or max([*ends.values(), *limits.values()])
    signs = {kind: Patch(fc=colors[kind]) for kind in kinds}
    for name, at in limits.items():
        signs[name] = ax.axvline(at, color=INK, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(bars)), list(bars))
    ax.set(
        xlabel=xlabel,
        xlim=(0, edge if most else 1.08 * edge),
        ylim=(len(bars) - 0.5, -0.6),
    )
    key_above(ax, signs, most=5)
    ax.figure.draw_without_rendering()
    room = LABEL * np.ptp(ax.get_xlim()) / ax.bbox.width
    for row, end in enumerate(ends.values()):
        text = f"{round(end, 2):.3g}" if end < 1000 else f"{end:,.0f}"
        text += " →" if end > edge else ""
        look = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        # A sum that a limit's line would cross stands behind the line.
        crossed = [n for n in limits.values() if 0 < n - end < room]
        behind = min(max([end, *crossed]), edge)
        ax.annotate(text, (behind, row), fontsize=7.5, **look)

"""Memory in bars: who keeps which part of a training state, and what it adds up to.

Here you can draw the parts that each rank keeps in the stages of ZeRO (`shards`), and
stacked bars of bytes by kind against what a GPU has (`memory`).
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    diagram,
    key_above,
    rank_color,
)
from collectives_lab.plots.series import series_look

STAGES = ("data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3")
GAP = 0.6
"""Between two kinds, in bytes a parameter."""


@mpl.rc_context(STYLE)
def shards(sizes: Mapping[str, float], *, world_size: int = 4, caption: str) -> Diagram:
    """Draw which part of each kind every rank keeps, from data parallelism to ZeRO-3.

    sizes: bytes a parameter by kind, in the order parameters, gradients, optimizer; a
    box is as wide. A part has the colour of the rank that owns it, and is hollow where
    it is not kept.
    """
    figure = blank(8.0, 0.55 * world_size + 2.2)
    figure.get_layout_engine().set(wspace=0.12)  # more than between two kinds
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for stage, ax in enumerate(axes.flat):
        cut = list(sizes)[len(sizes) - stage :]
        kept = sum(n / world_size if kind in cut else n for kind, n in sizes.items())
        for rank in range(world_size):
            _row(ax, rank, sizes, cut, world_size)
        ax.set_title(f"{STAGES[stage]}: {kept:g} bytes a parameter", loc="left")
        ax.set_yticks(range(world_size), [f"rank {r}" for r in range(world_size)])
        ax.tick_params(axis="y", length=0)
        ax.set_xticks([])
        for side in ax.spines.values():
            side.set_visible(False)
        _heads(ax, sizes)
    width = sum(sizes.values()) + GAP * (len(sizes) - 1)
    axes[0, 0].set(xlim=(-0.1, width + 0.1), ylim=(world_size - 0.5, -1.1))
    figure.caption = caption
    figure.alt = (
        f"Four panels, from data parallel to ZeRO-3, with a row for each of "
        f"{world_size} ranks. {caption}"
    )
    return figure


def _row(
    ax: Axes, rank: int, sizes: Mapping[str, float], cut: list[str], world_size: int
) -> None:
    """Draw what one rank keeps: whole boxes, or its own part of those that are cut."""
    left = 0.0
    for kind, size in sizes.items():
        part = size / world_size
        for owner in range(world_size):
            corner = left + owner * part, rank - 0.33
            look = {"ec": INK, "lw": 0.4, "fc": "none"}
            if kind not in cut or owner == rank:
                look = {"ec": "white", "lw": 0.4, "fc": rank_color(owner)}
            ax.add_patch(Rectangle(corner, part, 0.66, **look))
        left += size + GAP


def _heads(ax: Axes, sizes: Mapping[str, float]) -> None:
    left = 0.0
    for kind, size in sizes.items():
        ax.text(left + size / 2, -0.55, kind, ha="center", va="bottom", fontsize=7.5)
        left += size + GAP


@mpl.rc_context(STYLE)
def memory(
    bars: Mapping[str, Mapping[str, float]],
    *,
    caption: str,
    xlabel: str,
    limits: Mapping[str, float] | None = None,
    most: float | None = None,
) -> Diagram:
    """Draw a bar for each name, stacked by kind; a kind has its colour in all bars.

    limits: dashed lines by name, such as what a GPU has. most: where the axis ends; a
    longer bar is cut there, with an arrow behind its sum.
    """
    figure, ax = diagram(6.0, 0.3 * len(bars) + 1.2)
    kinds = list(dict.fromkeys(kind for bar in bars.values() for kind in bar))
    ends = dict.fromkeys(bars, 0.0)
    for number, kind in enumerate(kinds):
        color = series_look(number)["color"]
        for row, (name, bar) in enumerate(bars.items()):
            ax.barh(row, bar.get(kind, 0), 0.62, ends[name], color=color)
            ends[name] += bar.get(kind, 0)
    edge = most or max([*ends.values(), *(limits or {}).values()])
    for row, end in enumerate(ends.values()):
        text = f"{round(end, 2):.3g}" if end < 1000 else f"{end:,.0f}"
        text += " →" if end > edge else ""
        look = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        # A sum that a limit's line would cross stands behind the line.
        crossed = [n for n in (limits or {}).values() if 0 < n - end < 0.1 * edge]
        behind = min(max([end, *crossed]), edge)
        ax.annotate(text, (behind, row), fontsize=7.5, **look)
    signs = {k: Patch(fc=series_look(n)["color"]) for n, k in enumerate(kinds)}
    for name, at in (limits or {}).items():
        signs[name] = ax.axvline(at, color=INK, linestyle="--", linewidth=1)
    key_above(ax, signs, most=5)
    ax.set_yticks(range(len(bars)), list(bars))
    ax.set(
        xlabel=xlabel,
        xlim=(0, edge if most else 1.08 * edge),
        ylim=(len(bars) - 0.5, -0.6),
    )
    figure.caption = caption
    sums = "; ".join(f"{name}: {end:.3g}" for name, end in ends.items())
    figure.alt = f"Bars stacked by {', '.join(kinds)}. {sums}. {caption}"
    return figure

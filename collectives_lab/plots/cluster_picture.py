"""A cluster as it is built: nodes with their GPUs, switches and network cards.

Here you can draw a Fabric (`cluster`): who is linked to whom, and how fast. A link is
as wide as it is fast.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.basics.units import format_bandwidth
from collectives_lab.fabrics.clusters import Fabric
from collectives_lab.plots.cluster_layout import (
    BOX,
    CARD,
    GPU,
    PAD,
    PCIE,
    PITCH,
    SWITCH,
    THINNEST,
    WORDS,
    Columns,
    Layout,
)
from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)


@mpl.rc_context(STYLE)
def cluster(fabric: Fabric, *, caption: str | None = None) -> Diagram:
    """Draw the nodes of a cluster, with each rank on its GPU.

    A link is as wide as its bandwidth, which is written on the right, one way. Of many
    nodes, and of many GPUs of a node, some are left out, which dots say. What lies
    between a GPU and its card is drawn where the fabric has a machine.
    """
    layout = Layout.of(fabric)
    figure = blank(layout.width + WORDS, layout.bottom - layout.top)
    ax = figure.add_subplot()
    ax.set(
        xlim=(0, layout.width + WORDS), ylim=(layout.bottom, layout.top), aspect="equal"
    )
    ax.set_axis_off()
    for number, columns in layout.nodes:
        _node(ax, layout, number, columns)
    if layout.has_network:
        _network(ax, layout)
    for y, text in layout.words():
        ax.text(layout.width + 0.1, y, text, ha="left", va="center", size=8)
    figure.caption = caption or f"{fabric.name}: {layout.count()}. Width is bandwidth."
    figure.alt = f"{figure.caption} {layout.sentence()}"
    return figure


def _node(
    ax: Axes,
    layout: Layout,
    number: int | None,
    columns: Columns,
) -> None:
    left, right = columns[0][1] - PITCH / 2, columns[-1][1] + PITCH / 2
    if number is None:
        ax.text((left + right) / 2, GPU, "…", ha="center", va="center", size=14)
        return
    bottom = CARD + 0.2 if layout.has_network and not layout.has_sockets else GPU + 0.25
    top = layout.top + 0.2
    frame = (left - PAD / 2, top), right - left + PAD, bottom - top
    _box(ax, *frame, fc=(INK, 0.05), ec=(INK, 0.6))
    kind = "socket" if layout.has_sockets else "node"
    name = {"ha": "left", "va": "center", "size": 8}
    ax.text(left - PAD / 2, layout.top + 0.1, f"{kind} {number}", **name)
    if not layout.is_alone:
        _bar(ax, left + 0.04, right - 0.04, SWITCH, layout.inside[0])
    for place, x in columns:
        _gpu(ax, layout, place, x)
    if layout.has_network and not layout.has_sockets:
        _cards(ax, layout, columns)


def _gpu(ax: Axes, layout: Layout, place: int | None, x: float) -> None:
    if place is None:
        ax.text(x, GPU, "…", ha="center", va="center", size=11)
        return
    if not layout.is_alone:
        speed = layout.points(layout.fabric.inside.bandwidth)
        _link(ax, x, SWITCH + 0.11, GPU - BOX / 2, speed)
    rank = int(np.flatnonzero(layout.fabric.place == place)[0])
    color = rank_color(rank)
    _box(ax, (x - BOX / 2, GPU - BOX / 2), BOX, BOX, fc=color, ec="none")
    style = {"color": on_color(color), "size": 8, "weight": "bold"}
    ax.text(x, GPU, str(rank), ha="center", va="center", zorder=4, **style)


def _cards(ax: Axes, layout: Layout, columns: Columns) -> None:
    """Draw the cards below the GPUs that share them, and what lies between."""
    places = [(place, x) for place, x in columns if place is not None]
    nic = layout.fabric.nic
    for _, group in groupby(places, key=lambda column: int(nic[column[0]])):
        xs = [x for _, x in group]
        middle, top = (xs[0] + xs[-1]) / 2, GPU + BOX / 2
        for x in xs:
            _link(ax, x, top, PCIE, THINNEST)
        if layout.fabric.machine or len(xs) > 1:
            reach = 0.1 if len(xs) == 1 else 0.02
            _bar(ax, xs[0] - reach, xs[-1] + reach, PCIE, "", height=0.1)
        _link(ax, middle, PCIE, CARD - 0.1, THINNEST)
        _box(ax, (middle - 0.13, CARD - 0.1), 0.26, 0.2, fc=(INK, 0.35), ec=INK)
        speed = layout.points(layout.fabric.across.bandwidth)
        _link(ax, middle, CARD + 0.1, layout.network - 0.11, speed)


def _network(ax: Axes, layout: Layout) -> None:
    ends = [columns for number, columns in layout.nodes if number is not None]
    left, right = ends[0][0][1], ends[-1][-1][1]
    if layout.has_sockets:
        for columns in ends:
            middle = (columns[0][1] + columns[-1][1]) / 2
            speed = layout.points(layout.fabric.across.bandwidth)
            _link(ax, middle, GPU + 0.25, layout.network - 0.11, speed)
    name = layout.outside
    if layout.fabric.spine is not None:
        name += f", its spine {format_bandwidth(1 / layout.fabric.spine)}"
    _bar(ax, left - PITCH / 2, right + PITCH / 2, layout.network, name)


def _bar(
    ax: Axes, left: float, right: float, y: float, name: str, height: float = 0.22
) -> None:
    _box(ax, (left, y - height / 2), right - left, height, fc=(INK, 0.12), ec=INK)
    ax.text((left + right) / 2, y, name, ha="center", va="center", size=7.5, zorder=4)


def _link(ax: Axes, x: float, top: float, bottom: float, points: float) -> None:
    style = {"color": INK, "alpha": 0.55, "solid_capstyle": "butt", "zorder": 1}
    ax.plot([x, x], [top, bottom], lw=points, **style)


def _box(
    ax: Axes, corner: tuple[float, float], width: float, height: float, **style: Any
) -> None:
    rounded = f"round,pad=0,rounding_size={min(0.06, width / 6, height / 6)}"
    patch = FancyBboxPatch(corner, width, height, boxstyle=rounded, lw=0.7, **style)
    patch.set_zorder(2)
    ax.add_patch(patch)

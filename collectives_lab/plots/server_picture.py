"""A server as its topology describes it: GPUs, NVLink, PCIe, network cards, NUMA nodes.

Here you can draw what `nvidia-smi topo -m` prints as a matrix (`server`).
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.fabrics.server import WAYS, Server
from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

# All in inches: columns, what is in them, and heights from the top.
PITCH, BOX, PAD, GAP, WORDS = 0.38, 0.3, 0.12, 0.22, 1.5
LINKS, GPU, PCIE, CARD, NUMA, BETWEEN, BOTTOM = 0.2, 0.72, 1.2, 1.62, 2.1, 2.55, 2.75


@mpl.rc_context(STYLE)
def server(machine: Server, *, caption: str) -> Diagram:
    """Draw a server: what lies between each GPU and the cards nearest to it.

    machine: as `fabrics.read_server` reads it. A bar of PCIe is named as nvidia-smi
    names the way, and has the GPUs that share their nearest cards; a card has the
    number of its name. A GPU with only a dotted line reaches all cards by way of a NUMA
    node. A phone gets the same picture without the words at its right.
    """
    figure = _picture(machine, WORDS)
    figure.narrow = _picture(machine)
    figure.caption = caption
    figure.alt = f"{caption} {_sentence(machine)}"
    return figure


def _picture(machine: Server, words: float = 0.0) -> Diagram:
    """Draw a server with so many inches of words at its right, else for a phone."""
    columns, links = _columns(machine), max(map(max, machine.nvlinks))
    right = max(columns) + PITCH / 2 + PAD
    top = 0 if links else GPU - BOX
    scale = 1.0 if words else min(1.0, PHONE / right)
    figure = blank(scale * (right + words), scale * (BOTTOM - top))
    ax = figure.add_subplot()
    ax.set(xlim=(0, right + words), ylim=(BOTTOM, top), aspect="equal")
    ax.set_axis_off()
    if links:
        name = f"NVLink, NV{links} between two GPUs"
        _bar(ax, columns[0] - BOX / 2, columns[-1] + BOX / 2, LINKS, name)
    for gpu, x in enumerate(columns):
        if links:
            _line(ax, x, LINKS + 0.11, GPU - BOX / 2, lw=3)
        color = rank_color(gpu)
        _box(ax, x - BOX / 2, GPU - BOX / 2, BOX, BOX, fc=color, ec="none")
        style = {"color": on_color(color), "size": 8, "weight": "bold", "zorder": 4}
        ax.text(x, GPU, str(gpu), ha="center", va="center", **style)
    nodes = _by_node(machine)
    for number, gpus in nodes:
        _node(ax, machine, number, [(gpu, columns[gpu]) for gpu in gpus])
    if len(nodes) > 1:
        ends = columns[0] - BOX / 2, columns[-1] + BOX / 2
        is_wide = ends[1] - ends[0] > WORDS + 0.4
        _bar(ax, *ends, BETWEEN, f"SYS{': the link between NUMA nodes' * is_wide}")
    if words:
        names = {GPU: "GPUs", PCIE: "PCIe, by its way", CARD: "network cards"}
        for y, text in names.items():
            ax.text(right + 0.05, y, text, ha="left", va="center", size=8)
    return figure


def _by_node(machine: Server) -> list[tuple[int, list[int]]]:
    """Return runs of GPUs of the same NUMA node."""
    gpus = range(len(machine.numa))
    return [(n, [*run]) for n, run in groupby(gpus, key=machine.numa.__getitem__)]


def _columns(machine: Server) -> list[float]:
    """Return the middle of the column of each GPU."""
    columns, x = [], 0.1 + PAD
    for _, gpus in _by_node(machine):
        columns += [x + PITCH * (i + 0.5) for i in range(len(gpus))]
        x += PITCH * len(gpus) + GAP + PAD
    return columns


def _nearest(machine: Server, gpu: int) -> tuple[str, tuple[int, ...]]:
    """Return the way to the nearest cards of a GPU, and these cards."""
    ways = machine.card_ways[gpu]
    if not ways:
        return "SYS", ()
    way = min(ways, key=WAYS.index)
    return way, tuple(card for card, other in enumerate(ways) if other == way)


def _node(
    ax: Axes, machine: Server, number: int, gpus: list[tuple[int, float]]
) -> None:
    left, right = gpus[0][1] - PITCH / 2, gpus[-1][1] + PITCH / 2
    top = GPU - BOX / 2 - 0.06
    _box(ax, left - PAD / 2, top, right - left + PAD, NUMA + 0.14 - top, (INK, 0.05))
    _bar(ax, left + 0.02, right - 0.02, NUMA, f"NUMA {number}")
    _line(ax, (left + right) / 2, NUMA + 0.11, BETWEEN - 0.11, lw=1.2)
    for (way, cards), run in groupby(gpus, key=lambda g: _nearest(machine, g[0])):
        xs = [x for _, x in run]
        for x in xs:
            end = NUMA if way == "SYS" else PCIE
            _line(ax, x, GPU + BOX / 2, end - 0.11, is_far=way == "SYS")
        if way == "SYS":
            continue
        middle = (xs[0] + xs[-1]) / 2
        _bar(ax, xs[0] - 0.16, xs[-1] + 0.16, PCIE, way)
        # Narrow enough for the line to the NUMA node, between two cards or beside one.
        pitch, wide = (0.25, 0.19) if len(cards) > len(xs) else (PITCH, 0.2)
        beside = 0 if len(cards) % 2 == 0 else 0.14 if len(xs) == 1 else xs[-1] - middle
        _line(ax, middle + beside, PCIE + 0.11, NUMA - 0.11)
        for n, card in enumerate(cards):
            x = middle + pitch * (n - (len(cards) - 1) / 2)
            inside = min(max(x, xs[0] - 0.12), xs[-1] + 0.12)
            _line(ax, inside, PCIE + 0.11, CARD - 0.1)
            _box(ax, x - wide / 2, CARD - 0.1, wide, 0.2, "none", ec=INK)
            label = {"ha": "center", "va": "center", "size": 7.5, "zorder": 4}
            ax.text(x, CARD, str(_number(machine, card)), **label)


def _sentence(machine: Server) -> str:
    """Return the picture in words."""
    links = max(map(max, machine.nvlinks))
    words = [f"NV{links} between GPUs" if links else "No NVLink"]
    for gpu, node in enumerate(machine.numa):
        way, cards = _nearest(machine, gpu)
        numbers = [_number(machine, card) for card in cards]
        words.append(f"GPU {gpu} of NUMA node {node}: cards {numbers} by {way}")
    return "; ".join(words) + "."


def _number(machine: Server, card: int) -> int:
    """Return the number that a card has in its name, else its place in the matrix."""
    number = re.search(r"\d+$", machine.cards[card].name)
    return int(number[0]) if number else card


def _bar(ax: Axes, left: float, right: float, y: float, name: str) -> None:
    _box(ax, left, y - 0.11, right - left, 0.22, (INK, 0.14), ec=INK)
    ax.text((left + right) / 2, y, name, ha="center", va="center", size=7.5, zorder=4)


def _line(
    ax: Axes, x: float, top: float, bottom: float, lw: float = 1.2, is_far: bool = False
) -> None:
    style = {"color": INK, "solid_capstyle": "butt", "zorder": 1}
    ax.plot([x, x], [top, bottom], lw=lw, ls=":" if is_far else "-", **style)


def _box(
    ax: Axes, left: float, top: float, width: float, height: float, fc: Any,
    ec: Any = (INK, 0.6),
) -> None:  # fmt: skip
    rounded = f"round,pad=0,rounding_size={min(0.06, width / 6, height / 6)}"
    patch = FancyBboxPatch((left, top), width, height, boxstyle=rounded, fc=fc, ec=ec)
    patch.set(lw=0.7, zorder=0 if height > 1 else 2)
    ax.add_patch(patch)

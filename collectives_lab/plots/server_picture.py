"""A server with its GPUs, the links between them, and its network cards.

Here you can draw a server of a preset (`server`), with the rates of its data sheet.
"""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from collectives_lab.fabrics import Fabric, Machine
from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    diagram,
    on_color,
    rank_color,
)
from collectives_lab.plots.series import SERIES

NETWORK, LINK, BUS = SERIES[1], SERIES[0], SERIES[7]
HOST = 0.9  # of a GPU's column: what the CPU takes at the right


@mpl.rc_context(STYLE)
def server(fabric: Fabric, *, caption: str | None = None) -> Diagram:
    """Draw one server of a fabric: GPUs, switches, network cards and the CPU.

    Rates are one way, by the data sheets. Raises ValueError for a fabric whose machine
    is not known, and for one whose servers have more than 16 GPUs.
    """
    machine = fabric.machine
    if machine is None:
        raise ValueError(
            f"{fabric!r} does not say what its servers are; need one of the presets"
        )
    gpus = machine.gpus
    if gpus > 16:
        raise ValueError(f"{fabric.name} has {gpus} GPUs a server; 16 have room")
    figure, ax = diagram(min(9.0, 0.78 * (gpus + 2)), 3.3)
    ax.set(xlim=(-0.55, gpus + 1.35), ylim=(4.75, -0.45))
    ax.set_axis_off()
    inside, outside = fabric.inside.bandwidth / 1e9, machine.nic / 1e9
    by_nvlink = machine.link == "NVLink"
    if by_nvlink:
        _bar(ax, 0, gpus, f"NVLink switches: {inside:g} GB/s a GPU, each way", LINK)
    _bar(ax, 2.1, gpus + 1.3, "PCIe switches", BUS)
    for gpu in range(gpus):
        _box(ax, gpu, 1.05, 0.8, f"GPU {gpu}", rank_color(gpu))
        if by_nvlink:
            _wire(ax, gpu, 0.24, 0.8, LINK, 3.2)
        _wire(ax, gpu, 1.3, 1.86, BUS, 1.4)
    for at, width in _cards(machine):
        _wire(ax, at, 2.34, 2.9, BUS, 1.4)
        _box(ax, at, 3.15, width, "NIC", NETWORK)
        _wire(ax, at, 3.4, 3.96, NETWORK, 1.4)
    _wire(ax, gpus + 0.35, 1.3, 1.86, BUS, 1.4)
    _box(ax, gpus + 0.35, 1.05, HOST, "CPU", INK)
    name = f"{machine.network}: {outside:g} GB/s a NIC, each way, to other servers"
    _bar(ax, 4.2, gpus, name, NETWORK)
    figure.caption = caption or f"A server of {fabric.name}."
    figure.alt = (
        f"{figure.caption} {gpus} GPUs of {inside:g} GB/s each way on {machine.link}, "
        f"{machine.nics} network cards of {outside:g} GB/s."
    )
    return figure


def _cards(machine: Machine) -> Iterator[tuple[float, float]]:
    """Yield the middle and the width of each card, below the GPUs that share it."""
    each = machine.gpus / machine.nics
    for card in range(machine.nics):
        yield (card + 0.5) * each - 0.5, each - 0.2


def _box(ax: Axes, x: float, y: float, width: float, name: str, color: str) -> None:
    style = {"boxstyle": "round,pad=0,rounding_size=0.06", "fc": color, "ec": "none"}
    ax.add_patch(FancyBboxPatch((x - width / 2, y - 0.25), width, 0.5, **style))
    text = {"ha": "center", "va": "center", "color": on_color(color), "fontsize": 8.5}
    ax.text(x, y, name, **text)


def _bar(ax: Axes, y: float, columns: float, name: str, color: str) -> None:
    style = {"boxstyle": "round,pad=0,rounding_size=0.06", "ec": color, "lw": 1.2}
    box = FancyBboxPatch((-0.45, y - 0.24), columns - 0.1, 0.48, fc="none", **style)
    ax.add_patch(box)
    middle = columns / 2 - 0.5
    ax.text(middle, y, name, ha="center", va="center", fontsize=9)


def _wire(ax: Axes, x: float, top: float, bottom: float, color: str, lw: float) -> None:
    ax.plot([x, x], [top, bottom], color=color, lw=lw, solid_capstyle="butt")

"""NCCL's three protocols: what is written into the buffer of the receiver.

Here you can draw them (`protocols`): where data is, and by what the receiver knows that
it is there. Source: NCCL 2.28, src/include/device.h (`ncclLLFifoLine`,
`NCCL_LL128_LINESIZE`) and src/device/prims_simple.h.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, key_above
from collectives_lab.plots.series import SERIES

LINE = 128
"""Bytes of the buffer that are drawn."""
DATA, SIGN = (SERIES[0], 0.45), SERIES[1]

LAYOUTS: dict[str, tuple[Sequence[tuple[int, int]], str]] = {
    "LL": (
        [(4, 4)] * 16,
        "a flag of 4 bytes behind every 4 bytes of data: half of the bytes are data",
    ),
    "LL128": (
        [(120, 8)],
        "a flag of 8 bytes in every 128: 94 % of the bytes are data",
    ),
    "Simple": (
        [(LINE, 0)],
        "data alone; a counter, written after a fence, says that a slice is there",
    ),
}
"""By protocol, the bytes of data and of flag that alternate, and what to say of it."""


@mpl.rc_context(STYLE)
def protocols(*, caption: str | None = None) -> Diagram:
    """Draw 128 bytes of a receive buffer in each of NCCL's protocols."""
    figure, ax = diagram(8.0, 2.5)
    for row, (pieces, says) in enumerate(LAYOUTS.values()):
        _draw(ax, row, pieces)
        ax.text(0, row + 0.36, says, ha="left", va="top", fontsize=8.5)
        if not any(flag for _, flag in pieces):
            _counter(ax, row)
    ax.set(xlim=(-1, LINE + 16), ylim=(len(LAYOUTS) - 0.3, -0.4))
    ax.set_yticks(range(len(LAYOUTS)), list(LAYOUTS), fontsize=10)
    ax.set_xticks([0, 32, 64, 96, LINE])
    ax.spines["bottom"].set_bounds(0, LINE)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("byte of the receiver's buffer")
    key_above(ax, {"data": Patch(fc=DATA), "flag or counter": Patch(fc=SIGN)})
    figure.caption = caption or "128 bytes of a buffer in NCCL's three protocols."
    layouts = "; ".join(f"{name}: {says}" for name, (_, says) in LAYOUTS.items())
    figure.alt = f"Three rows of 128 bytes. {layouts}."
    return figure


def _draw(ax: Axes, row: int, pieces: Sequence[tuple[int, int]]) -> None:
    """Draw data and flags behind each other from byte 0 on."""
    at = 0
    for data, flag in pieces:
        ax.add_patch(Rectangle((at, row - 0.25), data, 0.5, fc=DATA, ec="none"))
        at += data
        if flag:
            ax.add_patch(Rectangle((at, row - 0.25), flag, 0.5, fc=SIGN, ec="none"))
            at += flag
    style = {"fc": "none", "ec": INK, "lw": 0.7}
    ax.add_patch(Rectangle((0, row - 0.25), LINE, 0.5, **style))


def _counter(ax: Axes, row: int) -> None:
    """Draw a counter apart from the data."""
    ax.add_patch(Rectangle((LINE + 7, row - 0.25), 8, 0.5, fc=SIGN, ec="none"))

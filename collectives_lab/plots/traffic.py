"""Bytes that move: between each pair of ranks, and out of each rank.

Here you can draw the traffic matrix (`traffic_matrix`) and the bytes each rank sends
beside what the wire carried and a bound (`bytes_by_rank`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from collectives_lab.basics.units import format_bytes
from collectives_lab.plots.figure import (
    INK,
    PILL,
    STYLE,
    Diagram,
    Traced,
    cell_grid,
    diagram,
    key_above,
    on_color,
    rank_color,
    trace_of,
)
from collectives_lab.trace import Trace

MOST_RULED = 64  # rows between which there is room for a line

# From nothing to a dark colour, on white and on black: much is what stands out.
SHADES = LinearSegmentedColormap.from_list("bytes", ["#5A4FCF10", "#5A4FCF"])
PLATE = "#241C7A"  # below a number on a cell: the darkest shade, darker
DARK = 0.8  # a shade on which a number needs no plate
READ_ON_SHADE = 0.2  # of the colour; a number on less of it is as the text around

SOURCES = {
    "messages": "payloads of the sends",
    "wire": "bytes on the wire, measured",
    "matrix": "",
}


@mpl.rc_context(STYLE)
def traffic_matrix(
    traffic: Trace | Traced | np.ndarray | Sequence[Sequence[float]],
    which: str = "auto",
    *,
    darkest: float | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw the bytes from every rank (row) to every rank (column).

    traffic: a Trace, a Run or Timeline that has one, or a square matrix of bytes
    `[src][dst]`. which: `"messages"` for what the sends say, `"wire"` for what was
    measured; `"auto"` takes the messages if there are any, else the wire, since a
    collective does not say who sends to whom. darkest: bytes of the darkest shade, for
    one scale in several figures; the most of the matrix if left out. Raises ValueError
    for what the trace does not have.
    """
    matrix, source = _matrix(traffic, which)
    p = len(matrix)
    side = max(2.4, p * (0.72 if p <= 8 else 0.28))
    figure, ax = diagram(min(side, 8) + (1 if p <= 8 else 1.8), min(side, 8) + 0.6)
    figure.set_layout_engine("compressed")  # for cells that are squares
    most = matrix.max() if darkest is None else darkest
    scale, unit = _scale(most)
    shown = np.ma.masked_equal(matrix, 0) / scale
    image = ax.imshow(shown, cmap=SHADES, vmin=0, vmax=max(1, most) / scale)
    ax.spines[:].set_visible(False)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set(xlabel="to rank", ylabel="from rank")
    step = 1 if p <= 32 else 2 ** math.ceil(math.log2(p / 16))
    ax.set_xticks(range(0, p, step))
    ax.set_yticks(range(0, p, step))
    if p <= MOST_RULED:
        cell_grid(ax, p)
    if p <= 8:
        _write_cells(ax, matrix, image)
    else:
        bar = figure.colorbar(image, ax=ax, shrink=0.8)
        bar.set_label(", ".join(filter(None, [unit, SOURCES[source]])))
        bar.outline.set_visible(False)
    fact = _words(matrix, source)
    figure.caption = f"{fact}." if caption is None else caption
    figure.alt = (
        f"Matrix with a row for each sender, a column for each receiver. {fact}."
    )
    return figure


def _words(matrix: np.ndarray, source: str) -> str:
    """Say how much traffic there is, and which cell has the most."""
    src, dst = np.unravel_index(matrix.argmax(), matrix.shape)
    source_note = f" ({SOURCES[source]})" if SOURCES[source] else ""
    total = format_bytes(matrix.sum())
    fact = f"Traffic between {len(matrix)} ranks{source_note}, {total} in all"
    if matrix.any():
        fact += f"; most from rank {src} to rank {dst}, {format_bytes(matrix.max())}"
    return fact


def _matrix(
    traffic: Trace | Traced | np.ndarray | Sequence[Sequence[float]], which: str
) -> tuple[np.ndarray, str]:
    """Return the bytes [src, dst] to draw, and which key of SOURCES they are."""
    if isinstance(traffic, (np.ndarray, Sequence)):
        matrix = np.asarray(traffic, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(f"matrix of shape {matrix.shape}; need P x P bytes")
        return matrix, "matrix"
    if which not in ("auto", "messages", "wire"):
        raise ValueError(f"which={which!r}; need 'auto', 'messages' or 'wire'")
    trace = trace_of(traffic)
    sends = np.asarray(trace.bytes_by_pair(), dtype=float)
    if which == "messages" or (which == "auto" and "send" in trace.ops()):
        return sends, "messages"
    if trace.wire is not None:
        return trace.wire.astype(float), "wire"
    if which == "wire":
        raise ValueError("the bytes on the wire were not measured in this run")
    if len(trace):
        raise ValueError(
            "no sends, and the bytes on the wire were not measured: a collective does "
            "not say who sends to whom"
        )
    return sends, "messages"


def _write_cells(ax: Axes, matrix: np.ndarray, image: AxesImage) -> None:
    """Write numbers into the cells that have one, light on dark or dark on light."""
    colors = image.to_rgba(image.get_array())
    # A light number on a pale cell of a white page needs something dark below it.
    plate = {"boxstyle": "round,pad=0.2", "facecolor": PLATE, "edgecolor": "none"}
    for (src, dst), nbytes in np.ndenumerate(matrix):
        if nbytes:
            shade = colors[src, dst, 3]
            color = on_color(colors[src, dst, :3]) if shade > READ_ON_SHADE else INK
            text = format_bytes(nbytes).replace(" ", "\n")
            label = ax.text(dst, src, text, color=color, fontsize=8)
            label.set(ha="center", va="center")
            if READ_ON_SHADE < shade < DARK:
                label.set_bbox(plate)


def _scale(nbytes: float) -> tuple[float, str]:
    """Return the binary unit that suits a size, as a number and a name.

    matplotlib's EngFormatter has powers of 1000 only.
    """
    power = min(4, int(np.log2(max(nbytes, 1)) // 10))
    return 1024.0**power, ("bytes", "KiB", "MiB", "GiB", "TiB")[power]


@mpl.rc_context(STYLE)
def bytes_by_rank(
    trace: Trace | Traced,
    bound: float | Sequence[float] | None = None,
    *,
    caption: str | None = None,
) -> Diagram:
    """Draw the bytes each rank sends: by its calls, and on the wire where measured.

    bound: bytes, one number for all ranks or one for each, drawn as a line across the
    rank's bars.
    """
    trace = trace_of(trace)
    p = trace.world_size
    sent, wire = np.array(trace.bytes_sent(), dtype=float), trace.wire_bytes()
    bounds = None if bound is None else np.broadcast_to(np.array(bound, float), (p,))
    known = [v for v in (sent, wire, bounds) if v is not None]
    scale, unit = _scale(max(np.max(v) for v in known))
    figure, ax = diagram(min(12, max(4, 1.6 + 0.42 * p)), 2.8)
    width = 0.72 if wire is None else 0.36
    left = np.arange(p) - 0.36
    colors = [rank_color(rank) for rank in range(p)]
    ax.bar(left, sent / scale, width, align="edge", color=colors)
    signs: dict[str, Any] = {"by the calls": Patch(fc=INK)}
    if wire is not None:
        hatched: dict[str, Any] = {"fc": "none", "hatch": "////", "linewidth": 0.8}
        right, height = left + width, np.array(wire) / scale
        ax.bar(right, height, width, align="edge", ec=colors, **hatched)
        signs["on the wire"] = Patch(**hatched, ec=INK)
    if bounds is not None:
        # Dark with a light rim shows on every bar and on both themes.
        rim: dict[str, Any] = {
            "path_effects": [withStroke(linewidth=4, foreground="w")]
        }
        ax.hlines(bounds / scale, left - 0.08, left + 0.8, PILL, lw=2, **rim)
        signs["bound"] = Line2D([], [], color=PILL, lw=2, **rim)
    _rank_axis(ax, p)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.set_ylabel(f"{unit} sent")
    key_above(ax, signs)
    fact = f"Sent by {p} ranks: {_spread(sent)} each by their calls"
    if wire is not None:
        fact += f", {_spread(wire)} on the wire"
    if bounds is not None:
        fact += f"; the bound is {_spread(bounds)}"
    figure.caption = f"{fact}." if caption is None else caption
    figure.alt = f"Bars by rank. {fact}."
    return figure


def _rank_axis(ax: Axes, world_size: int) -> None:
    """Name the ranks below their bars; of many, the number of some."""
    step = max(1, -(-world_size // 32))
    shown, few = range(0, world_size, step), world_size <= 8
    ax.set_xticks(shown, [f"rank {r}" if few else f"{r}" for r in shown])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, world_size - 0.4)
    ax.set_xlabel("" if few else "rank")


def _spread(values: Sequence[float] | np.ndarray) -> str:
    low, high = format_bytes(float(min(values))), format_bytes(float(max(values)))
    return low if low == high else f"{low} to {high}"

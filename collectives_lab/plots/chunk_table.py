"""The chunk table: which ranks are in which chunk, step by step.

Here you can draw states of `chunk_states`, each as a table with a row for each rank and
a column for each chunk (`chunk_table`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from collectives_lab.plots.chunks import ChunkState
from collectives_lab.plots.dots import Dots
from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    blank,
    cell_grid,
    rank_color,
)

MOST_PANELS = 8
WIDEST = 9.5  # inches
NAMES, GAP, ABOVE, KEY = 0.6, 0.2, 0.66, 0.3  # inches that are not cells


@mpl.rc_context(STYLE)
def chunk_table(
    states: ChunkState | Sequence[ChunkState], *, caption: str | None = None
) -> Diagram:
    """Draw what every rank holds in every chunk: a dot for each rank that is in it.

    states: one, or several that become panels in their order; of more than 8, the
    first two and the last two of each phase. What was received in the step has a frame
    in the colour of its sender; a shaded chunk is whole.
    """
    states = [states] if isinstance(states, ChunkState) else list(states)
    if not states:
        raise ValueError("there is no state to draw; give one or more of chunk_states")
    shown = states if len(states) <= MOST_PANELS else _ends(states)
    p = states[0].world_size
    cell = _cell(p, len(shown))
    figure = _panels(shown, p * cell)
    for ax, state in zip(figure.axes, shown, strict=True):
        dots = _draw(ax, state, cell)
    _key(figure, shown, dots.has_numbers)
    last = states[-1]
    whole = sum(last.is_whole(r, c) for r in range(p) for c in range(p))
    fact = f"{p} ranks, {p} chunks, {last.title}: {whole} of {p * p} are whole."
    figure.caption = fact if caption is None else caption
    figure.alt = " ".join(
        [f"Tables of ranks and chunks. {fact}", *map(_described, shown)]
    )
    return figure


def _cell(p: int, panels: int) -> float:
    """Inches a cell takes."""
    widest, side = (0.75, 7.5) if panels == 1 else (0.5, 4.2)
    return max(0.16, min(widest, side / p))


def _ends(states: Sequence[ChunkState]) -> list[ChunkState]:
    """Return the first two states and the last two of each phase."""
    numbers = {0, 1}
    for phase in {state.phase for state in states[1:]}:
        numbers |= {*[n for n, s in enumerate(states) if s.phase == phase][-2:]}
    return [states[n] for n in sorted(numbers)]


def _panels(shown: Sequence[ChunkState], side: float) -> Diagram:
    """Make a figure with an axes for each state, in rows about equally full."""
    most = max(1, int((WIDEST - NAMES) // (side + GAP)))
    down = -(-len(shown) // most)
    across = -(-len(shown) // down)
    width = max(3.4, NAMES + across * (side + GAP))
    figure = blank(width, down * (side + ABOVE) + KEY)
    for n in range(len(shown)):
        ax = figure.add_subplot(down, across, n + 1)
        ax.tick_params(labelleft=n % across == 0)
    return figure


def _draw(ax: Axes, state: ChunkState, cell: float) -> Dots:
    ranks = range(state.world_size)
    dots = Dots(min(0.38, 0.74 / math.ceil(math.sqrt(state.world_size))), cell)
    whole = []
    for rank, chunks in enumerate(state.holds):
        for chunk, terms in enumerate(chunks):
            dots.grid(chunk, rank, terms, state.world_size)
            if state.is_whole(rank, chunk):
                whole.append(Rectangle((chunk - 0.5, rank - 0.5), 1, 1))
    ax.add_collection(PatchCollection(whole, facecolor=(INK, 0.3), linewidth=0))
    for move in state.moves:
        frame = Rectangle((move.chunk - 0.45, move.dst - 0.45), 0.9, 0.9)
        frame.set(fill=False, edgecolor=rank_color(move.src), linewidth=1.6, zorder=2)
        ax.add_patch(frame)
    dots.draw(ax)
    _set_axes(ax, state, ranks, cell)
    return dots


def _set_axes(ax: Axes, state: ChunkState, ranks: range, cell: float) -> None:
    p = len(ranks)
    ax.set(xlim=(-0.5, p - 0.5), ylim=(p - 0.5, -0.5), aspect="equal")
    ax.spines[:].set_visible(False)
    ax.set_xticks(ranks, [str(chunk) for chunk in ranks])
    ax.set_yticks(ranks, [f"rank {rank}" for rank in ranks])
    ax.set_xlabel("chunk", fontsize=8, labelpad=1)
    cell_grid(ax, p)
    ax.tick_params(pad=2, labelsize=8 if cell > 0.3 else 7)
    ax.set_title(state.title, fontsize=9, pad=4)


def _key(figure: Diagram, shown: Sequence[ChunkState], has_numbers: bool) -> None:
    """Add a key to frames and shades, and to places if dots have no numbers."""
    p = shown[0].world_size
    signs: dict[str, Any] = {}
    if any(state.moves for state in shown):
        signs["received, in its sender's colour"] = Patch(fc="none", ec=INK, lw=1.6)
    signs["whole"] = Patch(fc=(INK, 0.3))
    if not has_numbers:
        side = math.ceil(math.sqrt(p))
        rows = [f"{r}–{min(p, r + side) - 1}" for r in range(0, p, side)]
        name = f"in a cell, row by row: ranks {', '.join(rows)}"
        dot = {"ls": "none", "marker": "o", "markersize": 4}
        signs[name] = Line2D([], [], color=INK, **dot)
    figure.legend(signs.values(), signs.keys(), loc="outside upper center", ncols=3)


def _described(state: ChunkState) -> str:
    first, *more = state.sentences() or ["every rank holds its own contribution"]
    others = f", and {len(more)} more messages" if more else ""
    return f"{state.title[0].upper()}{state.title[1:]}: {first}{others}."

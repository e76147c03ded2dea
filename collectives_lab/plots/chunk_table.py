"""The chunk table: which ranks are in which chunk, step by step.

Here you can draw states of `chunk_states`, each as a table with a row for each rank and
a column for each chunk (`chunk_table`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
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

MOST_NAMES = 16  # of ranks and chunks
MOST_RULED = 64  # rows and columns
WHOLE = {True: 0.3, False: 0.9}  # the shade of a whole chunk, with dots and without
WIDEST = 9.5  # inches
NAMES, GAP, ABOVE, KEY = 0.6, 0.2, 0.66, 0.3  # inches that are not cells


@mpl.rc_context(STYLE)
def chunk_table(
    states: ChunkState | Sequence[ChunkState], *, caption: str | None = None
) -> Diagram:
    """Draw what every rank holds in every chunk: a dot for each rank that is in it.

    states: one, or several that become panels in their order; of more than 8, the
    first two and the last two of each phase. What was received in the step has a frame
    in the colour of its sender; a shaded chunk is whole. Of so many ranks that dots
    had no room for their numbers, the shade of a chunk says how many are in it.
    """
    states = [states] if isinstance(states, ChunkState) else list(states)
    if not states:
        raise ValueError("there is no state to draw; give one or more of chunk_states")
    shown = states if len(states) <= MOST_PANELS else _ends(states)
    p = states[0].world_size
    cell = _cell(p, len(shown))
    has_dots = _dots(p, cell).has_numbers
    figure = _panels(shown, p * cell)
    for ax, state in zip(figure.axes, shown, strict=True):
        _draw(ax, state, cell, has_dots)
    _key(figure, shown, has_dots)
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
    return min(widest, side / p)


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


def _draw(ax: Axes, state: ChunkState, cell: float, has_dots: bool) -> None:
    _draw_shades(ax, state, has_dots)
    if has_dots:
        _draw_dots(ax, state, cell)
    frames = [Rectangle((m.chunk - 0.45, m.dst - 0.45), 0.9, 0.9) for m in state.moves]
    colors = [rank_color(move.src) for move in state.moves]
    style = {"facecolors": "none", "linewidth": min(1.6, 10 * cell), "zorder": 2}
    ax.add_collection(PatchCollection(frames, edgecolors=colors, **style))
    _set_axes(ax, state, cell)


def _draw_shades(ax: Axes, state: ChunkState, has_dots: bool) -> None:
    """Shade chunks that are whole and, where there are no dots, those that are not."""
    p = state.world_size
    shades = np.zeros((p, p))
    for rank, chunks in enumerate(state.holds):
        for chunk, terms in enumerate(chunks):
            if not has_dots:
                shades[rank, chunk] = 0.5 * len(set(terms)) / p
            if state.is_whole(rank, chunk):
                shades[rank, chunk] = WHOLE[has_dots]
    colors = np.empty((p, p, 4))
    colors[...] = to_rgba(INK)
    colors[..., 3] = shades
    ax.imshow(colors, interpolation="nearest", zorder=1)


def _dots(p: int, cell: float) -> Dots:
    """Return no dots yet, of a size that gives p of them room in a cell."""
    return Dots(min(0.38, 0.74 / math.ceil(math.sqrt(p))), cell, p)


def _draw_dots(ax: Axes, state: ChunkState, cell: float) -> None:
    dots = _dots(state.world_size, cell)
    for rank, chunks in enumerate(state.holds):
        for chunk, terms in enumerate(chunks):
            dots.grid(chunk, rank, terms)
    dots.draw(ax)


def _set_axes(ax: Axes, state: ChunkState, cell: float) -> None:
    p = state.world_size
    ranks = range(0, p, -(-p // MOST_NAMES))
    ax.set(xlim=(-0.5, p - 0.5), ylim=(p - 0.5, -0.5), aspect="equal")
    ax.spines[:].set_visible(False)
    ax.set_xticks(ranks, [str(chunk) for chunk in ranks])
    ax.set_yticks(ranks, [f"rank {rank}" for rank in ranks])
    ax.set_xlabel("chunk", fontsize=8, labelpad=1)
    if p <= MOST_RULED:
        cell_grid(ax, p)
    ax.tick_params(pad=2, labelsize=8 if cell > 0.3 else 7)
    ax.set_title(state.title, fontsize=9, pad=4)


def _key(figure: Diagram, shown: Sequence[ChunkState], has_dots: bool) -> None:
    """Add a key to frames and shades."""
    signs: dict[str, Any] = {}
    if any(state.moves for state in shown):
        signs["received, in its sender's colour"] = Patch(fc="none", ec=INK, lw=1.6)
    signs["whole"] = Patch(fc=(INK, WHOLE[has_dots]))
    if not has_dots:
        signs["the darker, the more ranks are in it"] = Patch(fc=(INK, 0.25))
    figure.legend(signs.values(), signs.keys(), loc="outside upper center", ncols=3)


def _described(state: ChunkState) -> str:
    first, *more = state.sentences() or ["every rank holds its own contribution"]
    others = f", and {len(more)} more messages" if more else ""
    return f"{state.title[0].upper()}{state.title[1:]}: {first}{others}."

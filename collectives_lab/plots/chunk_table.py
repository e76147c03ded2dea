"""The chunk table: which ranks are in which chunk, step by step.

Here you can draw states of `chunk_states`, each as a table with a row for each rank and
a column for each chunk (`chunk_table`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch, Rectangle

from collectives_lab.plans.chunks import ChunkState
from collectives_lab.plots.dots import Dots
from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    blank,
    cell_grid,
    rank_color,
)
from collectives_lab.plots.window import chosen_of

MOST_PANELS = 8
MOST_STACKED = 4  # panels below each other on a phone

MOST_NAMES = 16  # of ranks and chunks
MOST_RULED = 64  # rows and columns
MOST_LINES = 384  # in all panels; a drawing with more is larger than a page can be
MOST_NEAREST = 384  # rows and columns of cells that are not smaller than pixels
WHOLE = {True: 0.3, False: 0.9}  # the shade of a whole chunk, with dots and without
WIDEST = 9.5  # inches
NAMES, GAP, ABOVE, KEY = 0.6, 0.2, 0.72, 0.3  # inches that are not cells


@dataclass(frozen=True)
class View:
    """The ranks and chunks of a world that are drawn, as rows and columns."""

    world_size: int
    ranks: list[int]
    chunks: list[int]
    most: int  # ranks in one chunk

    @property
    def is_large(self) -> bool:
        """Return whether there are too many cells for lines between them."""
        return max(len(self.ranks), len(self.chunks)) > MOST_RULED

    def cell(self, panels: int) -> float:
        """Return the inches a cell takes."""
        widest, side = (0.75, 7.5) if panels == 1 else (0.5, 4.2)
        if self.is_large and panels > 1:
            side = 2.75  # three beside each other
        return min(widest, side / max(len(self.ranks), len(self.chunks)))

    def shades(self, state: ChunkState, has_dots: bool) -> np.ndarray:
        """Return how dark each cell is, by what is in it; dots say that themselves."""
        cells = np.ix_(self.ranks, self.chunks)
        terms = np.minimum(state.counts()[cells] / self.world_size, 1)
        return np.where(
            state.whole()[cells], WHOLE[has_dots], 0.0 if has_dots else 0.5 * terms
        )


@mpl.rc_context(STYLE)
def chunk_table(
    states: ChunkState | Sequence[ChunkState],
    *,
    ranks: Iterable[int] | None = None,
    chunks: Iterable[int] | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw what every rank holds in every chunk: a dot for each rank that is in it.

    states: one, or several that become panels in their order; of more than 8, the
    first two and the last two of each phase. ranks, chunks: those to look at, of all.
    What was received in the step has a frame in the colour of its sender, grey if there
    were several; a shaded chunk is whole. Of so many ranks that dots had no room for
    their numbers, the shade of a chunk says how many are in it. The caption says what
    is left out. Raises ValueError without a state, and for a rank or a chunk that is
    not there.
    """
    states = [states] if isinstance(states, ChunkState) else list(states)
    if not states:
        raise ValueError("there is no state to draw; give one or more of chunk_states")
    shown = states if len(states) <= MOST_PANELS else _ends(states)
    p = states[0].world_size
    most = max(int(state.counts().max()) for state in shown)
    view = View(p, chosen_of(p, ranks), chosen_of(p, chunks, "chunk"), most)
    cell = view.cell(len(shown))
    has_dots = _dots(view, cell).has_numbers
    figure = _panels(shown, view, cell, has_dots)
    if figure.get_figwidth() > PHONE and len(shown) <= MOST_STACKED:
        narrow = _panels(shown, view, cell, has_dots, widest=PHONE)
        figure.narrow = narrow if narrow.get_figwidth() <= PHONE else None
    fact = f"{p} ranks, {p} chunks, {states[-1].title}."
    if whole := np.count_nonzero(states[-1].whole()):  # never in an all-gather
        fact = f"{fact[:-1]}: {whole} of {p * p} are whole."
    left_out = _left_out(states, shown, view)
    figure.caption = " ".join([fact if caption is None else caption, *left_out])
    figure.alt = " ".join(
        [f"Tables of ranks and chunks. {fact}", *left_out, *map(_described, shown)]
    )
    return figure


def _left_out(
    states: Sequence[ChunkState], shown: Sequence[ChunkState], view: View
) -> list[str]:
    """Say in sentences which states and cells are not drawn, and how to see them."""
    sentences, p = [], view.world_size
    if len(shown) < len(states):
        sentences.append(
            f"{len(shown)} of {len(states)} states are drawn, the first two and the "
            f"last two of each phase; at most {MOST_PANELS} at once are all drawn."
        )
    if len(view.ranks) < p or len(view.chunks) < p:
        sentences.append(
            f"{len(view.ranks)} of {p} ranks and {len(view.chunks)} of {p} chunks are "
            "drawn."
        )
    if view.is_large:
        sentences.append(
            "The cells are too many for dots and lines; ranks=[...] and chunks=[...] "
            "show fewer, larger."
        )
    return sentences


def _ends(states: Sequence[ChunkState]) -> list[ChunkState]:
    """Return the first two states and the last two of each phase."""
    numbers = {0, 1}
    for phase in {state.phase for state in states[1:]}:
        numbers |= {*[n for n, s in enumerate(states) if s.phase == phase][-2:]}
    return [states[n] for n in sorted(numbers)]


def _panels(
    shown: Sequence[ChunkState],
    view: View,
    cell: float,
    has_dots: bool,
    widest: float = WIDEST,
) -> Diagram:
    """Draw a panel for each state, in rows about equally full."""
    side, high = len(view.chunks) * cell, len(view.ranks) * cell
    most = max(1, int((widest - NAMES) // (side + GAP)))
    down = -(-len(shown) // most)
    across = -(-len(shown) // down)
    width = max(3.4, NAMES + across * (side + GAP))
    figure = blank(width, down * (high + ABOVE) + KEY)
    lines = len(shown) * (len(view.ranks) + len(view.chunks))
    figure.is_large = view.is_large or lines > MOST_LINES
    for n, state in enumerate(shown):
        ax = figure.add_subplot(down, across, n + 1)
        ax.tick_params(labelleft=n % across == 0)
        _draw(ax, state, view, cell, has_dots)
    _key(figure, shown, has_dots)
    return figure


def _draw(ax: Axes, state: ChunkState, view: View, cell: float, has_dots: bool) -> None:
    _draw_shades(ax, view.shades(state, has_dots))
    if has_dots:
        _draw_dots(ax, state, view, cell)
    rows = {rank: row for row, rank in enumerate(view.ranks)}
    columns = {chunk: column for column, chunk in enumerate(view.chunks)}
    moves = [m for m in state.moves if m.dst in rows and m.chunk in columns]
    corners = [(columns[m.chunk] - 0.45, rows[m.dst] - 0.45) for m in moves]
    frames = [Rectangle(corner, 0.9, 0.9) for corner in corners]
    times = _counts(state)
    colors = [
        rank_color(move.src) if times[move.dst, move.chunk] == 1 else INK
        for move in moves
    ]
    style = {"facecolors": "none", "linewidth": min(1.6, 10 * cell), "zorder": 2}
    ax.add_collection(PatchCollection(frames, edgecolors=colors, **style))
    _set_axes(ax, state, view, cell)


def _counts(state: ChunkState) -> Counter[tuple[int, int]]:
    """Return how many messages reached a rank with a chunk in this step."""
    return Counter((move.dst, move.chunk) for move in state.moves)


def _draw_shades(ax: Axes, shades: np.ndarray) -> None:
    """Shade complete chunks and, where no dots are drawn, incomplete ones too."""
    high, wide = shades.shape
    shades = _means(_means(shades).T).T
    colors = np.empty((*shades.shape, 4))
    colors[...] = to_rgba(INK)
    colors[..., 3] = shades
    how = "nearest" if max(high, wide) <= MOST_NEAREST else "antialiased"
    place = (-0.5, wide - 0.5, high - 0.5, -0.5)
    ax.imshow(colors, interpolation=how, extent=place, zorder=1)


def _means(shades: np.ndarray) -> np.ndarray:
    """Return the means of rows that are drawn as one, smaller than a pixel each."""
    firsts = np.arange(0, len(shades), max(1, len(shades) // MOST_NEAREST))
    counts = np.diff([*firsts, len(shades)])
    return np.add.reduceat(shades, firsts, axis=0) / counts[:, None]


def _dots(view: View, cell: float) -> Dots:
    """Return no dots yet, of a size that gives those of a cell room in it."""
    places = view.world_size if view.most > 1 else 1
    size = min(0.38, 0.74 / math.ceil(math.sqrt(places)))
    return Dots(size, cell, view.world_size)


def _draw_dots(ax: Axes, state: ChunkState, view: View, cell: float) -> None:
    dots = _dots(view, cell)
    place = dots.grid if view.most > 1 else dots.row  # a row of one is in the middle
    for row, rank in enumerate(view.ranks):
        for column, chunk in enumerate(view.chunks):
            place(column, row, state.terms(rank, chunk))
    dots.draw(ax)


def _set_axes(ax: Axes, state: ChunkState, view: View, cell: float) -> None:
    high, wide = len(view.ranks), len(view.chunks)
    most = MOST_NAMES // 2 if view.is_large else MOST_NAMES
    rows, columns = (range(0, n, -(-n // most)) for n in (high, wide))
    ax.set(xlim=(-0.5, wide - 0.5), ylim=(high - 0.5, -0.5), aspect="equal")
    ax.spines[:].set_visible(False)
    ax.set_xticks(columns, [str(view.chunks[column]) for column in columns])
    ax.set_yticks(rows, [f"rank {view.ranks[row]}" for row in rows])
    ax.set_xlabel("chunk", fontsize=8, labelpad=1)
    if not view.is_large:
        cell_grid(ax, high, wide)
    ax.tick_params(pad=2, labelsize=8 if cell > 0.3 else 7)
    ax.set_title(state.title, fontsize=9, pad=4)


def _key(figure: Diagram, shown: Sequence[ChunkState], has_dots: bool) -> None:
    """Add a key to frames and shades."""
    signs: dict[str, Any] = {}
    if moving := [state for state in shown if state.moves]:
        several = any(_counts(state).most_common(1)[0][1] > 1 for state in moving)
        name = "received, in its sender's colour" + ", grey from several" * several
        signs[name] = Patch(fc="none", ec=INK, lw=1.6)
    if any(state.whole().any() for state in shown):
        signs["whole"] = Patch(fc=(INK, WHOLE[has_dots]))
    if not has_dots:
        signs["the darker, the more contributions are in it"] = Patch(fc=(INK, 0.25))
    if not signs:
        return
    place = {"loc": "outside upper center"}
    key = figure.legend(signs.values(), signs.keys(), ncols=len(signs), **place)
    if key.get_window_extent().width > figure.bbox.width:
        key.remove()
        figure.legend(signs.values(), signs.keys(), ncols=1, **place)
        figure.set_figheight(figure.get_figheight() + 0.6 * KEY * (len(signs) - 1))


def _described(state: ChunkState) -> str:
    return f"{state.title[0].upper()}{state.title[1:]}: {state.first_sentence()}."

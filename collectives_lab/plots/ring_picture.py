"""The ring as a circle of ranks, with the chunk that each sends to its neighbour.

Here you can draw states of `chunk_states`, or of `states_of_sums`, which reads them off
the values that ranks returned (`ring`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from collectives_lab.plans.chunks import ChunkState, Holds, Move
from collectives_lab.plots.buffers import ranks_in
from collectives_lab.plots.chunk_table import WHOLE
from collectives_lab.plots.dots import Dots
from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    blank,
    rank_color,
)

MOST_RANKS = 8
FEW = 4  # ranks whose boxes are so narrow that the circle can be small
MARGIN = 0.3  # inches around the middles of the outermost boxes, for names and arrows
WIDEST = 9.5  # inches


def states_of_sums(by_rank: Sequence[Sequence[Sequence[float]]]) -> list[ChunkState]:
    """Return what ranks held in each step, read off sums of `4**rank`.

    by_rank: `[rank][step][chunk]`, a number of each chunk, step 0 before the first
    message. A chunk that changed came from the nearest rank whose chunk, added to the
    old one or put in its place, makes the new one. Raises ValueError if there is none.
    """
    holds: list[Holds] = [
        tuple(tuple(tuple(ranks_in(sum_)) for sum_ in chunks) for chunks in step)
        for step in zip(*by_rank, strict=True)
    ]
    states = [ChunkState(0, len(holds) - 1, "start", (), holds[0])]
    for step, (before, held) in enumerate(pairwise(holds), 1):
        moves = tuple(_moves(before, held, step))
        phase = "reduce-scatter" if all(m.adds for m in moves) else "all-gather"
        states.append(ChunkState(step, len(holds) - 1, phase, moves, held))
    return states


def _moves(before: Holds, after: Holds, step: int) -> Iterator[Move]:
    """Yield the moves of a step, found by what each changed chunk is made of."""
    p = len(after)
    for dst, chunks in enumerate(after):
        nearest = sorted(range(p), key=partial(_distance, dst=dst, p=p))
        for chunk, held in enumerate(chunks):
            own = before[dst][chunk]
            if held == own:
                continue
            for src in nearest[1:]:
                came = before[src][chunk]
                if held in (tuple(sorted(own + came)), came):
                    yield Move(src, dst, chunk, held != came)
                    break
            else:
                raise ValueError(
                    f"rank {dst} has {held} in chunk {chunk} after step {step}, and "
                    f"{own} before it; no rank had what is missing"
                )


def _distance(src: int, dst: int, p: int) -> tuple[int, int]:
    """Order ranks by their distance on the circle, the left neighbour first."""
    back = (dst - src) % p
    return min(back, p - back), back


@dataclass(frozen=True)
class Circle:
    """Where the boxes of p ranks are, in inches.

    is_narrow: whether a panel is as wide as a phone shows, and higher instead.
    """

    p: int
    is_narrow: bool = False

    @property
    def cell(self) -> float:
        """Return the width of a chunk: a page has room for larger ones of few ranks."""
        return 0.34 if self.p <= FEW else 0.27

    def middle(self, rank: int) -> tuple[float, float]:
        """Return where a rank is: rank 0 above, the next ones clockwise."""
        angle = math.pi / 2 - 2 * math.pi * rank / self.p
        boxes = self.cell * self.p
        if self.p > FEW:
            down = 0.27 * self.p
            across = down * (1 + boxes / 4)
        else:
            down, across = 1.1, 0.92 * (1 + boxes / 8)
        if self.is_narrow:
            across = (PHONE - boxes) / 2 - MARGIN
        return across * math.cos(angle), -down * math.sin(angle)

    def span(self) -> tuple[float, float]:
        """Return the width and the height of a panel."""
        x, y = zip(*(self.middle(rank) for rank in range(self.p)), strict=True)
        return (
            max(x) - min(x) + self.cell * self.p + 2 * MARGIN,
            max(y) - min(y) + self.cell + 2 * MARGIN,
        )


@mpl.rc_context(STYLE)
def ring(
    states: ChunkState | Sequence[ChunkState], *, caption: str | None = None
) -> Diagram:
    """Draw ranks on a circle, what they hold, and the chunk that each sends next.

    states: one, or several that become panels in their order. A dot is a rank's
    contribution to a chunk. An arrow carries the number of the chunk that is sent in
    the step after the state. A frame, in the colour of the sender, marks what was
    received in the step before it; a shaded chunk is whole. Raises ValueError for more
    than 8 ranks, for which `chunk_table` has room.
    """
    states = [states] if isinstance(states, ChunkState) else list(states)
    if not states:
        raise ValueError("there is no state to draw; give one or more of chunk_states")
    p = states[0].world_size
    if p > MOST_RANKS:
        raise ValueError(
            f"a circle of {p} ranks has no room for their chunks; at most "
            f"{MOST_RANKS} ranks, or use chunk_table"
        )
    figure = _panels(states, Circle(p))
    if p <= FEW:
        figure.narrow = _panels(states, Circle(p, is_narrow=True), PHONE)
    figure.caption = caption or f"A ring of {p} ranks, {states[-1].title}."
    words = "; ".join(" ".join(state.sentences()[:1]) or "start" for state in states)
    figure.alt = f"{p} ranks on a circle. {figure.caption} {words}."
    return figure


def _panels(
    states: Sequence[ChunkState], circle: Circle, widest: float = WIDEST
) -> Diagram:
    """Draw a panel for each state, as many beside each other as there is room for."""
    across, down = circle.span()
    columns = max(1, min(len(states), int(widest // across)))
    rows = math.ceil(len(states) / columns)
    figure = blank(columns * across, rows * (down + 0.25) + 0.25)
    for number, state in enumerate(states):
        ax = figure.add_subplot(rows, columns, number + 1)
        following = states[number + 1] if number + 1 < len(states) else None
        _draw(ax, circle, state, following.moves if following else ())
    _key(figure, states)
    return figure


def _draw(ax: Axes, circle: Circle, state: ChunkState, sent: Sequence[Move]) -> None:
    p, (across, down) = circle.p, circle.span()
    top = circle.middle(0)[1] - circle.cell / 2 - MARGIN
    ax.set(xlim=(-across / 2, across / 2), ylim=(top + down, top), aspect="equal")
    ax.set_axis_off()
    after = f"after {state.step} step{'s' * (state.step > 1)}"
    ax.set_title(after if state.step else "start", fontsize=9, pad=2)
    dots = Dots(0.8 * circle.cell / math.ceil(math.sqrt(p)), 1.0, p)
    boxes = [_box(ax, circle, dots, state, rank) for rank in range(p)]
    dots.draw(ax)
    for move in sent:
        _arrow(ax, boxes[move.src], boxes[move.dst], move)


def _box(
    ax: Axes, circle: Circle, dots: Dots, state: ChunkState, rank: int
) -> Rectangle:
    """Draw a rank's chunks beside each other, with its name above them."""
    p, cell, (x, y) = circle.p, circle.cell, circle.middle(rank)
    left, top, bottom = x - cell * p / 2, y - cell / 2, y + cell / 2
    senders = {move.chunk: move.src for move in state.moves if move.dst == rank}
    for chunk in range(p):
        corner = (left + chunk * cell, top)
        shade = (INK, WHOLE[True]) if state.is_whole(rank, chunk) else "none"
        style = {"fc": shade, "ec": (INK, 0.5), "lw": 0.6}
        ax.add_patch(Rectangle(corner, cell, cell, **style))
        middle = corner[0] + cell / 2
        dots.grid(middle, y, state.terms(rank, chunk))
        ax.text(middle, bottom + 0.07, str(chunk), ha="center", va="center", size=7)
        if chunk in senders:
            style = {"fc": "none", "ec": rank_color(senders[chunk]), "lw": 1.8}
            inside = (corner[0] + 0.015, top + 0.015)
            ax.add_patch(Rectangle(inside, cell - 0.03, cell - 0.03, zorder=2, **style))
    ax.text(x, top - 0.08, f"rank {rank}", ha="center", va="center", size=8)
    # What arrows end at: the chunks with the names above and the numbers below.
    around = (left - 0.03, top - 0.16), cell * p + 0.06, cell + 0.3
    outline = Rectangle(*around, fc="none", ec="none")
    ax.add_patch(outline)
    return outline


def _arrow(ax: Axes, start: Rectangle, end: Rectangle, move: Move) -> None:
    color = rank_color(move.src)
    (x0, y0), (x1, y1) = start.get_center(), end.get_center()
    bend = 0.28
    arrow = FancyArrowPatch(
        (x0, y0),
        (x1, y1),
        patchA=start,
        patchB=end,
        connectionstyle=f"arc3,rad={-bend}",
        arrowstyle="-|>",
        mutation_scale=9,
        color=color,
        lw=1.4,
    )
    ax.add_patch(arrow)
    control = (x0 + x1) / 2 - bend * (y0 - y1), (y0 + y1) / 2 - bend * (x1 - x0)
    x, y = _middle_between((x0, y0), control, (x1, y1), start, end)
    box = {"boxstyle": "square,pad=0.25", "fc": color, "ec": "none"}
    style = {"color": "white", "weight": "bold", "size": 7.5, "bbox": box}
    ax.text(x, y, str(move.chunk), ha="center", va="center", zorder=6, **style)


def _middle_between(
    begin: tuple[float, float],
    control: tuple[float, float],
    end: tuple[float, float],
    *boxes: Rectangle,
) -> tuple[float, float]:
    """Return the middle of the part of a quadratic curve that no box covers."""
    t = np.linspace(0, 1, 101)[:, None]
    corners = np.array([begin, control, end])
    curve = np.hstack([(1 - t) ** 2, 2 * t * (1 - t), t**2]) @ corners
    covered = [
        (abs(curve - box.get_center()) <= [box.get_width() / 2, box.get_height() / 2])
        for box in boxes
    ]
    seen = curve[~np.logical_or(*(inside.all(axis=1) for inside in covered))]
    x, y = seen[len(seen) // 2] if len(seen) else curve[50]
    return float(x), float(y)


def _key(figure: Diagram, states: Sequence[ChunkState]) -> None:
    """Explain frames and shades, where there are any."""
    signs = {}
    if any(state.moves for state in states):
        signs["received, in its sender's colour"] = Patch(fc="none", ec=INK, lw=1.6)
    if any(state.whole().any() for state in states):
        signs["whole"] = Patch(fc=(INK, WHOLE[True]))
    if signs:
        figure.legend(signs.values(), signs.keys(), loc="outside lower center", ncols=2)

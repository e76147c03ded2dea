"""The space-time diagram: ranks as lanes, time to the right, messages as arrows.

Here you can draw a trace that has times, or the steps of a plan (`space_time`). Solid
is a call in flight while its rank does other work, hatched a rank that waits, pale a
rank whose message is under way; a grey band joins the calls of one collective; a cross
ends what never ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch
from matplotlib.ticker import MaxNLocator

from collectives_lab.plots import overview
from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    Labels,
    Traced,
    diagram,
    key_above,
    rank_color,
    settle,
    trace_of,
)
from collectives_lab.plots.lanes import Bar, Scene, laid_out, place, verb
from collectives_lab.plots.spacetime_labels import (
    FEW,
    MOST_NAMES,
    name_calls,
    name_rounds,
    name_stuck,
)
from collectives_lab.plots.window import Between, Window, window
from collectives_lab.trace import Trace

MANY = 600  # bars from which on they are drawn plainly
FAINT = 0.25  # the opacity of messages that nobody follows
STUB = 0.1  # lanes that a message gets far if nobody receives it: two never meet
STUCK, NO_NAME = 0.2, 0.01  # of the time: room right of a cross, and without names
NAME = 0.8  # inches of a short bar's name beside it
SEEN = 0.005  # of the whole time, what is long enough to be named in the key
SOLID, HATCHED, PALE = "in flight", "waits", "message under way"
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@mpl.rc_context(STYLE)
def space_time(
    trace: Trace | Traced,
    *,
    ranks: Iterable[int] | None = None,
    between: Between | None = None,
    max_arrows: int = 500,
    width: float = 8,
    follow: int | None = None,
    is_named: bool = True,
    caption: str | None = None,
) -> Diagram:
    """Draw who called what when, and who waited for whom.

    trace: a Trace, or a Run or Timeline that has one; a plan is drawn in its steps.
    ranks: those to look at, of all. between: `(start, stop)`, seconds since the trace
    began (numbers of steps), to look at a part of it; None for its begin or its end.
    width: inches; what has few calls fits a phone with 3.6.
    follow: a rank whose messages are drawn in full, and those of others faintly.
    is_named: whether calls have their names, which cover the hatches.
    max_arrows: of more messages than that, so many spread evenly are drawn, and the
    caption says so. Of more than 5000 calls none is drawn: each lane is filled to
    the share of its time that the rank spends in calls. Raises ValueError if no call of
    the trace has a time, for a rank that it has not, and unless start < stop.
    """
    view = window(trace_of(trace), ranks, between)
    if len(view.rows) > overview.MOST_CALLS:
        return _overview(view, width, caption)
    seen = laid_out(view)
    pairs = seen.pairs
    if len(pairs) > max_arrows:
        chosen = np.linspace(0, len(pairs) - 1, max_arrows).astype(int)
        pairs = [seen.pairs[i] for i in chosen]
    p, header = len(seen.ranks), _header(seen, width)
    figure, ax = _lanes(seen, header, _room(seen, width), width)
    _draw_bands(ax, seen.together)
    _draw_bars(ax, seen)
    _draw_messages(ax, pairs, follow)
    _draw_lost(ax, seen.lost)
    _draw_marks(ax, seen.bars)
    key_above(ax, _signs(seen))
    settle(figure)
    labels = Labels(ax, 8 if p <= 8 else 7)
    name_stuck(labels, seen.stuck)
    name_rounds(labels, seen.together)
    if is_named and len(seen.bars) <= MANY:
        name_calls(labels, seen.bars)
    facts = seen.facts()
    if len(pairs) < len(seen.pairs):
        facts.append(f"{len(pairs)} of the messages are drawn.")
    return _described(figure, facts, caption)


def _overview(view: Window, width: float, caption: str | None) -> Diagram:
    """Draw what share of its time each rank spends in which state."""
    stuck = [*place(view, view.rows[view.is_stuck[view.rows]].tolist()).values()]
    figure, ax = _lanes(view, 0.0, STUCK if stuck else NO_NAME, width)
    shares = overview.draw_shares(ax, view)
    _draw_marks(ax, stuck)
    signs: dict[str, Any] = {
        name: Patch(color=(INK, opacity))
        for name, opacity in overview.OPACITY.items()
        if shares[name].any()
    }
    if view.is_steps:
        signs = {"in a call": Patch(color=(INK, overview.OPACITY["blocked"]))}
    if stuck:
        signs["never completed"] = _sign("X", 7)
    key_above(ax, signs)
    settle(figure)
    name_stuck(Labels(ax, 7), stuck)
    return _described(figure, overview.facts(view, shares, stuck), caption)


def _described(figure: Diagram, facts: Sequence[str], caption: str | None) -> Diagram:
    figure.caption = " ".join(facts) if caption is None else caption
    figure.alt = (
        f"Space-time diagram, one lane a rank, rank 0 on top. {' '.join(facts)}"
    )
    return figure


def _lanes(
    seen: Scene | Window, header: float, room: float, width: float
) -> tuple[Diagram, Axes]:
    """Return empty lanes, with room of so many inches above them."""
    p = len(seen.ranks)
    lane = max(0.17, min(0.68, 1.36 / p**0.5))
    figure, ax = diagram(width, min(14.0, p * lane + header + 0.75))
    _set_axes(ax, seen, header / lane, room)
    return figure, ax


def _header(seen: Scene, width: float) -> float:
    """Return the inches above the lanes for the collectives' names, in a row or two."""
    first_lane = [c for c in seen.together if c[0].lane == 0]
    runs = [next(run)[0].begin for _, run in groupby(first_lane, verb)]
    if len(runs) > MOST_NAMES:
        return 0.2
    name = 1.04 / width * (seen.last - seen.first)
    is_crowded = (np.diff(runs) < name).any()
    return 0.2 * (bool(runs) + int(is_crowded))


def _room(seen: Scene, width: float) -> float:
    """Return the share of the time that is free at the right, for names of bars."""
    if seen.stuck:
        return STUCK
    name = NAME / width
    least = name * (seen.last - seen.first)
    is_short = any(
        bar.is_message and bar.end - bar.begin < least and bar.end > seen.last - least
        for bar in seen.bars
    )
    return name if is_short and len(seen.bars) <= FEW else NO_NAME


def _set_axes(ax: Axes, seen: Scene | Window, header: float, room: float) -> None:
    """Prepare lanes and time, whose ticks are in the unit that suits it."""
    p, span = len(seen.ranks), seen.last - seen.first
    first, last = seen.first, seen.last
    ax.set_xlim(first, last + room * span)
    ax.set_ylim(p - 0.5, -0.5 - header)
    most, nice = (16, [1, 2, 5, 10]) if seen.is_steps else (7, [1, 2, 2.5, 5, 10])
    locator = MaxNLocator(most, steps=nice, integer=seen.is_steps)
    ticks = locator.tick_values(first, last)
    scale, unit = next((u for u in UNITS if span >= u[0]), UNITS[-1])
    scale = 1.0 if seen.is_steps else scale
    ax.set_xticks([t for t in ticks if first <= t <= last])
    ax.xaxis.set_major_formatter(lambda t, _: f"{t / scale:g}")
    ax.spines["bottom"].set_bounds(first, last)
    ax.set_xlabel("step" if seen.is_steps else f"time ({unit})")
    lanes = range(0, p, -(-p // 64))
    ax.set_yticks(lanes, [f"rank {seen.ranks[lane]}" for lane in lanes])
    ax.tick_params(axis="y", length=0, labelsize=9 if p <= 16 else 7)
    ax.spines["left"].set_visible(False)


def _draw_bands(ax: Axes, rounds: Sequence[list[Bar]]) -> None:
    """Join the calls of one collective, from each rank's entry to each rank's exit."""
    shapes = []
    for calls in rounds:
        sides = [(bar, y) for bar in calls for y in (bar.top, bar.bottom)]
        right = [(bar.end, y) for bar, y in sides]
        left = [(bar.begin, y) for bar, y in reversed(sides)]
        shapes.append(right + left)
    color = (INK, 0.22)  # also of the edge, so that no band is too thin to be seen
    bands = PolyCollection(shapes, facecolor=color, edgecolor=color, lw=1, zorder=1)
    ax.add_collection(bands, autolim=False)


def _draw_bars(ax: Axes, seen: Scene) -> None:
    """Draw a bar solid while its rank does other work, hatched while the call blocks.

    Pale while a message is under way, and in steps, where nobody knows what a rank
    does; what is computed is empty.
    """
    bars, is_plain = seen.bars, len(seen.bars) > MANY or seen.is_steps
    shapes: dict[tuple[int, str], list] = defaultdict(list)

    def add(bar: Bar, look: str, begin: float, end: float) -> None:
        upper, lower = [(begin, bar.top), (end, bar.top)], [(end, bar.bottom)]
        box = [*upper, *lower, (begin, bar.bottom)]
        shapes[bar.event.rank, "computing" if bar.is_compute else look].append(box)

    for bar in bars:
        if bar.wait > bar.begin or bar.event.waited is None:
            add(bar, PALE if seen.is_steps else SOLID, bar.begin, bar.wait)
        if bar.event.waited is not None:
            moves = bar.end if bar.moves is None else bar.moves
            if moves > bar.wait or bar.moves is None:
                add(bar, PALE if is_plain else HATCHED, bar.wait, moves)
            if moves < bar.end:
                add(bar, PALE, moves, bar.end)
    for (rank, look), boxes in shapes.items():
        for style in bar_styles(rank_color(rank), look, is_plain):
            ax.add_collection(PolyCollection(boxes, zorder=2, **style), autolim=False)


def bar_styles(color: str, look: str, is_plain: bool = False) -> list[dict[str, Any]]:
    """Return looks to draw in turn: SVG has no hatch on a transparent face."""
    width = 0.3 if is_plain else 0.7
    # Snapped to pixels, thin bars below each other would run into one.
    rim: dict[str, Any] = {"edgecolor": color, "linewidth": width, "snap": False}
    if look == "computing":
        return [{"facecolor": (color, 0.2), "edgecolor": color, "linewidth": 0.7}]
    if look == SOLID:
        return [rim | {"facecolor": color}]
    if look == PALE:
        return [rim | {"facecolor": (color, 0.3)}]
    face = rim | {"facecolor": (color, 0.12), "linewidth": 0}
    return [face, rim | {"facecolor": "none", "hatch": "/////"}]


def _draw_messages(
    ax: Axes, pairs: Sequence[tuple[Bar, Bar]], follow: int | None
) -> None:
    """Draw an arrow a message, from when its bytes can move to the end of its recv.

    They can once both ends are posted, or at once if the send did not wait for that.
    follow: the rank whose messages are not faint; None for all.
    """
    for send, recv in pairs:
        posted = max(send.begin, recv.begin)
        leaves = posted if posted < send.end else send.begin
        src, dst = send.event.rank, recv.event.rank
        arrow = FancyArrowPatch(
            (leaves, send.side(dst)),
            (recv.end, recv.side(src)),
            arrowstyle="-|>",
            mutation_scale=8,
            shrinkA=0,
            shrinkB=0,
            linewidth=1.1 if len(pairs) < 100 else 0.6,
            linestyle="--" if recv.event.completed is None else "-",
            color=rank_color(src),
            alpha=1 if follow in (None, src) else FAINT,
            zorder=3,
        )
        ax.add_patch(arrow)


def _draw_lost(ax: Axes, lost: Sequence[Bar]) -> None:
    """Point a send that nobody received at its peer, and end it short of the peer."""
    for bar in lost:
        x, y = bar.begin, bar.side(bar.event.peer)
        tip = y + (-STUB if y == bar.top else STUB)
        color = rank_color(bar.event.rank)
        stub = LineCollection([[(x, y), (x, tip)]], colors=color, zorder=3)
        ax.add_collection(stub, autolim=False)
        ax.scatter(x, tip, 22, color, marker="x", zorder=4, clip_on=False)


def _draw_marks(ax: Axes, bars: Sequence[Bar]) -> None:
    """Cross the end of what is stuck; mark what nobody waited for."""
    for marker, size, marked in (
        ("X", 50, [bar for bar in bars if bar.is_stuck]),
        (">", 22, [bar for bar in bars if bar.is_open]),
    ):
        x, y = [bar.end for bar in marked], [bar.middle for bar in marked]
        colors = [rank_color(bar.event.rank) for bar in marked]
        ax.scatter(x, y, size, colors, marker=marker, zorder=4)


def _signs(seen: Scene) -> dict[str, Any]:
    """Return the key: a sign for each thing that occurs, by its name."""
    bars, is_plain = seen.bars, len(seen.bars) > MANY
    waits = [bar for bar in bars if bar.event.waited is not None]
    visible = SEEN * (seen.last - seen.first)
    moving = any(
        bar.end - bar.moves > visible for bar in waits if bar.moves is not None
    )
    is_hatched = any(bar.moves is None or bar.moves > bar.wait for bar in waits)

    def sign(look: str) -> tuple[Patch, ...]:
        return tuple(Patch(**style) for style in bar_styles(INK, look))

    signs = {
        "computing": any(bar.is_compute for bar in bars) and sign("computing"),
        SOLID: not seen.is_steps
        and any(bar.wait > bar.begin for bar in bars if not bar.is_compute)
        and sign(SOLID),
        HATCHED: waits
        and (is_hatched or is_plain)
        and sign(PALE if is_plain else HATCHED),
        PALE: moving and not is_plain and sign(PALE),
        "message": seen.pairs and _sign(r"$\rightarrow$", 12),
        "never received": seen.lost and _sign("x", 5),
        "never completed": seen.stuck and _sign("X", 7),
        "end not seen": any(bar.is_open for bar in bars if not bar.is_compute)
        and _sign(">", 5),
    }
    return {name: handle for name, handle in signs.items() if handle}


def _sign(marker: str, size: float) -> Line2D:
    return Line2D([], [], color=INK, ls="none", marker=marker, markersize=size)

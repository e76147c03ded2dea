"""Lanes with named spans of time, mostly for what a text describes.

Here you can draw who is busy with what, who waits for whom, and what moves from lane to
lane (`timetable` of `Span`). What was recorded is drawn by `space_time`, unless only
some spans matter and need names of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.transforms import offset_copy

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    pill_text,
    rank_color,
)
from collectives_lab.plots.spacetime import HATCHED, PALE, bar_styles

HALF = 0.3
"""Half of the height of a span, in lanes."""

GREY = {"facecolor": (INK, 0.6), "linewidth": 0}
"""The look of computing."""


class Span(NamedTuple):
    """A time in a lane, with its name or ""; hatched if who is in the lane waits.

    beside: whether the name is behind the span, because it would hide a short one.
    rank: whose colour it has, if not that of its lane; waiting beside such spans is
    grey. computes: whether it is grey, as computing is in the figures of a step.
    """

    begin: float
    end: float
    name: str
    waits: bool = False
    beside: bool = False
    rank: int | None = None
    computes: bool = False


class Arrow(NamedTuple):
    """What leaves a lane at one time and comes to another lane at another."""

    src: str
    leaves: float
    dst: str
    comes: float


@mpl.rc_context(STYLE)
def timetable(
    lanes: Mapping[str, Sequence[Span]],
    caption: str,
    *,
    arrows: Sequence[Arrow] = (),
    ranks: Sequence[int] = (),
    upright: Sequence[float] = (),
    width: float = 6.4,
    fits_phone: bool = False,
    **axes: Any,
) -> Diagram:
    """Draw a lane for each name, from the top, with its spans and the arrows.

    ranks: the ranks whose colours the lanes have; 0, 1, ... if left out. upright: times
    at which a dotted line crosses all lanes. width: inches. fits_phone: whether a phone
    gets the same, narrower; its names need the room there.
    axes: what `Axes.set` takes; time has no numbers unless it has `xticks`.
    Raises ValueError for a span that ends before it begins, and for an arrow from or to
    a lane that is not there.
    """
    figure, ax = diagram(width, 0.48 * len(lanes) + 0.5)
    for lane, (name, spans) in enumerate(lanes.items()):
        color = rank_color((*ranks, *range(len(ranks), len(lanes)))[lane])
        for span in spans:
            if span.end < span.begin:
                raise ValueError(f"{span} of {name!r} ends before it begins")
            _draw(ax, lane, span, _color(span, spans, color))
    for at in upright:
        ax.axvline(at, color=INK, linewidth=1, linestyle=":", zorder=3)
    names = list(lanes)
    for arrow in arrows:
        if missing := {arrow.src, arrow.dst} - {*names}:
            raise ValueError(f"{arrow} needs lanes {missing}; there are {names}")
        _point(ax, arrow, names)
    ax.set_ylim(len(lanes) - 0.5, -0.5)
    ax.set_yticks(range(len(lanes)), names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set(**({"xlabel": "time", "xticks": []} | axes))
    figure.caption = caption
    sentences = (f"{name}: {_words(spans)}." for name, spans in lanes.items())
    figure.alt = f"{caption} {' '.join(sentences)}"
    if fits_phone:
        more: dict[str, Any] = {"arrows": arrows, "ranks": ranks, "upright": upright}
        figure.narrow = timetable(lanes, caption, width=PHONE, **more, **axes)
    return figure


def _color(span: Span, spans: Sequence[Span], of_lane: str) -> str:
    """Return a span's colour: where colours name other ranks, waiting is nobody's."""
    if span.rank is not None:
        return rank_color(span.rank)
    is_named = any(other.rank is not None for other in spans)
    return INK if span.waits and is_named else of_lane


def _draw(ax: Axes, lane: int, span: Span, color: str) -> None:
    corner, length = (span.begin, lane - HALF), span.end - span.begin
    styles = bar_styles(color, HATCHED if span.waits else PALE)
    for style in [GREY] if span.computes else styles:
        ax.add_patch(Rectangle(corner, length, 2 * HALF, **style))
    ax.autoscale_view(scaley=False)
    if span.beside:
        text = pill_text(ax, span.end, lane, span.name, 8, zorder=5)
        text.set(ha="left", transform=offset_copy(ax.transData, ax.figure, x=0.06))
    elif span.name:
        pill_text(ax, (span.begin + span.end) / 2, lane, span.name, 8, zorder=5)


def _point(ax: Axes, arrow: Arrow, names: list[str]) -> None:
    down = 1 if names.index(arrow.dst) > names.index(arrow.src) else -1
    ends = [
        (arrow.leaves, names.index(arrow.src) + down * HALF),
        (arrow.comes, names.index(arrow.dst) - down * HALF),
    ]
    ink = mpl.rcParams["text.color"]
    look = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(*ends, color=ink, linewidth=1.2, zorder=4, **look))


def _words(spans: Sequence[Span]) -> str:
    """Name the spans in their order, or only say that one waits or computes."""
    states = ["(waits)" * s.waits + "(computes)" * s.computes for s in sorted(spans)]
    names = (
        f"{s.name} {state}" for s, state in zip(sorted(spans), states, strict=True)
    )
    return ", ".join(filter(None, map(str.strip, names)))

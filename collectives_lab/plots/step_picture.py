"""A step of training in several ways: a bar of its parts for each of them.

Here you can draw what a rank and its link do in a step, one after the other
(`step_parts`), and how much shorter it is if they do it at the same time
(`serial_and_overlapped`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    key_above,
)

PARTS = {"computing": INK, "packing": "#D55E00", "sending": "#0072B2"}
"""What a bar has, from left to right, and its colour."""

COLORS = PARTS | {"all-reduce": PARTS["sending"]}
"""The colour of each part that a bar can have."""


@mpl.rc_context(STYLE)
def step_parts(
    steps: Mapping[str, Sequence[float]],
    *,
    parts: Sequence[str] = tuple(PARTS),
    caption: str = "",
    width: float = 6.0,
    has_terms: bool = False,
    **axes: Any,
) -> Diagram:
    """Draw a bar for each way to train, of milliseconds computing, packing and sending.

    steps: by name the seconds of the parts. parts: what a bar has, from left to right,
    of `COLORS`. width: inches. has_terms: whether the parts stand before the sum beside
    a bar. axes: what `Axes.set` takes. Raises ValueError for another number of parts.
    """
    for name, seconds in steps.items():
        if len(seconds) != len(parts):
            found, need = len(seconds), len(parts)
            raise ValueError(
                f"{name} has {found} parts; need {need}: {', '.join(parts)}"
            )
    figure, ax = diagram(width, 1.0 + 0.27 * len(steps))
    left, signs = [0.0] * len(steps), {}
    for n, part in enumerate(parts):
        wide = [1e3 * seconds[n] for seconds in steps.values()]
        look = {"color": COLORS[part], "height": 0.7}
        signs[part] = ax.barh([*steps], wide, left=left, **look)
        left = [x + more for x, more in zip(left, wide, strict=True)]
    sums = [_short(whole) for whole in left]
    if has_terms:
        every = ((1e3 * part for part in seconds) for seconds in steps.values())
        terms = (" + ".join(map(_short, row)) for row in every)
        sums = [f"{row} = {whole}" for row, whole in zip(terms, sums, strict=True)]
    for row, whole in enumerate(left):
        beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(sums[row], (whole, row), size=8, **beside)
    ticks = [x for x in MaxNLocator(5).tick_values(0, max(left)) if x <= max(left)]
    ax.set(xlim=(0, 1.15 * max(left)), xticks=ticks, xlabel="milliseconds of a step")
    ax.set(**axes)
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    key_above(ax, signs)
    figure.caption = caption
    totals = (f"{name} {x} ms" for name, x in zip(steps, sums, strict=True))
    figure.alt = f"Bars: {'; '.join(totals)}. {caption}"
    return figure


def _short(milliseconds: float) -> str:
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


@mpl.rc_context(STYLE)
def serial_and_overlapped(
    gammas: Sequence[float], *, caption: str, steps: int = 2
) -> Diagram:
    """Draw some steps for each gamma: the two halves in turn, and side by side.

    gammas: the time of the all-reduce, in units of the time of computing. Side by side,
    a step takes as long as its longer half.
    """
    figure, ax = diagram(PHONE, 0.75 + 0.66 * len(gammas))
    names, signs, gap = {}, {}, 0.03
    for row, gamma in enumerate(gammas):
        in_turn, at_best = 2.4 * row, 2.4 * row + 1
        halves = [("computing", 1.0, 0.0, -0.19), ("all-reduce", gamma, 1.0, 0.19)]
        for part, lasts, serial, offset in halves:
            look = {"color": COLORS[part], "width": lasts - gap}
            begin = [step * (1 + gamma) + serial for step in range(steps)]
            signs[part] = ax.barh([in_turn] * steps, left=begin, height=0.7, **look)
            begin = [step * max(1.0, gamma) for step in range(steps)]
            ax.barh([at_best + offset] * steps, left=begin, height=0.32, **look)
        names[in_turn] = f"γ = {gamma:g}, in turn"
        names[at_best] = f"γ = {gamma:g}, side by side"
    ax.set_yticks([*names], [*names.values()])
    ax.tick_params(axis="y", length=0)
    longest = steps * (1 + max(gammas))
    whole = MaxNLocator(4, steps=[1, 2, 5, 10], integer=True)
    ticks = [int(x) for x in whole.tick_values(0, longest) if x <= longest]
    ax.set(xlim=(0, longest))
    ax.set_xticks(ticks, [f"{x}" for x in ticks])
    ax.set_xlabel("time; computing a step takes 1")
    ax.invert_yaxis()
    key_above(ax, signs)
    figure.caption = caption
    times = (
        f"gamma {gamma:g}: a step takes {1 + gamma:g} in turn, {max(1, gamma):g} side "
        "by side"
        for gamma in gammas
    )
    figure.alt = f"{caption} {'; '.join(times)}."
    return figure

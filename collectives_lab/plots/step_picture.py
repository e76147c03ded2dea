"""A step of training in several ways: a bar of its parts for each of them.

Here you can draw what a rank and its link do in a step, one after the other
(`step_parts`, or `step_groups` to compare steps in groups), and how much shorter it is
if they do it at the same time (`serial_and_overlapped`).
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

ROOM = 1.55
"""Inches behind the longest bar of a group for its terms."""


@mpl.rc_context(STYLE)
def step_parts(
    steps: Mapping[str, Sequence[float]],
    *,
    parts: Sequence[str] = tuple(PARTS),
    caption: str = "",
    width: float = 6.0,
    **axes: Any,
) -> Diagram:
    """Draw a bar for each way to train, of milliseconds computing, packing and sending.

    steps: by name the seconds of the parts. parts: what a bar has, from left to right,
    of `COLORS`. width: inches. axes: what `Axes.set` takes.
    Raises ValueError for another number of parts.
    """
    _check(steps, parts)
    figure, ax = diagram(width, 1.0 + 0.27 * len(steps))
    left, signs = [0.0] * len(steps), {}
    for n, part in enumerate(parts):
        wide = [1e3 * seconds[n] for seconds in steps.values()]
        look = {"color": COLORS[part], "height": 0.7}
        signs[part] = ax.barh([*steps], wide, left=left, **look)
        left = [x + more for x, more in zip(left, wide, strict=True)]
    sums = [_short(whole) for whole in left]
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


@mpl.rc_context(STYLE)
def step_groups(
    groups: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    parts: Sequence[str],
    caption: str,
    width: float = 6.4,
) -> Diagram:
    """Draw the bars of each group below its name, with their terms and sums.

    groups: by name, the steps as `step_parts` takes them. width: inches; a phone gets
    the same picture in its own. Raises ValueError for another number of parts.
    """
    for steps in groups.values():
        _check(steps, parts)
    figure, figure.narrow = (_groups(groups, parts, wide) for wide in (width, PHONE))
    figure.caption = caption
    words = (
        f"{group}, {name}: {_terms(seconds)} ms"
        for group, steps in groups.items()
        for name, seconds in steps.items()
    )
    figure.alt = f"Bars in groups. {'; '.join(words)}. {caption}"
    return figure


def _groups(
    groups: Mapping[str, Mapping[str, Sequence[float]]],
    parts: Sequence[str],
    width: float,
) -> Diagram:
    rows = sum(map(len, groups.values()))
    figure, ax = diagram(width, 0.9 + 0.24 * rows + 0.3 * len(groups))
    at, names, signs, longest = 0.0, {}, {}, 0.0
    for group, steps in groups.items():
        head = {"xycoords": ("figure fraction", "data"), "weight": "bold"}
        ax.annotate(group, (0.01, at), size=8, va="center", **head).set_in_layout(False)
        for name, seconds in steps.items():
            at, left = at + 1, 0.0
            for part, lasts in zip(parts, seconds, strict=True):
                look = {"left": left, "color": COLORS[part], "height": 0.72}
                signs[part] = ax.barh(at, 1e3 * lasts, **look)
                left += 1e3 * lasts
            beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            terms = ax.annotate(_terms(seconds), (left, at), size=8, **beside)
            terms.set_in_layout(False)
            names[at], longest = name, max(longest, left)
        at += 1.4
    ax.set_yticks([*names], [*names.values()])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set(ylim=(at - 0.9, -0.6), xlabel="milliseconds of a step")
    few = MaxNLocator(4 if width > PHONE else 2)
    ticks = [x for x in few.tick_values(0, longest) if x <= longest]
    ax.set(xticks=ticks, xlim=(0, longest * width / (width - ROOM)))
    key_above(ax, signs)
    return figure


def _check(steps: Mapping[str, Sequence[float]], parts: Sequence[str]) -> None:
    for name, seconds in steps.items():
        if len(seconds) != len(parts):
            found, need = len(seconds), len(parts)
            raise ValueError(
                f"{name} has {found} parts; need {need}: {', '.join(parts)}"
            )


def _terms(seconds: Sequence[float]) -> str:
    """Return the parts and their sum, in milliseconds."""
    terms = " + ".join(_short(1e3 * part) for part in seconds)
    return f"{terms} = {_short(1e3 * sum(seconds))}"


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

"""The bytes that a GPU has given out, in the course of a step.

Here you can draw them beside the totals that somebody predicted (`allocated`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    diagram,
    key_above,
)
from collectives_lab.plots.series import series_colors

Mark = tuple[float, float, float]
"""Seconds, bytes at that moment, and the most bytes since the mark before."""


@mpl.rc_context(STYLE)
def allocated(
    steps: Mapping[str, Sequence[Mark]],
    levels: Mapping[str, float],
    *,
    caption: str,
    looks: Sequence[str] = (),
) -> Diagram:
    """Draw the bytes of each step, in GB by milliseconds, and dashed levels by name.

    steps: by name, their marks. The most between two marks stands in the middle between
    them, as nobody knows when it was. levels: bytes, named on the right; a level that
    is called as a step has its colour, and is named "predicted". looks: all names of
    several pictures, so that each has its colour in all of them. A wide picture is
    drawn for phones, too.
    """
    colors = series_colors([*looks, *steps])
    figure, narrow = (_draw(width, steps, levels, colors) for width in (6.0, PHONE))
    figure.narrow, figure.caption = narrow, caption
    ends = (
        f"{name}: at most {max(y for _, y in _with_the_most(marks)):.1f} GB, "
        f"{1e3 * marks[-1][0]:.0f} ms"
        for name, marks in steps.items()
    )
    named = (
        f"{' '.join(name.split())}, predicted: {at / 1e9:.1f} GB"
        for name, at in levels.items()
    )
    figure.alt = f"{'; '.join([*ends, *named])}. {caption}"
    return figure


def _draw(
    width: float,
    steps: Mapping[str, Sequence[Mark]],
    levels: Mapping[str, float],
    colors: Mapping[str, str],
) -> Diagram:
    figure, ax = diagram(width, 2.9)
    signs = {}
    for name, marks in steps.items():
        x, y = zip(*_with_the_most(marks), strict=True)
        (signs[name],) = ax.plot(x, y, color=colors[name], linewidth=1.6)
        ax.fill_between(x, y, color=colors[name], alpha=0.15, linewidth=0)
    end = max(marks[-1][0] for marks in steps.values())
    ax.set(xlim=(0, 1e3 * end), xlabel="milliseconds", ylabel="GB allocated")
    ax.set_ylim(0, 1.08 * max(ax.dataLim.ymax, *(at / 1e9 for at in levels.values())))
    for name, at in levels.items():
        _level(ax, name, at / 1e9, colors.get(name, INK))
    key_above(ax, signs, most=99 if width > PHONE else 1)
    return figure


def _with_the_most(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Return milliseconds and GB: each mark, and the most before it if it is higher."""
    before, at_first, _ = marks[0]
    points = [(1e3 * before, at_first / 1e9)]
    for seconds, nbytes, most in marks[1:]:
        if most / 1e9 > max(nbytes / 1e9, points[-1][1]):
            points.append((1e3 * (before + seconds) / 2, most / 1e9))
        points.append((1e3 * seconds, nbytes / 1e9))
        before = seconds
    return points


def _level(ax: Axes, name: str, at: float, color: str) -> None:
    """Draw a dashed level and name it on its right, outside of the axes."""
    ax.axhline(at, color=color, linestyle=(0, (4, 2)), linewidth=1)
    is_total = color != INK  # any other is the lowest, and named below its line
    words = f"{'predicted' if is_total else name}\n{at:.1f} GB"
    look = {"xytext": (4, 0 if is_total else 4), "textcoords": "offset points"}
    look["va"] = "center" if is_total else "top"
    place = {"xycoords": ax.get_yaxis_transform(), "annotation_clip": False}
    ax.annotate(words, (1, at), **place, **look, fontsize=8, color=color)

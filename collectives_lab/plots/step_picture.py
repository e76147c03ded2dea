"""A step of training in several ways: a bar of its parts for each of them.

Here you can draw what a rank and its link do in a step, one after the other
(`step_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, key_above

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
    **axes: Any,
) -> Diagram:
    """Draw a bar for each way to train, of milliseconds computing, packing and sending.

    steps: by name the seconds of the parts. parts: what a bar has, from left to right,
    of `COLORS`. width: inches. axes: what `Axes.set` takes. Raises ValueError for
    another number of parts.
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
    for row, whole in enumerate(left):
        text = f"{whole:.0f}" if whole >= 100 else f"{whole:.3g}"
        beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(text, (whole, row), size=8, **beside)
    ticks = [x for x in MaxNLocator(5).tick_values(0, max(left)) if x <= max(left)]
    ax.set(xlim=(0, 1.15 * max(left)), xticks=ticks, xlabel="milliseconds of a step")
    ax.set(**axes)
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    key_above(ax, signs)
    figure.caption = caption
    totals = (f"{name} {whole:.3g} ms" for name, whole in zip(steps, left, strict=True))
    figure.alt = f"Bars: {', '.join(totals)}. {caption}"
    return figure

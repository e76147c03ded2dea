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


@mpl.rc_context(STYLE)
def step_parts(
    steps: Mapping[str, Sequence[float]], *, caption: str = "", **axes: Any
) -> Diagram:
    """Draw a bar for each way to train, of milliseconds computing, packing and sending.

    steps: by name the seconds of the three parts. axes: what `Axes.set` takes. Raises
    ValueError for another number of parts.
    """
    for name, parts in steps.items():
        if len(parts) != len(PARTS):
            raise ValueError(
                f"{name} has {len(parts)} parts; need {len(PARTS)}: {', '.join(PARTS)}"
            )
    figure, ax = diagram(6.0, 1.0 + 0.27 * len(steps))
    left, signs = [0.0] * len(steps), {}
    for n, (name, color) in enumerate(PARTS.items()):
        wide = [1e3 * parts[n] for parts in steps.values()]
        signs[name] = ax.barh([*steps], wide, left=left, color=color, height=0.7)
        left = [x + more for x, more in zip(left, wide, strict=True)]
    for row, whole in enumerate(left):
        text = f"  {whole:.0f}" if whole >= 100 else f"  {whole:.3g}"
        ax.text(whole, row, text, va="center", size=8)
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

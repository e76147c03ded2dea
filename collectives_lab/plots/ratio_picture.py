"""The ratio of communication to computation as a picture that stands still.

Here you can draw one step as a bar and gamma against the ranks (`ratio_picture`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import LogLocator

from collectives_lab.plots.figure import INK, STYLE, Diagram, blank, key_above
from collectives_lab.plots.series import SERIES
from collectives_lab.plots.step_picture import COLORS

LOWEST, HIGHEST = 1e-4, 1e4
"""The ratios that the picture shows."""
COMPUTE, MOVE = COLORS["computing"], COLORS["all-reduce"]
STYLES = SERIES[0], SERIES[3]
"""The colours of the two curves."""


@mpl.rc_context(STYLE)
def ratio_picture(
    world_size: float,
    step: tuple[float, float],
    worlds: Sequence[float],
    gammas: Mapping[str, Any],
) -> Diagram:
    """Draw one step and, for each way to add ranks, gamma by the number of ranks.

    step: seconds that a rank computes and communicates in, on world_size ranks. gammas:
    by name, the ratio at each of worlds.
    """
    figure = blank(8.4, 4.4)
    bar, curves = figure.subplots(2, height_ratios=[1, 9])
    compute, moved = step
    _draw_step(bar, compute, moved)
    for number, (name, gamma) in enumerate(gammas.items()):
        _draw_curve(curves, number, name, worlds, gamma)
    _set_axes(curves, worlds)
    _mark(curves, world_size, moved / compute)
    return figure


def _draw_step(ax: Any, compute: float, moved: float) -> None:
    """Draw one step from left to right, as shares of its time."""
    share = compute / (compute + moved)
    ax.barh(0, share, color=COMPUTE)
    ax.barh(0, 1 - share, left=share, color=MOVE)
    ax.set(xlim=(0, 1), ylim=(-0.4, 0.4))
    ax.axis("off")
    style = {"transform": ax.transAxes, "va": "bottom"}
    ax.text(0, 1.05, f"one step: {share:.1%} computing", **style)
    ax.text(1, 1.05, f"{1 - share:.1%} communicating", ha="right", **style)


def _draw_curve(
    ax: Any, number: int, name: str, worlds: Sequence[float], gamma: Any
) -> None:
    """Draw one way to add ranks, with its name in a key."""
    look = {"color": STYLES[number], "linestyle": ("-", "--")[number]}
    ax.plot(worlds, gamma, linewidth=1.8, label=name, **look)


def _set_axes(ax: Any, worlds: Sequence[float]) -> None:
    """Make both axes logarithmic, with the break-even across."""
    ax.set(xscale="log", yscale="log", ylim=(LOWEST, HIGHEST))
    ax.set_xlim(worlds[0], worlds[-1])
    ax.set(xlabel="ranks", ylabel="gamma, communicating / computing")
    ax.xaxis.set_major_locator(LogLocator(base=4, numticks=9))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    ax.grid()
    ax.axhline(1, color=INK, linewidth=1.2)
    ax.axhspan(1, HIGHEST, color=MOVE, alpha=0.12, linewidth=0)
    key_above(ax, {line.get_label(): line for line in ax.get_lines()[:2]})


def _mark(ax: Any, ranks: float, gamma: float) -> None:
    """Mark the values of the sliders, and name both sides."""
    at = float(np.clip(gamma, LOWEST * 1.2, HIGHEST / 1.2))
    ax.plot(ranks, at, "o", ms=9, mfc="none", mec=INK, mew=1.8, clip_on=False, zorder=4)
    style = {"fontsize": 8, "transform": ax.transAxes}
    ax.text(0.01, 0.98, "communication takes longer", va="top", **style)
    ax.text(0.99, 0.02, "computation takes longer", ha="right", **style)

"""The ratio of communication to computation as a picture that stands still.

Here you can draw one step as a bar and gamma against the ranks (`ratio_picture`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from collectives_lab.plots.figure import INK, Diagram, blank
from collectives_lab.plots.series import SERIES

LOWEST, HIGHEST = 1e-4, 1e4
"""The ratios that the picture shows."""
COMPUTE, MOVE = SERIES[2], SERIES[1]
LOOKS = SERIES[0], SERIES[3]
"""The colours of the two curves."""


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
    """One step from left to right, as shares of its time."""
    share = compute / (compute + moved)
    ax.barh(0, share, color=COMPUTE)
    hatched = {"edgecolor": MOVE, "facecolor": "none", "hatch": "////"}
    ax.barh(0, 1 - share, left=share, **hatched)
    ax.set(xlim=(0, 1), ylim=(-0.4, 0.4))
    ax.axis("off")
    look = {"color": INK, "fontsize": 9, "transform": ax.transAxes, "va": "bottom"}
    ax.text(0, 1.05, f"one step: {share:.1%} computing", **look)
    ax.text(1, 1.05, f"{1 - share:.1%} communicating", ha="right", **look)


def _draw_curve(
    ax: Any, number: int, name: str, worlds: Sequence[float], gamma: Any
) -> None:
    """One way to add ranks, with its name in a key."""
    look = {"color": LOOKS[number], "linestyle": ("-", "--")[number]}
    ax.plot(worlds, gamma, linewidth=1.8, label=name, **look)


def _set_axes(ax: Any, worlds: Sequence[float]) -> None:
    """Logarithmic both ways, the break-even across, everything in the neutral ink."""
    ax.set(xscale="log", yscale="log", ylim=(LOWEST, HIGHEST))
    ax.set_xlim(worlds[0], worlds[-1])
    ax.set_xlabel("ranks", color=INK, fontsize=9)
    ax.set_ylabel("gamma, communicating / computing", color=INK, fontsize=9)
    ticks = [4**n for n in range(1, 7)]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    decades = [10.0**n for n in range(-4, 5, 2)]
    ax.set_yticks(decades, [f"{gamma:g}" for gamma in decades])
    ax.minorticks_off()
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(color=INK, alpha=0.25, linewidth=0.5)
    for side, spine in ax.spines.items():
        spine.set(color=INK, visible=side in ("left", "bottom"))
    ax.set_facecolor("none")
    ax.axhline(1, color=INK, linewidth=1.2)
    ax.axhspan(1, HIGHEST, color=MOVE, alpha=0.12, linewidth=0)
    ax.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2,
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=2.5,
    )


def _mark(ax: Any, ranks: float, gamma: float) -> None:
    """Where the sliders stand, and which side is which."""
    at = float(np.clip(gamma, LOWEST * 1.2, HIGHEST / 1.2))
    ax.plot(ranks, at, "o", ms=9, mfc="none", mec=INK, mew=1.8, clip_on=False, zorder=4)
    look = {"color": INK, "fontsize": 8, "transform": ax.transAxes}
    ax.text(0.01, 0.98, "communication takes longer", va="top", **look)
    ax.text(0.99, 0.02, "computation takes longer", ha="right", **look)

"""The channels of a server: the ring of each network card, through all of its GPUs.

Here you can draw which way each ring takes (`channels`).
"""

from __future__ import annotations

import matplotlib as mpl

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    diagram,
    on_color,
    rank_color,
)

PITCH, WORDS = 0.23, 0.82  # inches: from GPU to GPU, and what stands on either side


@mpl.rc_context(STYLE)
def channels(gpus: int = 8, *, caption: str) -> Diagram:
    """Draw a line for each ring: in by its card, through all GPUs, out by its card.

    gpus: the GPUs of the server, with a card for each. Ring n begins at GPU n.
    """
    middle = PITCH * gpus / 2
    figure, ax = diagram(2 * (middle + WORDS), 0.26 * gpus + 0.1)
    words = {"va": "center", "size": 8, "zorder": 4}
    for ring in range(gpus):
        along = {"arrowstyle": "->", "color": INK, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (middle + 0.08, ring), (-middle - 0.08, ring), arrowprops=along)
        ax.text(-middle - 0.12, ring, f"in by card {ring}", ha="right", **words)
        ax.text(middle + 0.12, ring, f"out by card {ring}", ha="left", **words)
        for place in range(gpus):
            x, gpu = PITCH * (place + 0.5) - middle, (ring + place) % gpus
            color = rank_color(gpu)
            ax.plot(x, ring, marker="s", ms=12, color=color, zorder=3)
            ax.text(x, ring, str(gpu), ha="center", color=on_color(color), **words)
    ax.set(xlim=(-middle - WORDS, middle + WORDS), ylim=(gpus - 0.5, -0.5))
    ax.set_axis_off()
    figure.caption = caption
    ways = "through GPUs n, n + 1 and so on round to the GPU before n"
    figure.alt = f"{caption} Ring n, for each of {gpus} cards: in by card n, {ways}."
    return figure

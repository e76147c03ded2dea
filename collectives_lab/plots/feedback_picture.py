"""Error feedback: what a rank packs, what it sends, and what it keeps.

Here you can draw its loop, with the layout of a message (`feedback_loop`).
"""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from collectives_lab.plots.figure import INK, PHONE, STYLE, Diagram, diagram
from collectives_lab.plots.series import SERIES

ROW, BACK = 1.0, 3.2
"""Heights of the way to the owner and of the way back."""

PLUS, WANTED, PACK, MESSAGE, CUT, END = 2.35, 3.1, 4.4, 5.7, 8.0, 9.8
"""Where numbers are added, subtracted and packed, and the parts of the message."""

HALF = 0.9
"""Half of the width of a box."""


@mpl.rc_context(STYLE)
def feedback_loop(codes: str, scale: str, *, caption: str) -> Diagram:
    """Draw how what a message leaves out comes back to the next numbers.

    codes, scale: the two parts of a message, as "1024 bits" and "4 bytes".
    """
    figure, ax = diagram(PHONE, 1.6)
    _arrows(ax)
    for x, y in (PLUS, ROW), (WANTED, BACK):
        ax.plot(x, y, "o", ms=13, mfc="none", mec=INK, mew=0.8)
        ax.text(x, y, "+", ha="center", va="center", size=10)
    ax.text(WANTED + 0.65, BACK - 0.4, "−", ha="center", va="center", size=10)
    for x, y, word in (PACK, ROW, "pack"), (CUT, BACK, "unpack"):
        shape = {"boxstyle": "round,pad=0,rounding_size=0.12"}
        box = FancyBboxPatch((x - HALF, y - 0.4), 2 * HALF, 0.8, **shape)
        ax.add_patch(box).set(facecolor="none", edgecolor=INK, linewidth=0.8)
        ax.text(x, y, word, ha="center", va="center", size=8)
    parts = (MESSAGE, CUT, codes, SERIES[0]), (CUT, END, scale, SERIES[1])
    for left, right, words, color in parts:
        look = {"fc": (color, 0.2), "ec": INK, "lw": 0.7}
        ax.add_patch(Rectangle((left, ROW - 0.4), right - left, 0.8, **look))
        ax.text((left + right) / 2, ROW, words, ha="center", va="center", size=8)
    ax.text((MESSAGE + CUT) / 2, ROW - 0.8, "codes", ha="center", size=8)
    ax.text((CUT + END) / 2, ROW - 0.8, "scale", ha="center", size=8)
    ax.text(-0.5, ROW, "numbers", va="center", size=8)
    ax.text(END + 0.9, ROW, "owner", va="center", size=8)
    ax.text(WANTED, ROW - 0.8, "wanted", ha="center", size=8)
    ax.text(PLUS - 0.2, (ROW + BACK) / 2, "left out", ha="right", va="center", size=8)
    ax.set(xlim=(-0.55, END + 2.4), ylim=(BACK + 0.6, -0.3))
    ax.set_axis_off()
    figure.caption = caption
    figure.alt = (
        "Numbers and what was left out add up to what is wanted. Packing it gives a "
        f"message of {codes} of codes and a scale of {scale}, which goes to the owner. "
        "What is wanted minus the unpacked message is left out, and is added to the "
        f"next numbers. {caption}"
    )
    return figure


def _arrows(ax: Axes) -> None:
    """Draw the way of the numbers into the message, and back to the next ones."""
    ways = [
        [(1.5, ROW), (PLUS - 0.35, ROW)],
        [(PLUS + 0.35, ROW), (PACK - HALF, ROW)],
        [(PACK + HALF, ROW), (MESSAGE, ROW)],
        [(END, ROW), (END + 0.8, ROW)],
        [(WANTED, ROW), (WANTED, BACK - 0.45)],
        [(CUT, ROW + 0.4), (CUT, BACK - 0.4)],
        [(CUT - HALF, BACK), (WANTED + 0.4, BACK)],
        [(WANTED - 0.4, BACK), (PLUS, BACK), (PLUS, ROW + 0.45)],
    ]
    look = {"color": INK, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
    for way in ways:
        ax.plot(*zip(*way[:-1], strict=True), color=INK, lw=1)
        ax.annotate("", way[-1], way[-2], arrowprops=look | {"arrowstyle": "-|>"})

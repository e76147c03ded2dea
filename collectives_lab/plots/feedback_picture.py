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

PLUS, WANTED, PACK, MESSAGE, END = 2.35, 3.3, 4.7, 6.1, 10.0
"""Where numbers are added, subtracted and packed, and the ends of the message."""


@mpl.rc_context(STYLE)
def feedback_loop(codes: str, scale: str, *, caption: str) -> Diagram:
    """Draw how what a message leaves out comes back to the next numbers.

    codes, scale: the two parts of a message, as "1024 bits" and "4 bytes".
    """
    figure, ax = diagram(PHONE, 1.6)
    _arrows(ax)
    for x, y, sign in (PLUS, ROW, "+"), (WANTED, BACK, "−"):
        ax.plot(x, y, "o", ms=13, mfc="none", mec=INK, mew=0.8)
        ax.text(x, y, sign, ha="center", va="center", size=10)
    middle, cut = (MESSAGE + END) / 2, MESSAGE + 2.3
    for x, y, word in (PACK, ROW, "pack"), (middle, BACK, "unpack"):
        shape = {"boxstyle": "round,pad=0,rounding_size=0.12"}
        box = FancyBboxPatch((x - 0.7, y - 0.4), 1.4, 0.8, **shape)
        ax.add_patch(box).set(facecolor="none", edgecolor=INK, linewidth=0.8)
        ax.text(x, y, word, ha="center", va="center", size=8)
    parts = (MESSAGE, cut, codes, SERIES[0]), (cut, END, scale, SERIES[1])
    for left, right, words, color in parts:
        look = {"fc": (color, 0.2), "ec": INK, "lw": 0.7}
        ax.add_patch(Rectangle((left, ROW - 0.4), right - left, 0.8, **look))
        ax.text((left + right) / 2, ROW, words, ha="center", va="center", size=8)
    ax.text((MESSAGE + cut) / 2, ROW - 0.8, "codes", ha="center", size=8)
    ax.text((cut + END) / 2, ROW - 0.8, "scale", ha="center", size=8)
    ax.text(0, ROW, "numbers", va="center", size=8)
    ax.text(WANTED, ROW - 0.8, "wanted", ha="center", size=8)
    ax.text(PLUS - 0.2, (ROW + BACK) / 2, "left out", ha="right", va="center", size=8)
    ax.set(xlim=(-0.1, END + 0.1), ylim=(BACK + 0.6, -0.3))
    ax.set_axis_off()
    figure.caption = caption
    figure.alt = (
        "Numbers and what was left out add up to what is wanted. Packing it gives a "
        f"message of {codes} of codes and a scale of {scale}. What is wanted minus the "
        f"unpacked message is left out, and is added to the next numbers. {caption}"
    )
    return figure


def _arrows(ax: Axes) -> None:
    """Draw the way of the numbers into the message, and back to the next ones."""
    middle = (MESSAGE + END) / 2
    ways = [
        [(1.5, ROW), (PLUS - 0.35, ROW)],
        [(PLUS + 0.35, ROW), (PACK - 0.7, ROW)],
        [(PACK + 0.7, ROW), (MESSAGE, ROW)],
        [(WANTED, ROW), (WANTED, BACK - 0.45)],
        [(middle, ROW + 0.4), (middle, BACK - 0.4)],
        [(middle - 0.7, BACK), (WANTED + 0.4, BACK)],
        [(WANTED - 0.4, BACK), (PLUS, BACK), (PLUS, ROW + 0.45)],
    ]
    look = {"color": INK, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
    for way in ways:
        ax.plot(*zip(*way[:-1], strict=True), color=INK, lw=1)
        ax.annotate("", way[-1], way[-2], arrowprops=look | {"arrowstyle": "-|>"})

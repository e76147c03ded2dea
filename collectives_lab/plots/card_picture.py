"""Servers that have one network card each, and what an all-reduce sends through it.

Here you can draw what passes the cards if one ring goes through all GPUs, and if each
server sums first (`through_cards`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import INK, PHONE, STYLE, Diagram, diagram
from collectives_lab.plots.step_picture import COLORS

PITCH, HIGH = 0.41, 1.15
"""Inches from server to server, and of a row."""

CARD, ROW = 5.0, 9.4
"""Where the cards are, and how high a row is; the GPUs are at 0 to 3."""

SENDING = COLORS["all-reduce"]

PER_GRADIENT = 1.8
"""Points of width of a link for each gradient that passes it."""


@mpl.rc_context(STYLE)
def through_cards(servers: Sequence[int], *, sums_first: bool, caption: str) -> Diagram:
    """Draw a row for each number of servers of eight GPUs with one card.

    sums_first: whether the GPUs of a server sum before the servers do, and otherwise
    one ring goes through all GPUs. A link of a ring is as wide as what passes it; in
    units of the gradient that is 2 (n - 1)/n, for a ring of n servers or GPUs.
    """
    figure, ax = diagram(PHONE, HIGH * len(servers))
    sentences = []
    for row, count in enumerate(servers):
        top, members = ROW * row, count if sums_first else 8 * count
        share = 2 * (members - 1) / members
        apart = min(3.0, (PHONE / PITCH - 1) / (count - 1))
        cards = [(apart * server, top + CARD) for server in range(count)]
        for x, _ in cards:
            _server(ax, x, top, 0 if sums_first else share)
        _ring_of_cards(ax, cards, share)
        gradients = f"{share:.2f}".rstrip("0").rstrip(".")
        said = f"{gradients} gradient{'s' * (share > 1)} through each card"
        ax.text(-0.4, top - 1.3, f"{count} servers: {said}", size=8, va="center")
        sentences.append(f"{count} servers: {said}.")
    ax.set(xlim=(-0.45, PHONE / PITCH - 0.55), ylim=(ROW * len(servers) - 2, -2))
    ax.set_axis_off()
    figure.caption, figure.alt = caption, f"{caption} {' '.join(sentences)}"
    return figure


def _server(ax: Axes, x: float, top: float, share: float) -> None:
    """Draw eight GPUs in two columns, their card below, and what goes to the card.

    share: what passes each link of a ring through them; 0 if they sum first.
    """
    ax.add_patch(Rectangle((x - 0.38, top - 0.7), 0.76, 6.5, fc=(INK, 0.08), ec=INK))
    gpus = [(x + side, top + row) for side in (-0.18, 0.18) for row in range(4)]
    card = (x, top + CARD)
    if not share:
        ways = [[gpu, (x, gpu[1]), card] for gpu in gpus]
    else:  # up on the left, down on the right
        ways = [[card, *gpus[3::-1], *gpus[4:], card]]
    look = {"color": SENDING, "lw": PER_GRADIENT * share or 0.9, "zorder": 2}
    for way in ways:
        ax.plot(*zip(*way, strict=True), **look)
    ax.plot(*zip(*gpus, strict=True), "s", color=INK, ms=4.5, zorder=3)
    ax.plot(*card, "s", color=INK, ms=7.5, zorder=3)


def _ring_of_cards(ax: Axes, cards: list[tuple[float, float]], share: float) -> None:
    """Join each card with the next one, and, around below, the last with the first."""
    look = {"color": SENDING, "lw": PER_GRADIENT * share, "shrinkA": 0, "shrinkB": 0}
    look |= {"arrowstyle": "-|>", "mutation_scale": 5 + 2 * share}
    (left, height), (right, _) = cards[0], cards[-1]
    for (src, _), (dst, _) in pairwise(cards):
        ax.annotate("", (dst - 0.12, height), (src + 0.12, height), arrowprops=look)
    below = height + 1.5
    around = [(right, height + 0.6), (right, below), (left, below)]
    ax.plot(*zip(*around, strict=True), color=SENDING, lw=PER_GRADIENT * share)
    ax.annotate("", (left, height + 0.5), (left, below), arrowprops=look)

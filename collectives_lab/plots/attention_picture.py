"""Causal attention over a divided text: which rank computes which block, and when.

Here you can divide a text (`Divided`) and draw one step of ring attention on it
(`attention_step`), as the explorer of `widgets.attention` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import matplotlib as mpl
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, rank_color

CONTIGUOUS, ZIGZAG = "contiguous parts", "zigzag order"
ORDERS = CONTIGUOUS, ZIGZAG
BEFORE = 0.3
"""How opaque a block is that was computed in an earlier step."""


@dataclass(frozen=True)
class Divided:
    """A text in two pieces for each rank, whose tokens attend to earlier ones.

    In step k of the ring, rank r has the keys of rank r - k. A unit of work is what a
    rank computes for all its queries and all keys of one rank, without a mask.
    """

    ranks: int
    order: str

    def owner(self, piece: int) -> int:
        """Return the rank that has this piece of the text."""
        if self.order == CONTIGUOUS:
            return piece // 2
        return min(piece, 2 * self.ranks - 1 - piece)

    def step(self, query: int, key: int) -> int | None:
        """Return in which step these pieces meet; None where the mask hides all."""
        if key > query:
            return None
        return (self.owner(query) - self.owner(key)) % self.ranks

    def work(self, step: int) -> list[Fraction]:
        """Return the work of each rank in a step."""
        done = [Fraction(0)] * self.ranks
        for query in range(2 * self.ranks):
            for key in range(query + 1):
                if self.step(query, key) == step:
                    half = 2 if query == key else 1  # the mask hides half of it
                    done[self.owner(query)] += Fraction(1, 4 * half)
        return done

    def slowdown(self) -> Fraction:
        """Return how long the ring takes, over the time with evenly divided work.

        In each step all ranks wait for the one with the most work.
        """
        steps = [self.work(step) for step in range(self.ranks)]
        even = Fraction(sum(map(sum, steps)), self.ranks)
        return sum(map(max, steps), Fraction(0)) / even

    def words(self, step: int) -> str:
        """Return what happens in a step, and what the whole ring takes."""
        whole = (
            f"The whole ring takes {float(self.slowdown()):.3g} times as long as with "
            "evenly divided work."
        )
        begin = f"{self.ranks} ranks, {self.order}"
        if step >= self.ranks:
            return f"{begin}: done after {self.ranks} steps. {whole}"
        work = self.work(step)
        waiting = [rank for rank, done in enumerate(work) if not done]
        text = f"{begin}, step {step}: "
        if waiting:
            names = ", ".join(map(str, waiting))
            text += f"rank{'s' * (len(waiting) > 1)} {names} must wait. "
        elif len(set(work)) == 1:
            text += "all ranks compute equally much. "
        return f"{text}{whole}"


@mpl.rc_context(STYLE)
def attention_step(divided: Divided, step: int) -> Diagram:
    """Draw who computes which block of queries and keys; pale is an earlier step."""
    figure, ax = diagram(3.6, 3.6)
    count = 2 * divided.ranks
    for query in range(count):
        for key in range(query + 1):
            when = divided.step(query, key) or 0
            opacity = 0.0 if when > step else BEFORE if when < step else 1.0
            color = rank_color(divided.owner(query)), opacity
            ax.add_patch(Rectangle((key, query), 1, 1, ec=INK, lw=0.6, fc=color))
    owners = [divided.owner(piece) for piece in range(count)]
    middles = [piece + 0.5 for piece in range(count)]
    ax.set_xticks(middles, owners)
    ax.set_yticks(middles, owners)
    ax.tick_params(length=0)
    ax.set(xlim=(0, count), ylim=(count, 0), aspect="equal")
    ax.set(xlabel="keys, in the order of the text", ylabel="queries, by their rank")
    figure.caption = divided.words(step)
    figure.alt = (
        "A triangle of blocks, queries against keys, in the colours of the ranks that "
        f"compute them. {figure.caption}"
    )
    return figure

"""Causal attention over a divided text: which rank computes which block, and when.

Here you can divide a text (`Divided`), draw one step of ring attention on it
(`attention_step`), as the explorer of `widgets.attention` shows it, and draw what each
rank has to compute in all (`causal_work`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import matplotlib as mpl
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    blank,
    diagram,
    rank_color,
)

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


@mpl.rc_context(STYLE)
def causal_work(
    order: str, ranks: int = 4, tokens: int = 16, caption: str | None = None
) -> Diagram:
    """Draw which tokens each rank holds, the causal mask, and the pairs of each rank.

    order: one of ORDERS. A row is a query in the colour of its rank, and ends at the
    token itself; beside a piece of the text are its rank and its tokens. The bars count
    the pairs of query and key of each rank. Raises ValueError unless every piece has
    equally many tokens.
    """
    divided, count = Divided(ranks, order), 2 * ranks
    if tokens <= 0 or tokens % count:
        raise ValueError(
            f"{tokens} tokens in {count} pieces; need equally many in each"
        )
    size, pairs = tokens // count, [0] * ranks
    figure = blank(PHONE, 3.4)
    mask, bars = figure.subplots(2, 1, height_ratios=[3, 1])
    for query in range(tokens):
        rank = divided.owner(query // size)
        pairs[rank] += query + 1
        row = {"fc": rank_color(rank), "ec": "white", "lw": 0.4}
        for key in range(query + 1):
            mask.add_patch(Rectangle((key, query), 1, 1, **row))
    names = [
        f"rank {divided.owner(piece)}: {_tokens(piece * size, size)}"
        for piece in range(count)
    ]
    mask.set_yticks([(piece + 0.5) * size for piece in range(count)], names, size=8)
    mask.set(xlim=(0, tokens), ylim=(tokens, 0), aspect="equal", xticks=[])
    mask.set(xlabel="keys")
    mask.tick_params(length=0)
    mask.set_title(order, fontsize=9)
    bars.barh(range(ranks), pairs, 0.8, color=[rank_color(r) for r in range(ranks)])
    for rank, number in enumerate(pairs):
        bars.text(number + 1, rank, str(number), va="center", size=8)
    bars.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)], size=8)
    bars.set(ylim=(ranks - 0.5, -0.5), xticks=[], xlabel="pairs of query and key")
    most = max(sum(range(tokens - 2 * size + 1, tokens + 1)), max(pairs))
    bars.set_xlim(0, 1.15 * most)  # the same in every order
    bars.tick_params(length=0)
    figure.caption = caption or f"{ranks} ranks, {order}."
    counts = (f"rank {rank} {number}" for rank, number in enumerate(pairs))
    figure.alt = (
        f"{figure.caption} The text in {count} pieces: {'; '.join(names)}. Pairs of "
        f"query and key under the causal mask: {', '.join(counts)}."
    )
    return figure


def _tokens(first: int, size: int) -> str:
    return f"{first}" if size == 1 else f"{first}–{first + size - 1}"

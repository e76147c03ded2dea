"""An explorer of ring attention with a causal mask: who computes what, step by step.

Here you can turn the number of ranks, how the text is divided, and the step
(`explore_attention`), in a notebook and in an exported page.
"""

from __future__ import annotations

from typing import Any

from collectives_lab.plots.attention_picture import (
    BEFORE,
    ORDERS,
    Divided,
    attention_step,
)
from collectives_lab.plots.figure import Diagram, rank_color
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob

RANKS = (2, 4, 8)
SCRIPTS = ("units.js", "knobs.js", "chart.js", "attention.js")


class AttentionExplorer(page.Explorer):
    """The blocks of causal attention under sliders for ranks, order and step."""

    scripts, function = SCRIPTS, "exploreAttention"

    def __init__(self, ranks: int, step: int):
        self.ranks = knob("ranks", "ranks P", RANKS, ranks, str)
        names = ORDERS.__getitem__
        self.order = knob("order", "the text is in", range(len(ORDERS)), 0, names)
        self.step = knob("step", "step of the ring", range(max(RANKS) + 1), step, str)
        self.knobs = self.ranks, self.order, self.step

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows, by ranks and order: owners, steps, and sentences."""
        return {
            "shown": [[self._shown(Divided(p, o)) for o in ORDERS] for p in RANKS],
            "colors": [rank_color(rank) for rank in range(max(RANKS))],
            "before": BEFORE,
            "knobs": [vars(one) for one in self.knobs],
        }

    def _shown(self, divided: Divided) -> dict[str, Any]:
        pieces = range(2 * divided.ranks)
        return {
            "owners": [divided.owner(piece) for piece in pieces],
            "steps": [[divided.step(q, key) for key in range(q + 1)] for q in pieces],
            "words": [divided.words(step) for step in self.step.values],
        }

    @property
    def _divided(self) -> Divided:
        return Divided(self.ranks.value, ORDERS[self.order.value])

    def diagram(self) -> Diagram:
        """Return the picture of what the sliders begin with."""
        return attention_step(self._divided, self.step.value)

    def words(self) -> str:
        """Say what the sliders begin with; the page has the same for each place."""
        return self._divided.words(self.step.value)


def explore_attention(ranks: int = 4, step: int = 1) -> AttentionExplorer:
    """Draw who computes which block of causal attention in which step of a ring.

    ranks, step: what the sliders begin with, one of 2, 4 and 8, and 0 to 8. The text
    has two pieces for each rank, all of the same length.
    """
    return AttentionExplorer(ranks, step)

"""An explorer of experts with a limited capacity: sliders for the limit and the load.

Here you can turn the capacity factor and the share of the favourite expert
(`explore_capacity`), and ask what becomes of the tokens (`loads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from collectives_lab.plots.capacity_picture import DROPPED, KEPT, capacity_bars
from collectives_lab.plots.figure import INK, Diagram
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.words import number

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
NO_LIMIT = 99.0
"""What stands for no limit among the capacity factors."""
SHARES = (0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75)
SCRIPTS = ("units.js", "knobs.js", "chart.js", "capacity.js")


class Loads(NamedTuple):
    """What becomes of the tokens, in fair shares of an expert.

    wanted, kept: by expert. dropped: of all tokens. empty: of all places, 0 if there is
    no limit.
    """

    wanted: list[float]
    kept: list[float]
    dropped: float
    empty: float


def loads(experts: int, share: float, factor: float | None) -> Loads:
    """Give the first expert a share of all tokens, and the others the rest, evenly.

    factor: places of an expert over a fair share; None for no limit.
    """
    wanted = [experts * share] + [experts * (1 - share) / (experts - 1)] * (experts - 1)
    kept = [min(load, load if factor is None else factor) for load in wanted]
    dropped = 1 - sum(kept) / experts
    empty = 0.0 if factor is None else 1 - sum(kept) / (experts * factor)
    return Loads(wanted, kept, dropped, empty)


class CapacityExplorer(page.Explorer):
    """Loads of experts under sliders for the capacity factor and the favourite."""

    scripts, function = SCRIPTS, "exploreCapacity"

    def __init__(self, experts: int, share: float, factor: float | None):
        if experts < 2 or not 1 / experts <= share < 1:
            raise ValueError(
                f"{experts} experts, and one wants {share} of all tokens; need 2 or "
                "more, and a share from 1/experts to below 1"
            )
        self.experts = experts
        start = NO_LIMIT if factor is None else factor
        self.factor = knob(
            "factor", "capacity factor f", [*FACTORS, NO_LIMIT], start, _factor
        )
        shares = [s for s in SHARES if s >= 1 / experts]
        self.share = knob(
            "share", "tokens for expert 0", shares, share, "{:.3g}".format
        )
        self.knobs = self.factor, self.share

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows: for each factor and share the bars, and a sentence."""
        return {
            "shown": [
                [self._shown(share, factor) for share in self.share.values]
                for factor in self.factor.values
            ],
            "knobs": [vars(one) for one in self.knobs],
            "most": max(self.experts * max(self.share.values), *FACTORS),
            "colors": [KEPT, DROPPED, INK],
        }

    def _shown(self, share: float, factor: float) -> dict[str, Any]:
        now = loads(self.experts, share, _limit(factor))
        return {
            "wanted": _short(now.wanted),
            "kept": _short(now.kept),
            "room": _limit(factor),
            "words": self._words(share, factor),
        }

    def _words(self, share: float, factor: float) -> str:
        """Say what is dropped, what stays empty, and how long the busiest expert takes.

        factor: NO_LIMIT for none.
        """
        now = loads(self.experts, share, _limit(factor))
        text = f"Expert 0 is chosen by {_percent(share)} of all tokens. "
        if _limit(factor) is None:
            busiest = number(max(now.kept))
            return (
                f"{text}No token is dropped, and no place is empty. The busiest expert "
                f"computes {busiest} fair shares, and the layer waits for it."
            )
        places = f"{factor:g} place{'s' * (factor != 1)}"
        lost, empty = _percent(now.dropped), _percent(now.empty)
        return (
            f"{text}With f = {factor:g}, {lost} of the tokens are dropped and {empty} "
            f"of the places stay empty. Fixed shapes send and compute {places} for "
            "every token, full or empty."
        )

    def diagram(self) -> Diagram:
        """Return the loads that the sliders begin with."""
        share, factor = self.share.value, self.factor.value
        wanted = loads(self.experts, share, None).wanted
        words = self._words(share, factor)
        return capacity_bars(wanted, _limit(factor), caption=words)

    def words(self) -> str:
        """Say what the sliders begin with; the page has the same for each place."""
        return self._words(self.share.value, self.factor.value)


def explore_capacity(
    experts: int = 8, share: float = 0.5, factor: float | None = 1.0
) -> CapacityExplorer:
    """Draw the loads of experts, with the capacity and the favourite's share to turn.

    share: of all tokens, those that choose expert 0. factor: the capacity factor, None
    for no limit. Raises ValueError for a share below the fair one.
    """
    return CapacityExplorer(experts, share, factor)


def _limit(factor: float) -> float | None:
    return None if factor == NO_LIMIT else factor


def _factor(factor: float) -> str:
    return "no limit" if factor == NO_LIMIT else f"{factor:g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _short(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]

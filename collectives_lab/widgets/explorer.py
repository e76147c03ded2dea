"""An explorer of cost formulas: how long each algorithm takes, and which wins where.

Here you can turn the size, the number of ranks, alpha and the bandwidth
(`explore_costs`), in a notebook and in an exported page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from collectives_lab import costs as formulas
from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.basics.verbs import VERBS, algorithms_of
from collectives_lab.plots.cost_curves import cost_curves, ranking
from collectives_lab.plots.figure import Diagram
from collectives_lab.plots.series import ALIKE, SERIES, SIZES, ascending, seconds_of
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import bandwidth_knob, decades, knob
from collectives_lab.widgets.lookup import axes_of, table_of
from collectives_lab.widgets.words import number

Cost = Callable[..., Any]
"""Seconds, of (world_size, nbytes, alpha, beta), as in `costs`."""
RANKS = sorted([2**n for n in range(1, 18)] + [3 * 2**n for n in range(16)])
ALPHAS = decades(-7, -2)
BANDWIDTHS = decades(7, 12)
DASHES = ("", "9 3", "9 3 2 3", "2 2", "16 4", "5 5", "9 3 2 3 2 3", "2 6")
"""As many as there are colours, for who cannot tell those apart."""
SCRIPTS = ("units.js", "knobs.js", "lookup.js", "crossings.js", "chart.js", "costs.js")


class CostExplorer(page.Explorer):
    """Cost curves under sliders, a table of all times, and who wins in words."""

    scripts, function = SCRIPTS, "exploreCosts"
    above, below = "knobs", "key"

    def __init__(
        self,
        costs: Mapping[str, Cost],
        sizes: ArrayLike,
        world_size: int,
        nbytes: float,
        alpha: float,
        bandwidth: float,
    ):
        if not costs:
            raise ValueError("there is nothing to compare; give one algorithm or more")
        self.costs, self.sizes = dict(costs), ascending(sizes)
        shown = [n for n in self.sizes.tolist() if np.log2(n).is_integer()]
        shown = shown if len(shown) > 1 else self.sizes.tolist()
        nearest = min(shown, key=lambda n: abs(np.log(n / nbytes)))
        self.size = knob("size", "size S", shown, nearest, format_bytes)
        self.ranks = knob("ranks", "ranks P", RANKS, world_size, "{:,}".format)
        self.alpha = knob("alpha", "alpha, a message", ALPHAS, alpha, format_seconds)
        self.bandwidth = bandwidth_knob("bandwidth, 1 / beta", BANDWIDTHS, bandwidth)
        self.knobs = self.size, self.ranks, self.alpha, self.bandwidth

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: sizes, sliders, and a table of seconds by algorithm."""
        knobs = [vars(one) for one in self.knobs]
        # The page looks a size up among all sizes.
        places = np.searchsorted(self.sizes, self.size.values).tolist()
        knobs[0] = knobs[0] | {"values": places}
        return {
            "names": list(self.costs),
            "looks": [_style(n) for n in range(len(self.costs))],
            "sizes": self.sizes.tolist(),
            "tables": [self._table(cost) for cost in self.costs.values()],
            "axes": axes_of((self.ranks, self.alpha, self.bandwidth), self.sizes),
            "knobs": knobs,
            "alike": ALIKE,
        }

    def _table(self, cost: Cost) -> list[Any]:
        """Return seconds by ranks, alpha, bandwidth and size.

        None for ranks it refuses.
        """
        tables: list[Any] = []
        refusal = None
        for world in self.ranks.values:
            seconds = partial(self._seconds, cost, world)
            try:
                seconds(self.alpha.value, self.bandwidth.value)
            except ValueError as error:
                refusal = error
                tables.append(None)
                continue
            tables.append(table_of(seconds, (self.alpha, self.bandwidth), self.sizes))
        if refusal and not any(tables):
            raise refusal
        return tables

    def _seconds(self, cost: Cost, world: int, alpha: float, bandwidth: float) -> Any:
        return cost(world, self.sizes, alpha, 1 / bandwidth)

    def diagram(self) -> Diagram:
        """Return the curves for what the sliders begin with."""
        figure = cost_curves(
            self.costs,
            self.sizes,
            world_size=self.ranks.value,
            alpha=self.alpha.value,
            beta=1 / self.bandwidth.value,
        )
        figure.caption = self.words()
        return figure

    def words(self) -> str:
        """Say which algorithm is fastest at the size, how far ahead, and at what sizes.

        `words` in costs.js says the same of what the sliders are moved to.
        """
        setting = self.ranks.value, self.sizes, self.alpha.value
        lines = {
            name: seconds_of(name, cost, *setting, 1 / self.bandwidth.value)
            for name, cost in self.costs.items()
        }
        here = int(np.searchsorted(self.sizes, self.size.value))
        times = {name: float(line[here]) for name, line in lines.items()}
        missing = ", ".join(name for name, time in times.items() if np.isnan(time))
        where = (
            f"{self.ranks.text} ranks, alpha = {self.alpha.text}, {self.bandwidth.text}"
        )
        if all(np.isnan(time) for time in times.values()):
            return f"{where}: no time for {self.size.text}: {missing}."
        return (
            f"{where}: {self.size.text} {_winner(times)} "
            f"By size, {ranking(self.sizes, lines)}"
            + (f" No time here: {missing}." if missing else "")
        )


def explore_costs(
    costs: Mapping[str, Cost] | str = "all_reduce",
    sizes: ArrayLike = SIZES,
    *,
    world_size: int = 8,
    nbytes: float = 2**20,
    alpha: float = 5e-6,
    bandwidth: float = 1e10,
) -> CostExplorer:
    """Compare algorithms under sliders for the size, the ranks, alpha and 1 / beta.

    costs: by name, a function of (world_size, nbytes, alpha, beta), as in `costs`; or a
    verb, for all algorithms that `costs` has for it. A formula that is not linear in
    alpha and beta has a curve only where the sliders for them begin, and has no
    time elsewhere. sizes: bytes of the curves. The others are what the sliders
    begin with: bytes, seconds a message, and bytes a second.
    """
    if isinstance(costs, str):
        costs = _formulas_for(costs)
    return CostExplorer(costs, sizes, world_size, nbytes, alpha, bandwidth)


def _formulas_for(verb: str) -> dict[str, Cost]:
    if verb not in VERBS:
        raise ValueError(f"{verb!r} is no verb; need one of {', '.join(VERBS)}")
    names = algorithms_of(verb, formulas.__all__)
    return {name: getattr(formulas, f"{name}_{verb}") for name in names}


def _winner(times: Mapping[str, float]) -> str:
    """Say which algorithm wins, in what time, and how far behind the next one is."""
    times = {name: time for name, time in times.items() if not np.isnan(time)}
    best = min(times.values())
    first = [name for name, time in times.items() if time <= best * (1 + ALIKE)]
    sentence = f"takes {format_seconds(best)} with {' and '.join(first)}, the fastest"
    rest = {name: time for name, time in times.items() if name not in first}
    if not rest:
        return f"{sentence}."
    second = min(rest, key=lambda name: rest[name])
    return (
        f"{sentence}; the next, {second}, takes {format_seconds(rest[second])}, "
        f"{number(rest[second] / best)} times as long."
    )


def _style(number: int) -> dict[str, str]:
    """Return the line of the n-th algorithm in the page, by colour and by dashes."""
    return {
        "color": SERIES[number % len(SERIES)],
        "dashes": DASHES[number % len(DASHES)],
    }

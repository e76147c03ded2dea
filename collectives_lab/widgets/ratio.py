"""An explorer of the ratio of communication to computation: sliders and break-even.

Here you can turn the ranks, the model, the batch and the hardware of a data-parallel
step, and see on which side of gamma = 1 it lands (`explore_ratio`), in a notebook and
in an exported page.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectives_lab.basics.units import format_seconds
from collectives_lab.costs import training
from collectives_lab.plots.cost_curves import crossings
from collectives_lab.plots.figure import Diagram
from collectives_lab.plots.ratio_picture import HIGHEST, LOWEST, STYLES, ratio_picture
from collectives_lab.plots.series import ALIKE
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import Knob, bandwidth_knob, decades, knob
from collectives_lab.widgets.lookup import axes_of, table_of
from collectives_lab.widgets.words import count, flops, number

RANKS = [2**n for n in range(1, 15)]
PARAMETERS = decades(6, 12)
TOKENS = [2**n for n in range(9, 27)]
RATES = decades(11, 16)
BANDWIDTHS = [*decades(8, 12), 12.5e9]  # and a card of 100 Gb/s
ALPHAS = [0.0, *decades(-6, -3)]
CURVE = 2.0 ** np.arange(1, 14.01, 0.25)
CURVES = ("the same batch, split over more ranks", "the same batch on each rank")
SCRIPTS = ("units.js", "knobs.js", "lookup.js", "crossings.js", "chart.js", "ratio.js")


class RatioExplorer(page.Explorer):
    """The ratio under sliders, in SI units.

    `tokens` are those of all ranks together.
    """

    scripts, function = SCRIPTS, "exploreRatio"
    above = "knobs step key"

    def __init__(
        self,
        world_size: int,
        parameters: float,
        tokens: int,
        flop_rate: float,
        bandwidth: float,
        alpha: float,
        bytes_per_parameter: float,
    ):
        self.bytes_per_parameter = bytes_per_parameter
        self.ranks = knob("ranks", "ranks", RANKS, world_size, "{:,}".format)
        self.parameters = knob(
            "parameters", "parameters", PARAMETERS, parameters, count
        )
        self.tokens = knob(
            "tokens", "tokens a step, all ranks", TOKENS, tokens, "{:,}".format
        )
        self.rate = knob("rate", "speed of a rank", RATES, flop_rate, flops, -1)
        self.bandwidth = bandwidth_knob("bandwidth, one way", BANDWIDTHS, bandwidth)
        self.alpha = knob("alpha", "alpha, a message", ALPHAS, alpha, format_seconds)
        model = self.ranks, self.parameters, self.tokens
        self.knobs = *model, self.rate, self.bandwidth, self.alpha

    @cached_property
    def worlds(self) -> NDArray[Any]:
        """The numbers of ranks at which curves are drawn, those of the slider too."""
        return np.unique([*CURVE, *self.ranks.values])

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows: sliders, and a table of seconds for both halves."""
        colors = zip(STYLES, ("", "8 4"), strict=True)
        return {
            "worlds": self.worlds.tolist(),
            "compute": self._table(
                lambda parameters, tokens, rate: training.compute_seconds(
                    parameters, tokens / self.worlds, rate
                ),
                (self.parameters, self.tokens, self.rate),
            ),
            "moved": self._table(
                lambda parameters, bandwidth, alpha: training.all_reduce_seconds(
                    parameters, self.worlds, bandwidth, self.bytes_per_parameter, alpha
                ),
                (self.parameters, self.bandwidth, self.alpha),
            ),
            "names": CURVES,
            "looks": [{"color": color, "dashes": dashes} for color, dashes in colors],
            "range": [LOWEST, HIGHEST],
            "knobs": [vars(one) for one in self.knobs],
            "alike": ALIKE,
        }

    def _table(
        self, seconds: Callable[..., Any], knobs: tuple[Knob, ...]
    ) -> dict[str, Any]:
        """Return what the page looks up in, by these sliders and by the number of
        ranks.
        """
        return {
            "axes": axes_of(knobs, self.worlds),
            "table": table_of(seconds, knobs, self.worlds),
        }

    def seconds(self, world_size: Any, tokens: Any) -> tuple[Any, Any]:
        """Return how long a step computes and communicates, with so many tokens a
        rank.
        """
        compute = training.compute_seconds(
            self.parameters.value, tokens, self.rate.value
        )
        moved = training.all_reduce_seconds(
            self.parameters.value,
            world_size,
            self.bandwidth.value,
            self.bytes_per_parameter,
            self.alpha.value,
        )
        return compute, moved

    @property
    def local(self) -> float:
        """Tokens a rank."""
        return self.tokens.value / self.ranks.value

    def gammas(self) -> dict[str, NDArray[Any]]:
        """Return the ratio at each of `worlds`, for both ways to add ranks."""
        tokens = self.tokens.value / self.worlds, np.full(len(self.worlds), self.local)
        halves = (self.seconds(self.worlds, each) for each in tokens)
        ratios = (moved / compute for compute, moved in halves)
        return dict(zip(CURVES, ratios, strict=True))

    def diagram(self) -> Diagram:
        """Return the step as a bar, and below it gamma against the ranks."""
        step = self.seconds(self.ranks.value, self.local)
        figure = ratio_picture(
            self.ranks.value, step, self.worlds.tolist(), self.gammas()
        )
        figure.caption = self.words()
        figure.alt = (
            "A bar of one step, computing then communicating, and two curves of the "
            f"ratio gamma against the number of ranks. {figure.caption}"
        )
        return figure

    def words(self) -> str:
        """Return what the sliders begin with, and on which side of break-even it is.

        `ratioWords` in ratio.js says the same of what they are moved to.
        """
        compute, moved = self.seconds(self.ranks.value, self.local)
        gamma = moved / compute
        slower = "communication" if gamma > 1 else "computation"
        model = "latency included" if self.alpha.value else "whatever the model"
        return (
            f"{self.ranks.text} ranks, {number(self.local)} tokens each, "
            f"{self.parameters.text} parameters: "
            f"computing takes {format_seconds(compute)}, "
            f"the all-reduce {format_seconds(moved)}, "
            f"so gamma = {number(gamma)} and {slower} takes longer. "
            # gamma falls as the tokens grow.
            f"Break-even on {self.ranks.text} ranks: "
            f"{number(self.local * gamma)} tokens each, "
            f"{model}; this batch breaks even on {self._even()} ranks."
        )

    def _even(self) -> str:
        """Return the ranks at which gamma is 1 while the batch is split over more of
        them.
        """
        compute, moved = self.seconds(self.worlds, self.tokens.value / self.worlds)
        # Both are straight in 1/P but for the latency.
        halves = {"computing": compute, "communicating": moved}
        meet = crossings(1 / self.worlds, halves)
        if meet:
            return number(float(f"{1 / meet[0][0]:.2g}"))
        is_over = moved[-1] >= compute[-1]
        return "fewer than 2" if is_over else f"more than {number(self.worlds[-1])}"


def explore_ratio(
    world_size: int = 64,
    parameters: float = 7e9,
    tokens: int = 2**17,
    flop_rate: float = 494.5e12,
    bandwidth: float = 400e9,
    alpha: float = 0.0,
    bytes_per_parameter: float = 2,
) -> RatioExplorer:
    """Draw the ratio of a data-parallel step under sliders, beginning with these.

    They begin with 64 H100 at half of their peak, in servers with a card for each GPU.
    tokens: of all ranks together. flop_rate: operations a second that a rank sustains.
    bandwidth: one way, bytes a second. alpha: seconds a message of the ring.
    """
    return RatioExplorer(
        world_size, parameters, tokens, flop_rate, bandwidth, alpha, bytes_per_parameter
    )

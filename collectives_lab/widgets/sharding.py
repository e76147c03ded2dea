"""An explorer of sharding: from how many tokens on it costs no time.

Here you can turn the tokens, the ranks and the hardware of a training step, and see how
much longer it takes by ZeRO than by data parallelism (`explore_sharding`), in a
notebook and in an exported page.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from collectives_lab.costs import training
from collectives_lab.plots.figure import Diagram
from collectives_lab.plots.lines import lines
from collectives_lab.plots.series import SERIES
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import bandwidth_knob, decades, knob
from collectives_lab.widgets.lookup import axes_of, table_of
from collectives_lab.widgets.words import flops, number

TOKENS = [2**n for n in range(6, 21)]
RANKS = [2**n for n in range(1, 13)]
RATES = decades(13, 16)
BANDWIDTHS = decades(9, 12)
FINEST = 16
"""Places on the curve from one power of two to the next."""
WIDEST = 20
"""The powers of two of computing / gathering, down and up."""
PLACES = 2.0 ** (np.arange(-WIDEST * FINEST, WIDEST * FINEST + 1) / FINEST)
DASHES = ("", "9 3", "9 3 2 3", "16 3 2 3 2 3")
SCRIPTS = ("units.js", "knobs.js", "lookup.js", "chart.js", "sharding.js")


class ShardingExplorer(page.Explorer):
    """Steps of ZeRO in units of data parallelism's, under sliders."""

    scripts, function = SCRIPTS, "exploreSharding"

    def __init__(
        self, tokens: int, world_size: int, flop_rate: float, bandwidth: float
    ):
        self.tokens = knob("tokens", "tokens on a GPU", TOKENS, tokens, "{:,}".format)
        self.ranks = knob("ranks", "GPUs", RANKS, world_size, "{:,}".format)
        self.rate = knob("rate", "speed of a GPU", RATES, flop_rate, flops)
        self.bandwidth = bandwidth_knob(
            "bandwidth of a GPU, one way", BANDWIDTHS, bandwidth
        )
        self.knobs = self.tokens, self.ranks, self.rate, self.bandwidth

    @cached_property
    def ratios(self) -> dict[str, Any]:
        """The steps over data parallelism's, by computing / gathering, at `PLACES`."""
        least, *others = training.layer_seconds(PLACES, 1.0).items()
        return {name: seconds / least[1] for name, seconds in others}

    @property
    def even(self) -> float:
        """Tokens for which a layer computes as long as it is gathered."""
        return float(
            training.tokens_at_equality(
                self.ranks.value, self.rate.value, self.bandwidth.value
            )
        )

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows: sliders, tokens at equality, and the curves."""
        turned = self.rate, self.bandwidth
        ranks = np.array(self.ranks.values)
        return {
            "names": list(self.ratios),
            "looks": page.looks((*SERIES[:3], SERIES[4]), DASHES),
            "even": {
                "axes": axes_of(turned, ranks),
                "table": table_of(
                    lambda rate, bandwidth: training.tokens_at_equality(
                        ranks, rate, bandwidth
                    ),
                    turned,
                    ranks,
                ),
            },
            "curves": [
                [float(f"{value:.6g}") for value in curve]
                for curve in self.ratios.values()
            ],
            "finest": FINEST,
            "widest": WIDEST,
            "knobs": [vars(one) for one in self.knobs],
        }

    def at(self, tokens: Any) -> dict[str, Any]:
        """Return the ratio of each way for so many tokens on a GPU."""
        place = np.rint(FINEST * (np.log2(np.asarray(tokens) / self.even) + WIDEST))
        place = np.clip(place, 0, len(PLACES) - 1).astype(int)
        return {name: curve[place] for name, curve in self.ratios.items()}

    def diagram(self) -> Diagram:
        """Return the curves for what the sliders begin with."""
        tokens = 2.0 ** np.arange(6, 20.01, 1 / 16)
        return lines(
            {name: (tokens, ratio) for name, ratio in self.at(tokens).items()},
            caption=self.words(),
            width=8,
            xlabel="tokens on each GPU",
            ylabel="step / data parallel",
            xscale="log",
            xticks=[2**n for n in range(6, 21, 2)],
            ylim=(0.9, 2.2),
        )

    def words(self) -> str:
        """Return what sharding costs; `shardingWords` in sharding.js says the same."""
        here = self.at(self.tokens.value)
        listed = ", ".join(f"{number(ratio)} by {name}" for name, ratio in here.items())
        return (
            f"{self.ranks.text} GPUs of {self.rate.text} with {self.bandwidth.text} "
            f"each: a layer computes as long as it is gathered with "
            f"{number(float(f'{self.even:.3g}'))} tokens on a GPU. With "
            f"{self.tokens.text} tokens the factor on the time of data parallelism is "
            f"{listed}."
        )


def explore_sharding(
    tokens: int = 4096,
    world_size: int = 8,
    flop_rate: float = 400e12,
    bandwidth: float = 50e9,
) -> ShardingExplorer:
    """Draw what ZeRO costs in time under sliders, beginning with these.

    tokens: on each GPU. flop_rate: operations a second that a GPU sustains. bandwidth:
    one way, bytes a second, of a GPU. Parameters have 2 bytes.
    """
    return ShardingExplorer(tokens, world_size, flop_rate, bandwidth)

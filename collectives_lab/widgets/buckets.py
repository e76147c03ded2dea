"""An explorer of buckets: which all-reduces hide behind a backward pass.

Here you can turn the size of the buckets, the ranks and the network (`explore_buckets`)
and see when each bucket is on the network, in a notebook and in an exported page.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import product
from typing import Any

from collectives_lab.costs.buckets import FIRST, Part, Span, in_buckets, on_the_network
from collectives_lab.plots.figure import Diagram, rank_color
from collectives_lab.plots.stream_picture import streams
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import bandwidth_knob, knob
from collectives_lab.widgets.words import number

CAPS = (1, 2, 5, 10, 25, 50, 100, 200, 500)
RANKS = (2, 8, 64, 512)
BANDWIDTHS = (1.25e9, 3.125e9, 12.5e9, 50e9, 450e9)
AS_THE_REST, SMALL = 0, 1
MiB = 2**20
SCRIPTS = ("units.js", "knobs.js", "chart.js", "buckets.js")
LANES = "computes", "network"


class BucketExplorer(page.Explorer):
    """A backward pass and the all-reduces of its buckets, under sliders."""

    scripts, function = SCRIPTS, "exploreBuckets"
    above = "knobs"

    def __init__(
        self,
        gradients: Iterable[Part],
        cap: int,
        world_size: int,
        bandwidth: float,
        alpha: float,
    ):
        self.gradients, self.alpha = [*gradients], alpha
        self.cap = knob("cap", "a bucket closes at", CAPS, cap, "{} MiB".format)
        self.first = knob("first", "the first one at", (0, 1), SMALL, _first)
        self.ranks = knob("ranks", "ranks P", RANKS, world_size, str)
        self.bandwidth = bandwidth_knob("bandwidth", BANDWIDTHS, bandwidth)
        self.knobs = self.cap, self.first, self.ranks, self.bandwidth

    @property
    def computing(self) -> float:
        """Return the seconds of the backward pass."""
        return sum(seconds for seconds, _ in self.gradients)

    def spans(self, cap: int, first: int, ranks: int, bandwidth: float) -> list[Span]:
        """Return when each bucket is on the network, for a place of the sliders."""
        small = min(cap * MiB, FIRST)
        parts = in_buckets(self.gradients, cap * MiB, small if first else cap * MiB)
        per_call = 2 * (ranks - 1) * self.alpha
        return [*on_the_network(parts, per_call, 2 * (ranks - 1) / ranks / bandwidth)]

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: bars in ms, and words, for each place of the sliders."""
        places = [*product(*(one.values for one in self.knobs))]
        return {
            "knobs": [vars(one) for one in self.knobs],
            "lanes": LANES,
            "colors": [rank_color(0), rank_color(1)],
            "computing": _ms(self.computing),
            "bars": [
                [_ms(time) for span in self.spans(*place) for time in span]
                for place in places
            ],
            "words": [self._words(*place) for place in places],
        }

    def _words(self, cap: int, first: int, ranks: int, bandwidth: float) -> str:
        """Say what is exposed, and which of the sizes would end first."""
        spans = self.spans(cap, first, ranks, bandwidth)
        end, least = max(spans[-1][1], self.computing), self.computing
        ends = {
            (one, small): max(self.spans(one, small, ranks, bandwidth)[-1][1], least)
            for one, small in product(CAPS, (AS_THE_REST, SMALL))
        }
        best, is_small = min(ends, key=lambda key: ends[key])
        return (
            f"{_count(spans)}: the gradients are computed after "
            f"{number(_ms(self.computing))} ms, and all sums are there after "
            f"{number(_ms(end))} ms, so {number(_ms(end - self.computing))} ms are "
            f"exposed. Of the sizes on the sliders, {best} MiB"
            f"{' after a first bucket of 1 MiB' if is_small else ''} ends first, after "
            f"{number(_ms(ends[best, is_small]))} ms."
        )

    def words(self) -> str:
        """Say what the sliders begin with; the page has the same for each place."""
        return self._words(*(one.value for one in self.knobs))

    def diagram(self) -> Diagram:
        """Return the picture of what the sliders begin with."""
        spans = self.spans(*(one.value for one in self.knobs))
        bars = [(0.0, self.computing)], spans
        return streams(
            {
                name: [(_ms(begin), _ms(end)) for begin, end in lane]
                for name, lane in zip(LANES, bars, strict=True)
            },
            caption=self.words(),
        )


def explore_buckets(
    gradients: Iterable[Part],
    cap: int = 25,
    world_size: int = 8,
    bandwidth: float = 12.5e9,
    alpha: float = 30e-6,
) -> BucketExplorer:
    """Show a backward pass and its buckets on the network, under sliders.

    gradients: in the order in which they arrive, each as the seconds that it takes to
    compute and its bytes. What the sliders begin with: the cap of a bucket in MiB, the
    ranks, bytes per second of a link. alpha: seconds of a message. The all-reduce is a
    ring.
    """
    return BucketExplorer(gradients, cap, world_size, bandwidth, alpha)


def _first(is_small: int) -> str:
    return "1 MiB" if is_small else "the same"


def _ms(seconds: float) -> float:
    return float(f"{1e3 * seconds:.4g}")


def _count(spans: list[Span]) -> str:
    return "One bucket" if len(spans) == 1 else f"{len(spans)} buckets"

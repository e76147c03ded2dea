"""An explorer of sums in fewer bytes: sliders for the link and for the packing.

Here you can turn the bandwidth of a link and the speed of packing (`explore_packing`),
and see how long a step of training takes in each way.
"""

from __future__ import annotations

from typing import Any

from collectives_lab.basics.units import format_bandwidth, format_seconds
from collectives_lab.costs import compression
from collectives_lab.costs.compression import WAYS, Parts
from collectives_lab.plots.figure import Diagram
from collectives_lab.plots.step_picture import PARTS, step_parts
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import bandwidth_knob, decades, knob

BANDWIDTHS = decades(8, 12)
SPEEDS = decades(9, 13)
SCRIPTS = ("units.js", "knobs.js", "chart.js", "packing.js")


class PackingExplorer(page.Explorer):
    """Steps in all ways of `costs.compression`, under sliders for link and packing."""

    scripts, function = SCRIPTS, "explorePacking"

    def __init__(
        self,
        numbers: float,
        computing: float,
        bandwidth: float,
        packing: float,
        world_size: int,
        hidden: float,
        buckets: int,
    ):
        if world_size < 2:
            raise ValueError(f"{world_size} ranks send nothing; need 2 or more")
        self.numbers, self.computing = numbers, computing
        self.world_size, self.hidden, self.buckets = world_size, hidden, buckets
        self.link = bandwidth_knob("bandwidth of the link", BANDWIDTHS, bandwidth)
        name = "packing reads and writes"
        self.speed = knob("packing", name, SPEEDS, packing, format_bandwidth, -1)
        self.knobs = self.link, self.speed

    def steps(self, bandwidth: float, packing: float) -> dict[str, Parts]:
        """Return the parts of a step in each way."""
        network = bandwidth, packing, self.world_size, self.hidden, self.buckets
        return {
            name: compression.parts(way, self.numbers, self.computing, *network)
            for name, way in WAYS.items()
        }

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows: for each link and speed the bars, and a sentence."""
        return {
            "shown": [
                [self._shown(bandwidth, packing) for packing in self.speed.values]
                for bandwidth in self.link.values
            ],
            "names": list(WAYS),
            "knobs": [vars(one) for one in self.knobs],
            "parts": list(PARTS),
            "colors": list(PARTS.values()),
        }

    def _shown(self, bandwidth: float, packing: float) -> dict[str, Any]:
        steps = self.steps(bandwidth, packing)
        return {
            "steps": [[float(f"{x:.4g}") for x in parts] for parts in steps.values()],
            "words": self._words(bandwidth, packing),
        }

    def _words(self, bandwidth: float, packing: float) -> str:
        """Say whether a byte beats bfloat16, up to which link, and who is first."""
        whole = {n: sum(parts) for n, parts in self.steps(bandwidth, packing).items()}
        byte, brain = WAYS["a byte"], WAYS["bfloat16"]
        overlap = self.hidden / self.numbers, self.buckets
        limit = compression.pays_up_to(byte, brain, packing, self.world_size, *overlap)
        is_faster = whole["a byte"] < whole["bfloat16"]
        every = [name for name, way in WAYS.items() if way.every == 1]
        first = min(every, key=lambda name: whole[name])
        return (
            f"A step takes {format_seconds(whole['bfloat16'])} with bfloat16 and "
            f"{format_seconds(whole['a byte'])} with a byte, which is "
            f"{'faster' if is_faster else 'not faster'}: with this packing, a byte "
            f"pays up to {format_bandwidth(limit)}. Of the ways that sum in every step "
            f"the fastest is {first}."
        )

    def diagram(self) -> Diagram:
        """Return the bars for what the sliders begin with."""
        at = self.link.value, self.speed.value
        return step_parts(self.steps(*at), caption=self._words(*at))

    def words(self) -> str:
        """Say what the sliders begin with; the page has the same for each place."""
        return self._words(self.link.value, self.speed.value)


def explore_packing(
    numbers: float = 124e6,
    computing: float = 0.082,
    *,
    bandwidth: float = 1.25e9,
    packing: float = 3.35e12,
    world_size: int = 4,
    hidden: float = 0.0,
    buckets: int = 10,
) -> PackingExplorer:
    """Draw a training step with sums in fewer bytes, link and packing to turn.

    numbers: of the gradient. computing: seconds of a step. bandwidth: of the link,
    bytes a second one way. packing: bytes a second that packing reads and writes; an
    H100's memory has 3.35e12. hidden: the most seconds of sending that computing hides
    in each step with a sum of gradients. buckets: equal ones, in which it goes; nothing
    hides the last. Raises ValueError for a single rank.
    """
    sums = world_size, hidden, buckets
    return PackingExplorer(numbers, computing, bandwidth, packing, *sums)

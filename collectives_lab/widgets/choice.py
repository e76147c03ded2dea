"""An explorer of NCCL's choice: what it takes for an all-reduce, by size and cluster.

Here you can turn the size, the servers and the GPUs in use of each, and see what NCCL
picks and how much longer each algorithm takes than the fastest one (`explore_choice`),
in a notebook and in an exported page. All times and choices are those of `predict`,
computed beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.fabrics import Fabric, dgx_h100
from collectives_lab.plots.figure import Diagram
from collectives_lab.plots.lines import lines
from collectives_lab.plots.series import SERIES
from collectives_lab.predictions import predict
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.words import number

Servers = Callable[[int, int], Fabric]
"""A cluster of so many servers and GPUs in each, as `fabrics.dgx_h100`."""
SIZES = 2.0 ** np.arange(8, 34)
NODES = sorted([2**n for n in range(10)] + [3 * 2**n for n in range(8)])
GPUS = (1, 2, 4, 8)
NAMES = ("a ring", "a tree", "the switches")
"""NCCL has one algorithm of switches at a time: NVLS, or NVLSTree over servers."""
RANGE, TICKS = (0.95, 4.0), (1, 2, 3, 4)
"""Of the axis, in units of the shortest time."""
ALONE = "One GPU has nobody to sum with."
SCRIPTS = ("units.js", "knobs.js", "chart.js", "choice.js")


class ChoiceExplorer(page.Explorer):
    """NCCL's choice under sliders, with a curve for each algorithm."""

    scripts, function = SCRIPTS, "exploreChoice"

    def __init__(self, servers: Servers, nbytes: float, nodes: int, gpus: int):
        self.servers = servers
        if nbytes not in SIZES:
            raise ValueError(f"nbytes is {nbytes}; need a power of two, 256 B to 8 GiB")
        if gpus not in GPUS:
            raise ValueError(f"gpus is {gpus}; need one of 1, 2, 4, 8")
        self.size = knob("size", "size S", SIZES.tolist(), nbytes, format_bytes)
        self.nodes = knob("nodes", "servers", NODES, nodes, "{:,}".format)
        self.gpus = knob("gpus", "GPUs in each", GPUS, gpus, str)
        self.knobs = self.size, self.nodes, self.gpus

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: sliders, and by servers, GPUs and size NCCL's choice."""
        places = (self.nodes.values, self.gpus.values)
        table = [[_by_size(self.servers, n, g) for g in places[1]] for n in places[0]]
        return {
            "names": NAMES,
            "looks": page.looks(SERIES, ("", "9 3", "2 3")),
            "sizes": SIZES.tolist(),
            "table": table,
            "range": RANGE,
            "ticks": TICKS,
            "knobs": [vars(one) for one in self.knobs],
        }

    def words(self) -> str:
        """Return what NCCL takes, and what the others would; `choiceWords` agrees."""
        nodes, gpus = self.nodes.value, self.gpus.value
        if nodes * gpus < 2:
            return ALONE
        by_size = _by_size(self.servers, nodes, gpus)
        place = self.size.start
        picked, how = by_size["picked"][place], by_size["how"][place]
        seconds = [times[place] for times in by_size["seconds"]]
        others = [
            f"{name} would take {number(time / seconds[picked])} times"
            for one, (name, time) in enumerate(zip(NAMES, seconds, strict=True))
            if one != picked and time is not None
        ]
        others[0] = others[0].replace(" times", " times as long")
        return (
            f"{self.size.text} on {nodes * gpus:,} GPUs: NCCL takes {how}, about "
            f"{format_seconds(seconds[picked])} by the model. Instead, "
            f"{', and '.join(others)}."
        )

    def diagram(self) -> Diagram:
        """Return the curves for what the sliders begin with."""
        by_size = _by_size(self.servers, self.nodes.value, self.gpus.value)
        times = np.array(by_size["seconds"], float)  # None becomes NaN
        ratios = dict(zip(NAMES, times / np.nanmin(times, axis=0), strict=True))
        figure = lines(
            {name: (SIZES, y) for name, y in ratios.items() if not np.isnan(y[0])},
            self.words(),
            xlabel="bytes",
            ylabel="time / shortest time",
            xscale="log",
            yscale="log",
            ylim=RANGE,
            yticks=TICKS,
        )
        figure.alt = (
            f"Curves of time by size, in units of the shortest time. {figure.alt}"
        )
        return figure


def explore_choice(
    nbytes: float = 2**16,
    nodes: int = 3,
    gpus: int = 8,
    servers: Servers = dgx_h100,
) -> ChoiceExplorer:
    """Show what NCCL takes for an all-reduce under sliders, beginning with these.

    nbytes: a power of two from 256 B to 8 GiB. gpus: those in use of each server: 1, 2,
    4 or 8. servers: the cluster, as `fabrics.dgx_h100`.
    Raises ValueError for other sizes and GPUs.
    """
    return ChoiceExplorer(servers, nbytes, nodes, gpus)


def _by_size(servers: Servers, nodes: int, gpus: int) -> dict[str, Any]:
    """Return by size the number of what NCCL picks, its name, and all times.

    A time is None where NCCL has no such algorithm. Nothing is picked on one GPU.
    """
    if nodes * gpus < 2:
        nothing = [None] * len(SIZES)
        return {"picked": nothing, "how": nothing, "seconds": [nothing] * 3}
    fabric = servers(nodes, gpus)
    names = ["ring", "tree", "nvls" if nodes == 1 else "nvlstree"]
    seconds = [[_seconds(n, fabric, name) for n in SIZES] for name in names]
    calls = [predict("all_reduce", n, fabric) for n in SIZES]
    for place, call in enumerate(calls):  # with what NCCL picks in this protocol
        seconds[names.index(call.algorithm)][place] = _rounded(call.seconds)
    return {
        "picked": [names.index(call.algorithm) for call in calls],
        "how": [f"{call.algorithm} in {call.protocol}" for call in calls],
        "seconds": seconds,
    }


def _seconds(nbytes: float, fabric: Fabric, algorithm: str) -> float | None:
    try:
        return _rounded(
            predict("all_reduce", nbytes, fabric, algorithm=algorithm).seconds
        )
    except ValueError:  # this cluster has no such algorithm
        return None


def _rounded(seconds: float) -> float:
    """Keep six digits, which is more than is shown, and short in a page."""
    return float(f"{seconds:.6g}")

"""An explorer of cost formulas: sliders that redraw the curves.

Here you can turn alpha, the bandwidth and the number of ranks (`explore_costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets
import numpy as np

from collectives_lab.plots.cost_curves import cost_curves
from collectives_lab.plots.figure import Diagram
from collectives_lab.units import format_bandwidth, format_seconds

SIZES = 2.0 ** np.arange(0, 30.01, 0.25)
RANKS = [2**n for n in range(1, 18)]
ALPHAS = [d * 10.0**n for n in range(-7, -2) for d in (1, 2, 5)]
BANDWIDTHS = [d * 10.0**n for n in range(7, 12) for d in (1, 2, 5)]


class CostExplorer:
    """Cost curves under sliders: `world_size`, `alpha` in seconds, `beta` a byte.

    Where no kernel runs, a notebook shows the curves as they were when it was saved.
    """

    def __init__(self, costs: Mapping[str, Callable[..., Any]], nbytes: Any):
        self.costs, self.nbytes = dict(costs), nbytes
        self.ranks = _slider("ranks", [(str(n), n) for n in RANKS], 8)
        self.latency = _slider("alpha", [(format_seconds(a), a) for a in ALPHAS], 5e-6)
        rates = [(format_bandwidth(b), b) for b in BANDWIDTHS]
        self.bandwidth = _slider("1 / beta", rates, 1e10)
        self.sliders = (self.ranks, self.latency, self.bandwidth)
        self.picture = ipywidgets.HTML()
        for slider in self.sliders:
            slider.observe(self._redraw, "value")
        self.box = ipywidgets.VBox([*self.sliders, self.picture])
        self._redraw()

    def diagram(self) -> Diagram:
        """The curves for what the sliders say."""
        return cost_curves(
            self.costs,
            self.nbytes,
            world_size=self.ranks.value,
            alpha=self.latency.value,
            beta=1 / self.bandwidth.value,
        )

    def _redraw(self, _: Any = None) -> None:
        self.picture.value = self.diagram()._repr_html_()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """The widget for a page with a kernel, and for others the picture."""
        bundle = self.box._repr_mimebundle_()
        return bundle | {"text/html": self.picture.value}


def explore_costs(
    costs: Mapping[str, Callable[..., Any]], nbytes: Any = SIZES
) -> CostExplorer:
    """Draw cost curves under sliders for the ranks, alpha and the bandwidth, 1 / beta.

    costs: by name, a function of (world_size, nbytes, alpha, beta), as in `costs`.
    """
    return CostExplorer(costs, nbytes)


def _slider(name: str, options: list[tuple[str, Any]], value: Any) -> Any:
    values = [option for _, option in options]
    nearest = min(values, key=lambda option: abs(np.log(option / value)))
    return ipywidgets.SelectionSlider(
        options=options,
        value=nearest,
        description=name,
        continuous_update=False,
        layout=ipywidgets.Layout(width="28em"),
    )

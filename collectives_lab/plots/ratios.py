"""How far predictions are off by size, for sets of measurements of any machines.

Here you can draw them (`ratios`), as `lab.truth.by_size()` has them.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import NullLocator
from numpy.typing import ArrayLike

from collectives_lab.plots.figure import STYLE, Diagram, diagram, key_above
from collectives_lab.plots.series import bytes_axis, series_look

TICKS = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 2.0, 5.0, 10.0)


@mpl.rc_context(STYLE)
def ratios(
    sets: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    bar: float = 0.2,
    caption: str | None = None,
) -> Diagram:
    """Draw predicted over measured by bytes, a series for each set.

    sets: by name, the bytes and the ratios of its calls. bar: the error that is
    allowed, drawn as a band about 1. Raises ValueError without sets.
    """
    if not sets:
        raise ValueError("there is no set of measurements; need one or more")
    figure, ax = diagram(7, 3.8)
    every = np.concatenate([np.asarray(values, float) for _, values in sets.values()])
    sizes = np.concatenate([np.asarray(at, float) for at, _ in sets.values()])
    ax.set(xscale="log", yscale="log", ylabel="predicted / measured")
    ax.axhspan(1 / (1 + bar), 1 + bar, color="#888888", alpha=0.15, linewidth=0)
    ax.axhline(1, color="#888888", linewidth=1)
    handles = {}
    for number, (name, (at, values)) in enumerate(sets.items()):
        look = series_look(number)
        style = "" if len(np.atleast_1d(at)) == 1 else look["linestyle"]
        (handles[name],) = ax.plot(
            at, values, **(look | {"linestyle": style}), markersize=4, linewidth=1
        )
    ax.set_xlim(sizes.min() / 2, sizes.max() * 2)
    low, high = min(every.min(), 0.75) / 1.08, max(every.max(), 1.33) * 1.08
    ax.set_ylim(low, high)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    ax.set_yticks(ticks, [f"{tick:g}×" for tick in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
    bytes_axis(ax.xaxis, sizes.min() / 2, sizes.max() * 2)
    ax.grid(axis="y")
    key_above(ax, handles, most=4)
    within = int((abs(np.log(every)) <= np.log(1 + bar)).sum())
    fact = (
        f"{within} of {len(every)} calls are predicted within {100 * bar:.0f} %; most "
        f"off is {every[np.argmax(abs(np.log(every)))]:.2f} times what was measured."
    )
    figure.caption = fact if caption is None else caption
    figure.alt = f"Points of predicted over measured by size. {fact}"
    return figure

"""Results of several seeds: a dot for each, in a row for each way to get them.

Here you can draw how ways to train compare, and how far seeds are apart (`by_seed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator

from collectives_lab.plots.figure import INK, STYLE, Diagram, diagram, rank_color


@mpl.rc_context(STYLE)
def by_seed(
    results: Mapping[str, Sequence[float]],
    caption: str,
    *,
    marks: Mapping[str, float] | None = None,
    **axes: Any,
) -> Diagram:
    """Draw a row for each name: a dot for each seed, and a line at their mean.

    marks: values across all rows, by name, such as the two ends to compare with. axes:
    what `Axes.set` takes, as `xlabel="loss"`. Raises ValueError for a row without dots.
    """
    if empty := [name for name, values in results.items() if not len(values)]:
        raise ValueError(f"{empty[0]} has no results; need one or more for each name")
    figure, ax = diagram(6.0, 1.0 + 0.27 * len(results))
    for name, x in (marks or {}).items():
        ax.axvline(x, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        ax.text(x, -0.75, name, ha="center", va="bottom", size=8)
    for row, values in enumerate(results.values()):
        ax.plot(values, [row] * len(values), "o", ms=5, color=rank_color(0), alpha=0.55)
        ax.plot(
            [np.mean(values)] * 2, [row - 0.3, row + 0.3], color=rank_color(4), lw=2
        )
    all_seen = [*np.concatenate([*results.values()]), *(marks or {}).values()]
    low, high = min(all_seen), max(all_seen)
    ticks = [x for x in MaxNLocator(5).tick_values(low, high) if low <= x <= high]
    ax.set(yticks=range(len(results)), yticklabels=[*results], xticks=ticks, **axes)
    ax.margins(x=0.08)
    ax.set_ylim(len(results) - 0.4, -0.7)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    said = (
        f"{name} {np.mean(values):.3g} ({min(values):.3g} to {max(values):.3g})"
        for name, values in results.items()
    )
    figure.caption, figure.alt = caption, f"{', '.join(said)}. {caption}"
    return figure

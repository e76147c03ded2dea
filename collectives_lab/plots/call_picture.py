"""The calls of a step in their order, each on the line of the layer that it is for.

Here you can compare the orders of several systems (`call_order`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl

from collectives_lab.plots.figure import STYLE, Diagram, blank
from collectives_lab.plots.series import series_look

MARKS = "s", "v", "o", "D"
"""One for each verb, for who cannot tell the colours apart."""


@mpl.rc_context(STYLE)
def call_order(
    systems: Mapping[str, Sequence[tuple[str, str]]],
    layers: Sequence[str],
    *,
    caption: str,
) -> Diagram:
    """Draw the calls of each system, as (verb, layer) in their order, in a panel.

    layers: from top to bottom. A verb has the same mark in all panels.
    """
    verbs = list(dict.fromkeys(verb for calls in systems.values() for verb, _ in calls))
    figure = blank(8, 0.3 * len(layers) + 1.5)
    axes = figure.subplots(1, len(systems), sharey=True, squeeze=False)[0]
    signs = {}
    for ax, (name, calls) in zip(axes, systems.items(), strict=True):
        for number, verb in enumerate(verbs):
            places = [
                (n, layers.index(layer))
                for n, (called, layer) in enumerate(calls, 1)
                if called == verb
            ]
            look = {"color": series_look(number)["color"], "marker": MARKS[number]}
            signs[verb] = ax.scatter(*zip(*places, strict=True), s=55, **look)
        ax.set_title(name, fontsize=9, loc="left")
        ax.set_xticks(range(1, len(calls) + 1))
        ax.set(xlabel="call", ylim=(len(layers) - 0.4, -0.6))
    axes[0].set_yticks(range(len(layers)), list(layers))
    look = {"ncols": len(verbs), "frameon": False, "fontsize": 8}
    figure.legend(signs.values(), signs.keys(), loc="outside upper right", **look)
    figure.caption = caption
    said = "; ".join(
        f"{name}: {', '.join(f'{verb} {layer}' for verb, layer in calls)}"
        for name, calls in systems.items()
    )
    figure.alt = f"A panel for each system, with its calls in order. {said}. {caption}"
    return figure

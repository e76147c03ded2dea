"""An explorer of one message: its latency, its bytes, and which of them it pays for.

Here you can turn the size, alpha and the bandwidth of a link (`explore_message`), in a
notebook and in an exported page.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.fabrics import Link
from collectives_lab.plots.figure import INK, Diagram
from collectives_lab.plots.message_picture import message_time
from collectives_lab.plots.series import SERIES, SIZES
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import bandwidth_knob, decades, knob
from collectives_lab.widgets.lookup import axes_of, table_of
from collectives_lab.widgets.words import number

ALPHAS = decades(-7, -1)
BANDWIDTHS = decades(7, 12)
CURVES = ("α + nβ", "latency α", "bytes nβ")
SCRIPTS = ("units.js", "knobs.js", "lookup.js", "crossings.js", "chart.js",
           "message.js")  # fmt: skip


class MessageExplorer(page.Explorer):
    """The time of a message under sliders, in its two parts."""

    scripts, function = SCRIPTS, "exploreMessage"

    def __init__(self, nbytes: float, alpha: float, bandwidth: float):
        shown = [n for n in SIZES.tolist() if np.log2(n).is_integer()]
        nearest = min(shown, key=lambda n: abs(np.log(n / nbytes)))
        self.size = knob("size", "size n", shown, nearest, format_bytes)
        self.alpha = knob("alpha", "latency α", ALPHAS, alpha, format_seconds)
        self.bandwidth = bandwidth_knob("bandwidth 1/β", BANDWIDTHS, bandwidth)
        self.knobs = self.size, self.alpha, self.bandwidth

    @property
    def link(self) -> Link:
        """Return the link that the sliders begin with."""
        return Link.of(self.alpha.value, self.bandwidth.value)

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: sizes, sliders, and a table of seconds by part."""
        knobs = [vars(one) for one in self.knobs]
        # The page looks a size up among all sizes.
        places = np.searchsorted(SIZES, self.size.values).tolist()
        knobs[0] = knobs[0] | {"values": places}
        turned = self.alpha, self.bandwidth
        parts = (
            lambda alpha, rate: alpha + 0 * SIZES,
            lambda alpha, rate: SIZES / rate,
        )
        return {
            "names": CURVES,
            "looks": page.looks((SERIES[0], INK, INK), ("", "6 3", "2 3")),
            "sizes": SIZES.tolist(),
            "parts": [table_of(part, turned, SIZES) for part in parts],
            "axes": axes_of(turned, SIZES),
            "knobs": knobs,
        }

    def words(self) -> str:
        """Return what the message takes, and for what; `messageWords` says the same."""
        link, size = self.link, self.size.value
        share = link.alpha / link.time(size)
        return (
            f"A message of {self.size.text} takes {format_seconds(link.time(size))}: "
            f"{format_seconds(link.alpha)} of latency and "
            f"{format_seconds(size * link.beta)} for the bytes, so latency is "
            f"{number(100 * share)} % of the time. {_half(link.half_size)}"
        )

    def diagram(self) -> Diagram:
        """Return the picture of what the sliders begin with."""
        return message_time(self.link, SIZES, caption=self.words())


def explore_message(
    nbytes: float = 2**16, *, alpha: float = 5e-6, bandwidth: float = 1e10
) -> MessageExplorer:
    """Show what a message takes under sliders for its size, alpha and 1 / beta.

    What the sliders begin with: bytes, seconds a message, and bytes a second.
    """
    return MessageExplorer(nbytes, alpha, bandwidth)


def _half(nbytes: float) -> str:
    if not SIZES[0] < nbytes < SIZES[-1]:
        return "Both parts are equal at no size of this picture."
    value, unit = format_bytes(nbytes).split()
    return f"Both are equal at n½ = {float(f'{float(value):.3g}'):g} {unit}."

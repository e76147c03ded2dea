"""A scrubber: a slider over the moments of a trace, in its space-time diagram.

It shows which messages are under way at a moment and where each of them is, and says it
in words. Where no script runs there is the diagram, and all moments in a list.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectives_lab.plots.lanes import Scene, scene
from collectives_lab.plots.spacetime import space_time
from collectives_lab.trace import Trace
from collectives_lab.widgets import page
from collectives_lab.widgets.moments import across, arrows, box, moments
from collectives_lab.widgets.stepper import Stepper

SCRIPTS = ("knobs.js", "chart.js", "scrubber.js")
SIGNS = (
    "In flight is a call that has begun while its rank does other work; blocked is a "
    "rank that waits for one."
)


@dataclass(frozen=True)
class Scrubber:
    """A trace with times, moment by moment.

    chunks: those of each send, by the rank that sends and which of its sends it is.
    stepper: the same by chunks, shown above. note: a sentence to say below, after what
    the signs in the picture mean.
    """

    trace: Trace
    chunks: Mapping[tuple[int, int], Sequence[int]] = field(default_factory=dict)
    stepper: Stepper | None = None
    note: str = ""

    def _repr_html_(self) -> str:
        seen, figure = scene(self.trace), space_time(self.trace)
        timeline = moments(seen, self.chunks)
        data = {
            "name": "step" if seen.is_steps else "time",
            "moments": [{"time": t, "x": across(figure, t)} for t, _ in timeline],
            "arrows": arrows(figure, seen),
            "box": box(figure),
        }
        items = "".join(f"<li>{html.escape(words)}</li>" for _, words in timeline)
        body = (
            '<div class="knobs"></div><div class="sentence" aria-live="polite"></div>'
            f'<div class="stage">{figure._repr_html_()}</div>'
            f"<div>{html.escape(self._below(seen))}</div>"
            f"<details><summary {page.OWN_KEYS}>All {len(timeline)} moments in words"
            f'</summary><ol class="moments">{items}</ol></details>'
        )
        above = self.stepper._repr_html_() if self.stepper else ""
        return above + page.live(body, SCRIPTS, "scrub", data)

    def _below(self, seen: Scene) -> str:
        return " ".join(filter(None, [SIGNS * (not seen.is_steps), self.note]))

    def __repr__(self) -> str:
        timeline = moments(scene(self.trace), self.chunks)
        lines = [words for _, words in timeline]
        return "\n".join([*([repr(self.stepper)] if self.stepper else []), *lines])

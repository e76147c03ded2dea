"""When each rank computes: a lane a rank, a bar for each piece of work.

Here you can draw the computing of a replayed or recorded run alone (`computing`), where
messages would only be in the way: a pipeline's bubble, a rank that waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib as mpl

from collectives_lab.plots.figure import (
    STYLE,
    Diagram,
    Traced,
    diagram,
    on_color,
    rank_color,
    trace_of,
)
from collectives_lab.trace import Trace

RIM = 0.005
"""Of the whole time, what is left white between two bars that touch."""


@mpl.rc_context(STYLE)
def computing(
    thing: Trace | Traced,
    caption: str,
    width: float = 8.0,
    height: float = 1.9,
    *,
    name: str = "rank",
    label: Callable[[str], str] = lambda variant: "",
    is_faint: Callable[[str], bool] = lambda variant: False,
    **axes: Any,
) -> Diagram:
    """Draw when each rank computes; where its lane is empty it waits.

    thing: a Timeline, or what else has a trace with times. width, height: inches. name:
    of a lane, with its rank. label, is_faint: what is written on a bar, and whether it
    is pale, by the event's variant. axes: what `Axes.set` takes, as `xlabel="time"`.
    Raises ValueError for a trace in which nobody computes.
    """
    trace = trace_of(thing)
    bars = [e for e in trace.events if e.op == "compute" and e.completed is not None]
    if not bars:
        raise ValueError("nobody computes in this trace, or it has no times; replay it")
    figure, ax = diagram(width, height)
    end = max(event.completed or 0.0 for event in bars)
    for event in bars:
        begin, done = event.issued or 0.0, event.completed or 0.0
        color, alpha = rank_color(event.rank), 0.4 if is_faint(event.variant) else 1.0
        rim = min(RIM * end, (done - begin) / 4) / 2
        place = event.rank, done - begin - 2 * rim, 0.8, begin + rim
        bar = ax.barh(*place, color=color, alpha=alpha)
        style = {"label_type": "center", "color": on_color(color), "fontsize": 7}
        ax.bar_label(bar, [label(event.variant)], **style)
    last = trace.world_size - 1
    ax.set_yticks(range(last + 1), [f"{name} {rank}" for rank in range(last + 1)])
    ax.set(xlim=(0, end), ylim=(last + 0.6, -0.6))
    ax.set(**axes)
    figure.caption = caption
    figure.alt = f"When each of {last + 1} ranks computes. {caption}"
    return figure

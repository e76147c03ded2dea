"""What each rank receives when: blocks of time in the colour of the sender.

Here you can draw the messages of a replay by their receivers (`arrivals`).
"""

from __future__ import annotations

import matplotlib as mpl

from collectives_lab.plots.figure import (
    INK,
    PHONE,
    STYLE,
    Diagram,
    Traced,
    diagram,
    on_color,
    rank_color,
    trace_of,
)


@mpl.rc_context(STYLE)
def arrivals(
    timeline: Traced,
    *,
    until: float,
    per_node: int | None = None,
    caption: str | None = None,
) -> Diagram:
    """Draw when each message arrives, by receiver, with the sender's number in it.

    timeline: a replay on a fabric where every message takes one unit of time. until:
    the end of the axis, so that several pictures can share one scale. per_node: the
    ranks of a node, where a line shall part the nodes.
    """
    trace = trace_of(timeline)
    figure, ax = diagram(PHONE, 0.55 + 0.33 * trace.world_size)
    received = [e for r in range(trace.world_size) for e in trace.of_rank(r)]
    for event in (e for e in received if e.op == "recv"):
        sender, end = event.peer, event.completed
        if sender is None or end is None:
            continue
        color = rank_color(sender)
        ax.barh(event.rank, left=end - 0.97, color=color, height=0.8, width=0.94)
        label = {"color": on_color(color), "ha": "center", "va": "center"}
        ax.text(end - 0.5, event.rank, str(sender), **label)
    for first in range(per_node, trace.world_size, per_node) if per_node else ():
        ax.axhline(first - 0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    ax.set(xlabel="time, in messages", ylabel="receiver", xlim=(0, until))
    ax.set_yticks(range(trace.world_size))
    ax.invert_yaxis()
    figure.caption = caption or f"What {trace.world_size} ranks receive, by sender."
    figure.alt = f"Blocks of time by receiver. {figure.caption}"
    return figure

"""The moments of a trace: the calls under way, in words and in its picture.

Here you can list the moments (`moments`), and place them and the messages in a
space-time diagram (`across`, `arrows`), whose lanes are in a `box`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.plots.figure import Diagram, rank_color
from collectives_lab.plots.lanes import Bar, Scene, verb

MOST_MOMENTS = 200
MOST_THINGS = 8
MOST_ARROWS = 1000
Chunks = Mapping[tuple[int, int], Sequence[int]]
"""The chunks of a send, by the rank that sends and which of its sends it is."""


def moments(seen: Scene, chunks: Chunks) -> list[tuple[float, str]]:
    """Return the times at which something begins or a message arrives, and what is
    under way.

    Of more than 200 times, as many spread evenly. Each step of a plan is a moment.
    """
    times = {bar.begin for bar in seen.bars} | {recv.end for _, recv in seen.pairs}
    times |= {max(bar.end for bar in seen.bars)}
    if seen.is_steps:
        times = {float(round(bar.begin)) for bar in seen.bars}
    ordered = sorted(t for t in times if seen.first <= t <= seen.last)
    if len(ordered) > MOST_MOMENTS:
        chosen = np.linspace(0, len(ordered) - 1, MOST_MOMENTS).astype(int)
        ordered = [ordered[i] for i in chosen]
    named = list(zip(seen.pairs, _cargo(seen, chunks), strict=True))
    return [(t, _words(seen, named, t)) for t in ordered]


def across(figure: Diagram, time: float) -> float:
    """Return where a time is in the picture, in percent from the left."""
    return _place(figure, time, 0)[0]


def arrows(figure: Diagram, seen: Scene) -> list[dict[str, Any]]:
    """Return each message with its times, its colour, and its two ends in percent.

    None of more than 1000, of which nobody could follow one.
    """
    if len(seen.pairs) > MOST_ARROWS:
        return []
    return [
        {
            "begin": send.begin,
            "end": recv.end,
            "color": rank_color(send.event.rank),
            "from": _place(figure, send.begin, send.side(recv.event.rank)),
            "to": _place(figure, recv.end, recv.side(send.event.rank)),
        }
        for send, recv in seen.pairs
    ]


def box(figure: Diagram) -> dict[str, float]:
    """Return where the lanes are in the picture, in percent.

    Round them are the labels.
    """
    (ax,) = figure.axes
    lanes = ax.get_window_extent()
    width, height = figure.get_size_inches() * figure.dpi
    sides = {"left": lanes.x0 / width, "top": 1 - lanes.y1 / height}
    sides["bottom"] = 1 - lanes.y0 / height
    return {side: round(float(100 * share), 2) for side, share in sides.items()}


def _place(figure: Diagram, time: float, lane: float) -> list[float]:
    (ax,) = figure.axes
    x, y = ax.transData.transform((time, lane))
    width, height = figure.get_size_inches() * figure.dpi
    return [round(float(100 * x / width), 2), round(float(100 - 100 * y / height), 2)]


def _cargo(seen: Scene, chunks: Chunks) -> list[str]:
    """Return what each message carries: its bytes, and its chunks where they are
    known.
    """
    sent: Counter = Counter()
    cargo = []
    for send, _ in seen.pairs:
        rank = send.event.rank
        known = chunks.get((rank, sent[rank]), ())
        sent[rank] += 1
        which = f"chunk{'s' * (len(known) > 1)} {', '.join(map(str, known))}"
        size = format_bytes(send.event.nbytes)
        cargo.append(f"{size} ({which})" if known else size)
    return cargo


def _words(
    seen: Scene, named: Sequence[tuple[tuple[Bar, Bar], str]], time: float
) -> str:
    """Write `at 12.3 µs: rank 0 → 1: 64 KiB (chunk 2); rank 2 waits for rank 1`."""
    things = [
        f"rank {send.event.rank} → {recv.event.rank}: {what}"
        for (send, recv), what in named
        if _is_on(send.begin, time, recv.end)
    ]
    for calls in seen.together:
        ranks = [bar.event.rank for bar in calls if _is_on(bar.begin, time, bar.end)]
        if ranks:
            things.append(f"{verb(calls)} on {_ranks(ranks)}")
    if not seen.is_steps:
        things += [*_waiting(seen, time), *_computing(seen, time)]
    more = len(things) - MOST_THINGS
    phrases = things[:MOST_THINGS] + [f"and {more} more"] * (more > 0)
    when = f"step {time:g}" if seen.is_steps else f"at {format_seconds(time)}"
    return f"{when}: {'; '.join(phrases) or 'nothing is under way'}"


def _is_on(begin: float, time: float, end: float) -> bool:
    return begin <= time < end


def _waiting(seen: Scene, time: float) -> list[str]:
    """Name the ranks that wait for a message not on its way, or never to come."""
    begun = {id(recv): send.begin for send, recv in seen.pairs}
    return [
        f"rank {bar.event.rank} waits for {_peer(bar)}"
        for bar in seen.bars
        if bar.event.op == "recv"
        and bar.event.waited is not None
        and _is_on(bar.wait, time, bar.end)
        and time < begun.get(id(bar), float("inf"))
    ]


def _peer(bar: Bar) -> str:
    return "any rank" if bar.event.peer is None else f"rank {bar.event.peer}"


def _computing(seen: Scene, time: float) -> list[str]:
    ranks = {
        bar.event.rank
        for bar in seen.bars
        if bar.is_compute and _is_on(bar.begin, time, bar.end)
    }
    return [f"{_ranks(sorted(ranks))} computing"] if ranks else []


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"

"""Labels of a space-time diagram, each where it covers nothing.

Here you can name what is stuck (`name_stuck`), the collectives (`name_rounds`) and the
sends and receives (`name_calls`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from collectives_lab.plots.figure import Labels
from collectives_lab.plots.lanes import FILLED, Bar, verb

MOST_NAMES = 24  # names of collectives above a lane; of more, only their counts
FEW = 12  # calls up to which one without room is named beside its bar
GAP = 4  # pixels between them


def name_stuck(labels: Labels, stuck: Sequence[Bar]) -> None:
    """Name each stuck call beside its cross."""
    for bar in stuck:
        x, y = labels.ax.transData.transform((bar.end, bar.middle))
        labels.put(bar.name, x + 8, y)


def name_rounds(labels: Labels, rounds: Sequence[list[Bar]]) -> None:
    """Name each collective once, above the first of its lanes."""
    by_lane: dict[int, list[list[Bar]]] = defaultdict(list)
    for calls in rounds:
        by_lane[calls[0].lane].append(calls)
    for lane, in_lane in by_lane.items():
        for name, begin in _names(labels, in_lane):
            place = begin, lane - FILLED / 2
            x, y = labels.ax.transData.transform(place)
            step = labels.size(name)[1] + 2
            rows = range(2 if lane == 0 else 1)
            any(labels.put(name, x, y + (row + 0.5) * step) for row in rows)


def _names(labels: Labels, rounds: Sequence[list[Bar]]) -> list[tuple[str, float]]:
    """Return names and their times: a crowd of equals becomes `verb x n`."""
    runs = [(name, list(run)) for name, run in groupby(rounds, verb)]
    if len(runs) > MOST_NAMES:
        counts = Counter(verb(calls) for calls in rounds)
        text = ", ".join(f"{name} ×{n}" for name, n in counts.items())
        return [(text, rounds[0][0].begin)]
    names = []
    for name, run in runs:
        begins = [calls[0].begin for calls in run]
        pixels = labels.ax.transData.transform([(t, 0) for t in begins])[:, 0]
        if (np.diff(pixels) < labels.size(name)[0]).any():
            names.append((f"{name} ×{len(begins)}", begins[0]))
        else:
            names += [(name, begin) for begin in begins]
    return names


def name_calls(labels: Labels, bars: Sequence[Bar]) -> None:
    """Name a send or a recv whose bar has room for it; of few, also beside its bar."""
    for bar in bars:
        if bar.is_message and not bar.is_stuck:
            corners = [(bar.begin, bar.bottom), (bar.end, bar.top)]
            (x0, y0), (x1, y1) = labels.ax.transData.transform(corners)
            width, height = labels.size(bar.name)
            if width <= x1 - x0 and height <= y1 - y0 + 2:
                middle = _middle(labels, bar, width)
                labels.put(bar.name, middle - width / 2, (y0 + y1) / 2)
            elif len(bars) <= FEW and (left := _free(labels, bar, bars)) is not None:
                labels.put(bar.name, left, (y0 + y1) / 2)


def _middle(labels: Labels, bar: Bar, width: float) -> float:
    """Return the middle of the longest part of a bar, or of all if that has no room.

    Its parts differ in their looks, so a name in one of them hides no border.
    """
    times = [t for t in (bar.begin, bar.wait, bar.moves, bar.end) if t is not None]
    x = labels.ax.transData.transform([(t, 0) for t in times])[:, 0]
    longest = len(x) - 2 - int(np.argmax(np.diff(x)[::-1].round()))  # the last such
    left, right = x[longest : longest + 2]
    return float(left + right if width <= right - left else x[0] + x[-1]) / 2


def _free(labels: Labels, bar: Bar, bars: Sequence[Bar]) -> float | None:
    """Return where the name fits behind a bar or before it, and covers no other."""
    ax, width = labels.ax, labels.size(bar.name)[0]
    others = [other for other in bars if other.lane == bar.lane and other != bar]
    frame = ax.get_window_extent()

    def pixel(time: float) -> float:
        return float(ax.transData.transform((time, 0))[0])

    before = (pixel(other.end) for other in others if other.end <= bar.begin)
    behind = (pixel(other.begin) for other in others if other.begin >= bar.end)
    start, stop = max([frame.x0, *before]), min([frame.x1, *behind])
    # Where neither side has room for all of it, it may cover a part of its own bar.
    places = pixel(bar.end) + GAP, pixel(bar.begin) - GAP - width, stop - width
    return next((left for left in places if start <= left <= stop - width), None)

"""An explorer of a bound on staleness: who computes when, and what a gradient misses.

Here you can turn the bound, and how slow and how often a worker is slow
(`explore_staleness`), in a notebook and in an exported page.
"""

from __future__ import annotations

import random
import statistics
from functools import cache, cached_property
from itertools import product
from typing import Any

from collectives_lab.plots.computing import computing
from collectives_lab.plots.figure import Diagram, rank_color
from collectives_lab.replay.staleness import Gradient, play
from collectives_lab.trace import Event, Trace
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.words import number

WORKERS = 4
UNTIL = 24
"""Units of time that are shown; a fast gradient takes one."""

NO_BOUND = UNTIL
"""A lead that no worker can have by then."""

BOUNDS = (0, 1, 2, 4, 8, NO_BOUND)
FACTORS = (1, 2, 4, 8)
ALWAYS, AT_TIMES = 0, 1
SCRIPTS = ("units.js", "knobs.js", "chart.js", "staleness.js")


class StalenessExplorer(page.Explorer):
    """Four workers of a parameter server over time, under sliders.

    Rank 0 is the server.
    """

    scripts, function = SCRIPTS, "exploreStaleness"
    above = "knobs"

    def __init__(self, bound: int | None, factor: int, is_at_times: bool):
        begun = NO_BOUND if bound is None else bound
        self.bound = knob("bound", "bound, in steps", BOUNDS, begun, _bound)
        self.factor = knob("factor", "a slow gradient takes", FACTORS, factor, str)
        self.who = knob("who", "who is slow", (ALWAYS, AT_TIMES), is_at_times, _who)
        self.knobs = self.bound, self.factor, self.who

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: bars and a sentence for each place of the sliders.

        Bars are, by worker, when it begins and ends each gradient.
        """
        places = list(product(*(one.values for one in self.knobs)))
        return {
            "knobs": [vars(one) for one in self.knobs],
            "until": UNTIL,
            "colors": [rank_color(rank) for rank in range(1 + WORKERS)],
            "bars": [_bars(*place) for place in places],
            "words": [_words(*place) for place in places],
        }

    def words(self) -> str:
        """Say what the sliders begin with; the page has the same for each place."""
        return _words(self.bound.value, self.factor.value, self.who.value)

    def diagram(self) -> Diagram:
        """Return the picture of what the sliders begin with."""
        events = [
            Event(1 + worker, "compute", issued=begin, completed=end)
            for worker, bars in enumerate(
                _bars(self.bound.value, self.factor.value, self.who.value)
            )
            for begin, end in zip(bars[::2], bars[1::2], strict=True)
        ]
        return computing(
            Trace.from_events(events, 1 + WORKERS),
            self.words(),
            ranks=range(1, 1 + WORKERS),
            between=(0, UNTIL),
            xlabel="time (1 = a fast gradient)",
        )


def explore_staleness(
    bound: int | None = 2, *, factor: int = 4, is_at_times: bool = False
) -> StalenessExplorer:
    """Show four workers of a server under sliders for the bound and the slowness.

    What the sliders begin with: steps that a worker may be ahead, None for no bound;
    how many times as long a slow gradient takes; and whether each worker is slow at
    times, in one gradient of four, instead of rank 4 always.
    """
    return StalenessExplorer(bound, factor, is_at_times)


def _bound(value: int) -> str:
    return "none" if value >= NO_BOUND else str(value)


def _who(value: int) -> str:
    return "each, one gradient in four" if value else "rank 4, always"


@cache
def _played(bound: int, factor: int, who: int) -> list[Gradient]:
    """Return the gradients of a run, in the order of the server."""

    def seconds(worker: int, clock: int) -> float:
        luck = random.Random(97 * clock + worker).random()
        is_slow = luck < 1 / 4 if who == AT_TIMES else worker == WORKERS - 1
        return float(factor if is_slow else 1)

    return play(WORKERS, bound, seconds, steps=UNTIL + 1)


def _bars(bound: int, factor: int, who: int) -> list[list[int]]:
    """Return begin and end of each gradient that begins in time, by worker."""
    bars: list[list[int]] = [[] for _ in range(WORKERS)]
    for gradient in _played(bound, factor, who):
        if gradient.begin < UNTIL:
            bars[gradient.worker] += [int(gradient.begin), int(gradient.end)]
    return bars


def _in_time(bound: int, factor: int, who: int) -> list[Gradient]:
    played = _played(bound, factor, who)
    return [gradient for gradient in played if gradient.end <= UNTIL]


def _words(bound: int, factor: int, who: int) -> str:
    """Say how many updates are made, and what a gradient misses."""
    slow = "each worker is slow in one gradient of four" if who else "rank 4 is slow"
    missed = [gradient.missed for gradient in _in_time(bound, factor, who)]
    in_step, free = (len(_in_time(b, factor, who)) for b in (0, NO_BOUND))
    return (
        f"Bound {_bound(bound)}; {slow}, and takes {factor} times as long then. In "
        f"{UNTIL} units of time the server makes {len(missed)} updates; in step "
        f"{in_step}, without a bound {free}. A gradient misses "
        f"{number(statistics.mean(missed))} updates on average, and {max(missed)} at "
        "most."
    )

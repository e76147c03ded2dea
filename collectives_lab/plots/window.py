"""The part of a trace that is looked at: some of its ranks, from one time to another.

Here you can choose it (`window`). All of it is arrays by row of the trace, so that a
million calls cost no more than the few of them that are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from collectives_lab.plots.clock import counts_steps, in_steps
from collectives_lab.trace import Trace

Between = tuple[float | None, float | None]
"""From when to when, in seconds since the trace began; None: from the first, to the
last."""


@dataclass(frozen=True)
class Window:
    """Some ranks of a trace, between two times.

    begin, wait, end: seconds (or numbers of steps) by row of the trace: the call, the
    start of its blocking wait, its end; NaN for a call without a time. A call that
    never completed lasts a little longer than everything that is known, or to the end
    of what is looked at, if that is later. is_stuck: by row, whether a rank waited for
    the call in vain. rows: the calls that are seen.
    missing: how many calls of these ranks have no time. is_steps: whether times are not
    seconds but the numbers of a plan's steps, from 1.
    """

    trace: Trace
    ranks: list[int]
    first: float
    last: float
    begin: np.ndarray
    wait: np.ndarray
    end: np.ndarray
    is_stuck: np.ndarray
    rows: np.ndarray
    missing: int
    is_steps: bool

    def is_chosen(self) -> np.ndarray:
        """Return for each row whether it has a time, and a rank that is looked at."""
        is_chosen = np.isin(self.trace.columns["rank"], self.ranks)
        return is_chosen & ~np.isnan(self.begin)

    def is_seen(self) -> np.ndarray:
        """Return for each row whether it is one of `rows`."""
        is_seen = np.zeros(len(self.trace), dtype=bool)
        is_seen[self.rows] = True
        return is_seen


def window(
    trace: Trace, ranks: Iterable[int] | None = None, between: Between | None = None
) -> Window:
    """Look at some ranks of a trace, or at all, from one time to another.

    Raises ValueError if no call has a time, for a rank that is none of the trace's, and
    unless the first time is before the last.
    """
    chosen = chosen_of(trace.world_size, ranks)
    is_steps = counts_steps(trace)
    names = ("issued", "waited", "completed")
    issued, waited, completed = (trace.columns[name] for name in names)
    if is_steps:
        issued, waited, completed = in_steps(issued)
    if np.isnan(issued).all():
        raise ValueError(
            "no call of this trace has a time, so there is nothing to draw; "
            "draw the trace of a run, or replay a plan on a fabric first"
        )
    first, last = np.nanmin(issued).item(), _latest(issued, waited, completed)
    last = max(last, first + 1e-6)
    is_stuck = ~np.isnan(waited) & np.isnan(completed)
    if is_stuck.any():
        last += 0.25 * (last - first)
    known = last
    first, last = limits(between, first, last)
    end = np.where(is_stuck, max(known, last), np.fmax(issued, completed))
    wait = np.where(np.isnan(waited), end, np.clip(waited, issued, end))
    is_chosen = np.isin(trace.columns["rank"], chosen)
    return Window(
        trace,
        chosen,
        first,
        last,
        issued,
        wait,
        end,
        is_stuck,
        np.flatnonzero(is_chosen & (end >= first) & (issued <= last)),
        int((is_chosen & np.isnan(issued)).sum()),
        is_steps,
    )


def limits(between: Between | None, first: float, last: float) -> tuple[float, float]:
    """Return from when to when to look; first, last: where `between` leaves it open.

    Raises ValueError unless the first time is before the last.
    """
    if between is None:
        return first, last
    start, stop = between
    first, last = first if start is None else start, last if stop is None else stop
    if not first < last:
        raise ValueError(f"from {first:g} s to {last:g} s; need start < stop")
    return first, last


def chosen_of(
    world_size: int, numbers: Iterable[int] | None, kind: str = "rank"
) -> list[int]:
    """Return the ranks to look at, or the chunks, in their order; all if left out.

    Raises ValueError for one that is not there, and for none at all.
    """
    chosen = sorted({*(range(world_size) if numbers is None else numbers)})
    wrong = [number for number in chosen if number not in range(world_size)]
    if wrong or not chosen:
        what = f"{kind} {wrong[0]}" if wrong else "none"
        raise ValueError(
            f"{what} of {world_size} {kind}s; need 0 <= {kind} < {world_size}"
        )
    return chosen


def _latest(*times: np.ndarray) -> float:
    return float(np.nanmax(np.concatenate(times)))

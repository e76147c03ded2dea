"""`%%time` and `%%timeit` in a cell on ranks: the slowest rank first, all wait for it.

Here you can say how long the run of a cell took (`of_run`), and repeat it (`of_loops`).
"""

from __future__ import annotations

import ast
from statistics import median

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.basics.units import format_seconds
from collectives_lab.launch import Ranks, Run
from collectives_lab.notebook.options import Timing

ENOUGH = 0.02
"""Seconds after which a loop is long enough to be measured."""

MOST_LOOPS = 10_000
"""Loops of a run at most: every call in them is recorded."""


def of_run(run: Run) -> str:
    """Say how long a cell took on its ranks."""
    return _in_words(run.seconds)


def of_loops(
    ranks: Ranks, cell: str, on: list[int] | None, timeout: float | None, how: Timing
) -> str:
    """Repeat a cell on all of its ranks, as often on each, and say what a loop takes.

    The median of the runs on each rank. Without a number of loops there are so many
    that a run lasts for ENOUGH seconds on the slowest rank.
    """

    def measured(loops: int, runs: int) -> list[list[float] | None]:
        timer = f"__import__('timeit').Timer({cell!r}, globals=globals())"
        run = ranks.execute(f"{timer}.repeat({runs}, {loops})", on, timeout)
        return [
            None if seen is None else ast.literal_eval(seen["text/plain"])
            for seen in run.results
        ]

    loops = how.loops or 1
    while not how.loops and loops < MOST_LOOPS:
        if max(times[0] for times in measured(loops, 1) if times) >= ENOUGH:
            break
        loops *= 10
    per_loop = [
        None if times is None else median(times) / loops
        for times in measured(loops, how.runs)
    ]
    runs = "1 run" if how.runs == 1 else f"median of {how.runs} runs"
    return f"{_in_words(per_loop, ' a loop')} ({runs}, loops: {loops})"


def _in_words(seconds: list[float | None], each: str = "") -> str:
    """Return times by rank: that of the slowest one, and what the others took."""
    known = {rank: t for rank, t in enumerate(seconds) if t is not None}
    slowest = max(known, key=lambda rank: known[rank])
    words = f"{format_seconds(known[slowest])}{each} on rank {slowest}"
    others = {rank: t for rank, t in known.items() if rank != slowest}
    if not others:
        return words
    low, high = (format_seconds(f(others.values())) for f in (min, max))
    span = low if low == high else f"{low} to {high}"
    return f"{words}, the slowest; {span} on {name_ranks([*others])}"

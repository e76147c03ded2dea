"""The clock of a plan, which numbers steps and knows no seconds.

Here you can tell whether a trace has one (`counts_steps`), and put its calls where they
are drawn (`in_steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collectives_lab.trace import Event, Trace


def counts_steps(trace: Trace) -> bool:
    """Return whether the times of a trace number its steps, and are no seconds."""
    return trace.meta.get("clock") == "steps"


def in_steps(events: Sequence[Event]) -> list[Event]:
    """Return planned calls as they are drawn: each takes its step, done at its end.

    A plan's clock has two ticks a step: at the first a rank calls, at the next it
    waits. Steps in which nobody does anything are not counted.
    """
    steps = [(event.issued or 0.0) // 2 for event in events]
    number = {step: n for n, step in enumerate(sorted({*steps}), 1)}
    return [
        replace(e, issued=number[s] - 0.45, waited=None, completed=number[s] + 0.45)
        for e, s in zip(events, steps, strict=True)
    ]

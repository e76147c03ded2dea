"""The clock of a plan, which numbers steps and knows no seconds.

Here you can ask whether a trace has one (`counts_steps`), and place its calls on it
(`in_steps`).
"""

from __future__ import annotations

import numpy as np

from collectives_lab.trace import Trace


def counts_steps(trace: Trace) -> bool:
    """Return whether the times of a trace number its steps, and are no seconds."""
    return trace.meta.get("clock") == "steps"


def in_steps(issued: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when planned calls are drawn as issued, waited for and completed.

    A plan's clock has two ticks a step: at the first a rank calls, at the next it
    waits. Each call takes its step and is done at its end; nobody knows when it waits.
    Steps in which nobody does anything are not counted.
    """
    steps = issued // 2
    known = np.unique(steps[~np.isnan(steps)])
    number = np.where(np.isnan(steps), np.nan, np.searchsorted(known, steps) + 1.0)
    return number - 0.45, np.full(len(issued), np.nan), number + 0.45

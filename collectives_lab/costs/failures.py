"""What failures cost a training run, by the time between two checkpoints.

Here you can ask for the best interval (`best_interval`, the formula of Young), and how
the time divides into training that counts, checkpoints, repeated steps and restarts
(`shares_of_time`). Everything takes numbers or numpy arrays that broadcast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from collectives_lab.costs.training import Value


class Shares(NamedTuple):
    """Parts of the whole time, whose sum is 1."""

    effective: Value
    checkpoints: Value
    repeated: Value
    restarts: Value

    @property
    def lost(self) -> Value:
        """Return the share that is no effective training."""
        return 1 - self.effective


def best_interval(checkpoint: Value, between_failures: Value) -> Value:
    """Return the seconds of training between two checkpoints that lose the least.

    checkpoint: seconds for which one stops training. between_failures: their mean
    seconds. Young 1974; good where a checkpoint is much shorter than the interval, and
    the interval much shorter than the time between failures.
    """
    return np.sqrt(2 * checkpoint * between_failures)


def shares_of_time(
    interval: Value, checkpoint: Value, between_failures: Value, restart: Value = 0.0
) -> Shares:
    """Divide the time of a run with failures at random times.

    interval: seconds of training between two checkpoints. restart: seconds from a
    failure to the first step after it, in which nothing fails. A failure destroys what
    was trained since the last whole checkpoint, or while it was written.
    """
    cycle = between_failures + restart
    whole = 1 / np.expm1((interval + checkpoint) / between_failures)
    effective, checkpoints = whole * interval / cycle, whole * checkpoint / cycle
    restarts = restart / cycle
    return Shares(effective, checkpoints, 1 - effective - checkpoints - restarts,
                  restarts)  # fmt: skip

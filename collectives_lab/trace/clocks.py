"""Clocks of several hosts, synchronized after the fact.

Every host counts time from a different origin and at its own rate, so times of
different hosts cannot be compared directly. A `Reading` bounds the offset of a clock
from rank 0's; a `Clock` made of readings converts a rank's times to those of rank 0,
and bounds the error. `clock_readings` takes the readings. Method:
Cristian, Probabilistic clock synchronization, 1989, with the readings of several ranks
intersected as in Marzullo and Owicki, Maintaining the time in a distributed system,
1983.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

DRIFT = 1e-3
"""Seconds a second by which two clocks may drift: Linux steers each by at most 500 ppm
(adjtimex(2), `tolerance`)."""


class Reading(NamedTuple):
    """The offset from a clock to rank 0's, between `low` and `high`, in seconds.

    at: the time of the reading on that clock.
    """

    at: float
    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def error(self) -> float:
        """Return the largest error of the middle."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Clock:
    """A clock with its readings against rank 0's: one, or one before and one after.

    Between two readings the rate of the clock is taken as constant, so the offset
    changes linearly.
    """

    readings: Sequence[Reading]

    @classmethod
    def of(cls, ranks: Sequence[Sequence[Reading]], is_reference: bool) -> Clock:
        """Combine the readings of all ranks that share a clock.

        is_reference: whether the clock has the name of rank 0's; if no reading
        contradicts that, its offset is 0.
        """
        readings = [_intersection(column) for column in zip(*ranks, strict=False)]
        if is_reference and all(r.low <= 0 <= r.high for r in readings):
            readings = [Reading(r.at, 0.0, 0.0) for r in readings]
        return cls(readings)

    def at_reference(self, times: np.ndarray) -> np.ndarray:
        """Convert times of this clock to times of rank 0's clock."""
        read_times, offsets = (
            [r.at for r in self.readings],
            [r.middle for r in self.readings],
        )
        return times + np.interp(times, read_times, offsets)

    def error(self, latest: float) -> float:
        """Return the largest error of `at_reference` in seconds, up to time `latest`.

        With one reading only, it includes the largest drift until `latest`.
        """
        largest_error = max(reading.error for reading in self.readings)
        if len(self.readings) > 1 or largest_error == 0:
            return largest_error
        return largest_error + DRIFT * max(0.0, latest - self.readings[0].at)

    @property
    def drift(self) -> float:
        """Return the seconds a second that it loses against rank 0's; 0 if unknown."""
        first, last = self.readings[0], self.readings[-1]
        elapsed = last.at - first.at
        return (last.middle - first.middle) / elapsed if elapsed > 0 else 0.0


def _intersection(readings: Sequence[Reading]) -> Reading:
    """Intersect the readings of one clock by several ranks at about one time."""
    at = sum(r.at for r in readings) / len(readings)
    low, high = max(r.low for r in readings), min(r.high for r in readings)
    # The intersection is empty if the drift exceeds the bounds: then low and high swap.
    return Reading(at, min(low, high), max(low, high))

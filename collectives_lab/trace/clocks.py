"""Clocks of several hosts, brought to one.

Every host counts its time from its own beginning and at its own pace, so times of
different hosts cannot be compared as they are. A `Reading` says how far a clock is from
rank 0's, between two bounds; a `Clock` made of readings turns a rank's times into those
of rank 0, and knows how wrong they may be. `clock_readings` takes the readings. Method:
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
"""Seconds a second that two clocks may part: Linux steers each by 500 ppm at most
(adjtimex(2), `tolerance`)."""


class Reading(NamedTuple):
    """What must be added to a clock to get rank 0's: from `low` to `high`.

    at: when it was read, on that clock. All in seconds.
    """

    at: float
    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def error(self) -> float:
        """What the middle may be wrong by."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Clock:
    """A clock beside rank 0's, by readings: one, or one before and one after.

    Between two readings the clock is taken to go evenly, so that the distance changes
    linearly.
    """

    readings: Sequence[Reading]

    @classmethod
    def of(cls, ranks: Sequence[Sequence[Reading]], is_reference: bool) -> Clock:
        """The one clock that these ranks share, by all their readings.

        is_reference: whether it says to be rank 0's own. That is believed unless a
        reading is against it.
        """
        readings = [_intersection(column) for column in zip(*ranks, strict=False)]
        if is_reference and all(r.low <= 0 <= r.high for r in readings):
            readings = [Reading(r.at, 0.0, 0.0) for r in readings]
        return cls(readings)

    def at_reference(self, times: np.ndarray) -> np.ndarray:
        """Times of this clock as rank 0's clock would have had them."""
        at, ahead = [r.at for r in self.readings], [r.middle for r in self.readings]
        return times + np.interp(times, at, ahead)

    def error(self, latest: float) -> float:
        """Seconds that `at_reference` may be wrong by, for times up to `latest`.

        With one reading only, what two clocks may part by until then is in it.
        """
        widest = max(reading.error for reading in self.readings)
        if len(self.readings) > 1 or widest == 0:
            return widest
        return widest + DRIFT * max(0.0, latest - self.readings[0].at)

    @property
    def drift(self) -> float:
        """Seconds a second by which it loses against rank 0's; 0 where nobody knows."""
        first, last = self.readings[0], self.readings[-1]
        gone = last.at - first.at
        return (last.middle - first.middle) / gone if gone > 0 else 0.0


def _intersection(readings: Sequence[Reading]) -> Reading:
    """What several ranks found of one clock at about one time, together."""
    at = sum(r.at for r in readings) / len(readings)
    low, high = max(r.low for r in readings), min(r.high for r in readings)
    # Empty where clocks part faster than the messages took: then as far as it is empty.
    return Reading(at, min(low, high), max(low, high))

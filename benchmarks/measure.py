"""Samples, their spread, and the rows of the table.

Here you can `interleave` measurements so that a drift of the machine affects all of
them, and report the result in a `Row`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "MB": 1e6, "%": 1e-2}


def interleave(
    *sides: Callable[[], float], rounds: int, runs: int = 1, pause: float = 0.0
) -> list[list[float]]:
    """Measure each side in turn, `runs` at a time, `rounds` times; return the samples.

    pause: seconds of rest before each measurement. One of each side comes first and is
    dropped, and every other round goes backwards, so that no side always comes after
    the same one.
    """
    samples: list[list[float]] = [[] for _ in sides]
    for side in sides:
        side()
    for number in range(rounds):
        order = list(zip(sides, samples, strict=True))
        for side, side_samples in order[:: -1 if number % 2 else 1]:
            for _ in range(runs):
                time.sleep(pause)
                side_samples.append(side())
    return samples


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, median, high


def spread(samples: Sequence[float], unit: str, sign: str = "") -> str:
    """Write the median and, in brackets, the quartiles: `"24.1 ms (23.2 to 26)"`."""
    low, median, high = (value / _SCALES[unit] for value in quartiles(samples))
    form = sign + (".2f" if abs(median) < 1 else ".3g" if abs(median) < 100 else ".0f")
    return f"{median:{form}} {unit} ({low:{form}} to {high:{form}})"


@dataclass(frozen=True)
class Row:
    """A line of the table, with samples in seconds or bytes, printed in `unit`.

    compared: ours against the peer's, in words. target: the target, in words.
    """

    figure: str
    what: str
    unit: str
    ours: Sequence[float]
    target: str
    reached: bool
    peer_name: str = ""
    peer: Sequence[float] = ()
    compared: str = ""

    def cells(self) -> list[str]:
        """Return the texts of the columns."""
        peer = f"{self.peer_name}: {spread(self.peer, self.unit)}" if self.peer else ""
        reached = "yes" if self.reached else "**no**"
        ours = spread(self.ours, self.unit)
        return [self.what, ours, peer, self.compared, self.target, reached]


def times_faster(ours: Sequence[float], peer: Sequence[float]) -> float:
    """Return the peer's median over ours."""
    return statistics.median(peer) / statistics.median(ours)

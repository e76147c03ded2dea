"""How true predictions are: the `score` of some, and the `quantile` of their errors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Predicted(Protocol):
    """A measurement and its prediction, as `Compared` and `Step` are."""

    @property
    def ratio(self) -> float:
        """Return predicted over measured."""
        ...

    @property
    def is_covered(self) -> bool:
        """Return whether the measurement lies in the range of its prediction."""
        ...


@dataclass(frozen=True)
class Score:
    """How far a number of predictions is off.

    error: of the geometric mean of the factors, whichever side is more; 0.1 for 10 %.
    worst: the largest of them, likewise. near: the share of the predictions within
    15 %. covered: the share of the measurements in the range of their prediction.
    """

    count: int
    error: float
    worst: float
    near: float
    covered: float


def score(some: Iterable[Predicted]) -> Score:
    """Score predictions together, each alike."""
    some = tuple(some)
    off = np.array([abs(math.log(one.ratio)) for one in some])
    return Score(
        len(some),
        math.expm1(off.mean()),
        math.expm1(off.max()),
        float((off <= math.log(1.15)).mean()),
        sum(one.is_covered for one in some) / len(some),
    )


def quantile(weighted: Iterable[tuple[float, float]], share: float) -> float:
    """Return the smallest value that so much of the weight does not exceed.

    weighted: values, each with its weight.
    """
    values, weights = zip(*sorted(weighted), strict=True)
    reached = np.cumsum(weights)
    return float(values[np.searchsorted(reached, share * reached[-1] - 1e-9)])

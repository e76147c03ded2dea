"""The constants of a step of training, fitted without the fold that they predict.

Here: `fit`, which finds them; `FITTED`, what it found; and `spread`, how far forecasts
of other folds were off, which is the range of the next one.

There are three: for each class of GPU the share of its peak that products attain, and
for all the share of the memory's rate. A class's share makes its median row right; the
memory's is the one of a grid that leaves the rows least off. A class is fitted on rows
without ZeRO-3 if it has any: where parameters are gathered, a step tells of a
framework's gathers too. Sets count alike, however many rows they have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

from collectives_lab.strategies import CONSTANTS, Constants, Forecast, forecast
from collectives_lab.truth.scoring import quantile
from collectives_lab.truth.step_settings import Settings, settings

MEMORY = tuple(n / 20 for n in range(10, 21))
"""Shares of the memory's rate to choose from: from a half to all of it."""

FITTED = {
    "": CONSTANTS,
    "narayanan": Constants({"A100": 0.782, "H100": 0.635}, 0.55),
    "korthikanti": Constants({"A100": 0.783, "H100": 0.635}, 0.55),
    "titan-8b-fsdp": Constants({"A100": 0.782, "H100": 0.635}, 0.55),
    "mosaic-a100-40": Constants({"A100": 0.782, "H100": 0.635}, 0.55),
    "llama3": Constants({"A100": 0.782, "H100": 0.616}, 0.55),
}
"""By the fold that was left out; "" for none. A test fits them again."""


def fitted_on(without: str) -> tuple[Settings, ...]:
    """Return the rows that constants are fitted on where a fold is left out."""
    seen = [one for one in settings() if one.fold != without]
    chosen: list[Settings] = []
    for gpu in sorted({one.cluster.gpu for one in seen}):
        rows = [one for one in seen if one.cluster.gpu == gpu]
        chosen += [one for one in rows if one.strategy.zero < 3] or rows
    return tuple(chosen)


def fit(without: str = "") -> Constants:
    """Fit the constants on all scored steps but those of a fold."""
    rows = fitted_on(without)
    fits = [fit_matrix(rows, memory) for memory in MEMORY]
    return min(fits, key=lambda constants: _off(rows, constants))


def fit_matrix(rows: Sequence[Settings], memory: float) -> Constants:
    """Fit each class's share of the peak by halving, the memory's share given."""
    shares = {}
    for gpu in sorted({one.cluster.gpu for one in rows}):
        own = [one for one in rows if one.cluster.gpu == gpu]
        low, high = 0.25, 1.0
        for _ in range(12):
            shares[gpu] = math.sqrt(low * high)
            errors = [error(one, Constants(shares, memory)) for one in own]
            slower = quantile(zip(errors, weights(own), strict=True), 0.5) > 0
            low, high = (low, shares[gpu]) if slower else (shares[gpu], high)
    return Constants({gpu: round(share, 3) for gpu, share in shares.items()}, memory)


def _off(rows: Sequence[Settings], constants: Constants) -> float:
    errors = [abs(error(one, constants)) for one in rows]
    return float(np.average(errors, weights=weights(rows)))


def error(one: Settings, constants: Constants) -> float:
    """Return the logarithm of measured over predicted seconds."""
    return math.log(one.seconds / _forecast(one, constants).seconds)


def _forecast(one: Settings, constants: Constants) -> Forecast:
    return forecast(one.strategy, one.cluster, constants)


def weights(rows: Sequence[Settings]) -> list[float]:
    """Return a weight a row, so that all sets count alike."""
    count = Counter(one.row.set for one in rows)
    return [1 / count[one.row.set] for one in rows]


@cache
def spread(without: str = "") -> tuple[float, float]:
    """Return the factors of low and high, which hold four in five rows of each set.

    Of each, since a new set is off in a way of its own. Sets of the fold that is left
    out do not count, nor rows that no measurement supports: their range is wider.
    """
    errors: dict[str, list[float]] = {}
    for one in settings():
        if one.fold != without and not _forecast(one, CONSTANTS).unsupported:
            off = abs(error(one, FITTED[one.fold]))
            errors.setdefault(one.row.set, []).append(off)
    alike = (quantile(((off, 1.0) for off in some), 0.8) for some in errors.values())
    factor = math.exp(max(alike))
    return 1 / factor, factor

"""The fit of a step's constants to published steps, each fold once left out.

Here: `fit`, which finds them; `spread`, how far forecasts of other folds were off,
which is the range of the next one; and `write` (or `python -m
collectives_lab.truth.step_fit`), which writes both where `strategies` reads them.

There are three: for each class of GPU the share of its peak that products attain, and
for all the share of the memory's rate. A class's share makes its median row right; the
memory's is the one of a grid that leaves the rows least off. A class is fitted on rows
without ZeRO-3 if it has any: where parameters are gathered, a step tells of a
framework's gathers too. Sets count alike, however many rows they have.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from collectives_lab.strategies import Constants, fitted, forecast
from collectives_lab.truth.scoring import quantile
from collectives_lab.truth.step_settings import Settings, settings

MEMORY = tuple(n / 20 for n in range(10, 21))
"""Shares of the memory's rate to choose from: from a half to all of it."""

LEAST = 1.2
"""No range is narrower either way, an assumption: six sets cannot show that the next
one, of another framework, lies nearer."""


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
    guess = forecast(one.strategy, one.cluster, constants)
    return math.log(one.seconds / guess.seconds)


def weights(rows: Sequence[Settings]) -> list[float]:
    """Return a weight a row, so that all sets count alike."""
    count = Counter(one.row.set for one in rows)
    return [1 / count[one.row.set] for one in rows]


def folds() -> list[str]:
    """Return the folds of the scored steps, in the order of their settings."""
    return list(dict.fromkeys(one.fold for one in settings()))


def spread(by_fold: Mapping[str, Constants], without: str = "") -> float:
    """Return the factor of low and high, which holds four in five rows of each set.

    Of each, since a new set is off in a way of its own. Sets of the fold that is left
    out do not count, nor rows that no measurement supports: their range is wider.
    """
    errors: dict[str, list[float]] = {}
    for one in settings():
        guess = forecast(one.strategy, one.cluster, by_fold[one.fold])
        if one.fold != without and not guess.unsupported:
            off = abs(math.log(guess.seconds / one.seconds))
            errors.setdefault(one.row.set, []).append(off)
    alike = (quantile(((off, 1.0) for off in some), 0.8) for some in errors.values())
    return max(LEAST, math.exp(max(alike)))


def write() -> None:
    """Fit all and write constants.csv of `strategies`."""
    by_fold = {fold: fit(fold) for fold in ("", *folds())}
    gpus = sorted(by_fold[""].matrix)
    with fitted.PATH.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["left_out", *gpus, "memory", "spread"])
        for fold, one in by_fold.items():
            shares = [one.matrix[gpu] for gpu in gpus]
            row = [*shares, one.memory, round(spread(by_fold, fold), 3)]
            table.writerow([fold, *row])
    fitted.read.cache_clear()
    fitted.constants.cache_clear()


if __name__ == "__main__":
    write()

"""The constants of a step of training that measurements gave, and how far it was off.

Here you can read the `constants` of all sets that are scored, or of all but one fold,
and the `spread` of forecasts with them. `truth.step_fit` writes both.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PATH = Path(__file__).with_name("constants.csv")


@dataclass(frozen=True)
class Constants:
    """The fitted part of a forecast.

    matrix: share of the peak that products attain, by class of GPU. memory: share of
    the memory's rate that passes over it attain. A large product attains some 70 % and
    a large pass 80 to 90 %, so less than that also stands for kernels that start late
    and ranks that are late.
    """

    matrix: Mapping[str, float]
    memory: float

    def share(self, gpu: str) -> float:
        """Return the share of a class; that of an unknown one is the mean of all."""
        known = list(self.matrix.values())
        return self.matrix.get(gpu, math.exp(sum(map(math.log, known)) / len(known)))


@cache
def constants(left_out: str = "") -> Constants:
    """Return the constants fitted on all scored sets but those of a fold."""
    row = read()[left_out]
    gpus = row.keys() - {"memory", "spread"}
    return Constants({gpu: row[gpu] for gpu in sorted(gpus)}, row["memory"])


def spread(left_out: str = "") -> float:
    """Return the factor of low and high, of sets that were left out of their fit.

    left_out: a fold whose own rows do not count.
    """
    return read()[left_out]["spread"]


@cache
def read() -> dict[str, dict[str, float]]:
    """Return the table's rows by the fold that was left out, numbers by column."""
    with PATH.open(newline="", encoding="utf-8") as file:
        return {
            row.pop("left_out"): {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        }

"""The constants that measurements gave, and how far predictions with them were off.

Here you can read the `constants` of all sets that are scored, or of all but one fold,
and the `ranges` that hold four measurements in five. `truth.call_fit` writes both.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Constants:
    """The fitted part of the model.

    links: the part of their rate that the links inside a server attain. fill: bytes
    for each GPU of a pipeline, which a tensor must exceed for the pipeline to be full,
    in Simple with a buffer of 4 MiB. rendezvous: seconds that a message of 32 KiB and
    more waits for its receiver on EFA. blackwell: the part by which messages of trees
    over NVLink take longer in servers of Blackwell than in the table. lines: seconds
    that a message of 8 KiB and more takes longer in LL than a short one, over servers.
    """

    links: float
    fill: float
    rendezvous: float
    blackwell: float
    lines: float


@dataclass(frozen=True)
class Ranges:
    """The factors within which four measurements in five lay, by kind and size.

    large: 64 MiB and more.
    """

    inside_small: float
    inside_large: float
    across_small: float
    across_large: float

    def of(self, nodes: int, nbytes: float) -> float:
        """Return the factor for a call on so many servers."""
        if nodes == 1:
            return self.inside_large if nbytes >= LARGE else self.inside_small
        return self.across_large if nbytes >= LARGE else self.across_small


LARGE = 64 * 2**20
"""Bytes from which a call is bound by its rate."""


def _table(name: str) -> Iterator[tuple[str, list[float]]]:
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        for row in csv.reader(file):
            if row[0] != "left_out":
                yield row[0], [float(value) for value in row[1:]]


@cache
def constants(left_out: str = "") -> Constants:
    """Return the constants fitted on all scored sets but those of a fold."""
    return Constants(*dict(_table("constants.csv"))[left_out])


@cache
def ranges(left_out: str = "") -> Ranges:
    """Return the ranges of predictions for sets that were left out of their fit.

    left_out: a fold whose own rows do not count.
    """
    return Ranges(*dict(_table("ranges.csv"))[left_out])

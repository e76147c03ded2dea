"""The two tables of the package: measurements with their sources, and the split."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent

KINDS = ("one node", "across nodes", "later", "step", "other")
"""What a set measures: a verb in one node or across nodes, the same in a set that was
read when the model stood (later), a step of training, or neither."""


@dataclass(frozen=True)
class Row:
    """A published measurement.

    source, where: the citation and the place in it. what: the quantity. parameters: of
    the machine and the test, as texts by name. value: in `unit`. basis: how the source
    was read (`read`, `read (second hand)`, `known, not read here`).
    """

    source: str
    where: str
    what: str
    parameters: dict[str, str]
    value: float
    unit: str
    basis: str
    set: str


@dataclass(frozen=True)
class Split:
    """A set of measurements: of one source and one machine.

    kind: one of KINDS. scored: whether bars hold for it, which was decided before the
    first fit. fold: the sets that are left out together where one of them is predicted;
    "" for a set that no constant is fitted to. reason: why it is not scored, or what to
    know of its fold.
    """

    set: str
    kind: str
    machine: str
    scored: bool
    fold: str
    reason: str


def table(name: str) -> Iterator[dict[str, str]]:
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


@cache
def rows() -> tuple[Row, ...]:
    """Return all published measurements, in the order of the file."""
    return tuple(
        Row(
            row["source"],
            row["where in source"],
            row["what"],
            dict(part.split("=", 1) for part in row["parameters"].split(";")),
            float(row["value"]),
            row["unit"],
            row["basis"],
            row["set"],
        )
        for row in table("published.csv")
    )


@cache
def split() -> dict[str, Split]:
    """Return the split by the name of a set."""
    return {
        row["set"]: Split(
            row["set"],
            row["kind"],
            row["machine"],
            row["scored"] == "yes",
            row["fold"],
            row["reason"],
        )
        for row in table("split.csv")
    }

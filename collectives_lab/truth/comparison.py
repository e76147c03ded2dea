"""Each published call beside its prediction, made without the fold of its set.

Here you can compare them row by row (`compared`), by set (`by_set`), as a table
(`report`) or for a plot (`by_size`). Sets that are not scored have a table with their
reasons (`not_scored`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_seconds
from collectives_lab.libraries import version_of
from collectives_lab.predictions import Prediction, constants, shape_of
from collectives_lab.predictions.fitted import LARGE
from collectives_lab.predictions.model import estimate
from collectives_lab.predictions.prediction import machine_of, with_range
from collectives_lab.predictions.tools import offset
from collectives_lab.truth.calls import Call, calls
from collectives_lab.truth.published import KINDS, split
from collectives_lab.truth.scoring import Score, score


@dataclass(frozen=True)
class Compared:
    """A published call, and its prediction by constants that have not seen it."""

    call: Call
    prediction: Prediction

    @property
    def ratio(self) -> float:
        """Return predicted over measured."""
        return self.prediction.seconds / self.call.seconds

    @property
    def is_covered(self) -> bool:
        """Return whether the measurement lies between `low` and `high`."""
        return self.prediction.low <= self.call.seconds <= self.prediction.high


@cache
def compared() -> tuple[Compared, ...]:
    """Return all calls of sets with a fold with their predictions, as in the table."""
    return tuple(Compared(call, _predicted(call)) for call in calls())


def _predicted(call: Call) -> Prediction:
    machine = machine_of(call.fabric)
    shape = shape_of(call.fabric, machine)
    estimated = estimate(
        call.verb,
        call.nbytes,
        machine,
        shape,
        constants(call.fold),
        version_of(call.library),
        call.algorithm,
    )
    added = offset(call.tool)
    return with_range(
        call.verb, call.nbytes, machine, shape, estimated, added, call.fold
    )


def by_set(rows: Iterable[Compared] | None = None) -> dict[tuple[str, bool], Score]:
    """Return the score of each set by its name and whether its calls are large.

    Large: of 64 MiB and more.
    """
    groups: dict[tuple[str, bool], list[Compared]] = defaultdict(list)
    for row in compared() if rows is None else rows:
        groups[row.call.row.set, row.call.nbytes >= LARGE].append(row)
    return {key: score(some) for key, some in groups.items()}


def by_size(kind: str) -> dict[str, tuple[list[float], list[float]]]:
    """Return by set of a kind the bytes and the ratios of its calls, for a plot."""
    by_name: dict[str, tuple[list[float], list[float]]] = {}
    for row in compared():
        name = row.call.row.set
        if split()[name].kind == kind:
            sizes, ratios = by_name.setdefault(name, ([], []))
            sizes.append(row.call.nbytes)
            ratios.append(row.ratio)
    return by_name


def report() -> Table:
    """Return the errors of all sets with a fold as a table, by kind of set."""
    rows = [
        [
            split()[name].kind,
            name,
            "64 MiB and more" if is_large else "less",
            of_set.count,
            f"{100 * of_set.error:.1f} %",
            f"{100 * of_set.worst:.0f} %",
            f"{100 * of_set.covered:.0f} %",
        ]
        for (name, is_large), of_set in by_set().items()
    ]
    head = ("kind", "set", "bytes", "calls", "error", "worst", "in range")
    return table(head, *sorted(rows, key=lambda row: KINDS.index(row[0])))


def details(name: str) -> Table:
    """Return each call of a set with a fold: measured, predicted, and the ratio."""
    some = [row for row in compared() if row.call.row.set == name]
    if not some:
        raise ValueError(f"no set with predictions is named {name!r}; {_known()}")
    return table(
        ("verb", "bytes", "measured", "predicted", "ratio", "low", "high", "by"),
        *(
            [
                row.call.verb,
                int(row.call.nbytes),
                format_seconds(row.call.seconds),
                format_seconds(row.prediction.seconds),
                f"{row.ratio:.2f}",
                format_seconds(row.prediction.low),
                format_seconds(row.prediction.high),
                f"{row.prediction.algorithm} {row.prediction.protocol}",
            ]
            for row in some
        ),
    )


def _known() -> str:
    names = [name for name, one in split().items() if one.fold]
    return f"there are {', '.join(names)}"


def not_scored() -> Table:
    """Return the sets that are neither scored nor fitted, with the reason."""
    rows = [[s.set, s.machine, s.reason] for s in split().values() if not s.fold]
    return table(("set", "machine", "why it is not scored"), *rows)

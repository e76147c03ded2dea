"""The fit of the model's constants to published calls, each fold once left out.

Here you can fit the constants (`fitted`) and write the two tables of `predictions`
(`write`, or `python -m collectives_lab.truth.call_fit`): the constants of all folds and
of all but one, and the ranges of predictions whose fold was left out. The fit makes
log(predicted / measured) small: its root mean square over the calls of a set, large or
small, in the mean over sets.
"""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, astuple, fields, replace

from collectives_lab import predictions
from collectives_lab.libraries import version_of
from collectives_lab.predictions import Constants, Ranges, shape_of
from collectives_lab.predictions.fitted import FOLDER, LARGE
from collectives_lab.predictions.model import estimate
from collectives_lab.predictions.prediction import machine_of
from collectives_lab.predictions.tools import offset
from collectives_lab.truth.calls import Call, calls
from collectives_lab.truth.scoring import quantile

START = Constants(
    links=0.95,
    fill=5e6,
    rendezvous=1e-5,
    blackwell=0.01,
    lines=3e-7,
)
"""Where a fit begins; a constant that none of its sets shows stays there."""

SHARE = 0.8
"""The part of all calls that a range holds."""


def ratio(call: Call, constants: Constants) -> float:
    """Return predicted over measured seconds of a call."""
    machine = machine_of(call.fabric)
    estimated = estimate(
        call.verb,
        call.nbytes,
        machine,
        shape_of(call.fabric, machine),
        constants,
        version_of(call.library),
        call.algorithm,
    )
    return (estimated.seconds + offset(call.tool)) / call.seconds


def loss(some: Iterable[Call], constants: Constants) -> float:
    """Return the root mean square of log ratio, its mean over sets and two sizes."""
    groups: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for call in some:
        error = math.log(ratio(call, constants))
        groups[call.row.set, call.nbytes >= LARGE].append(error)
    means = [math.hypot(*errors) / len(errors) ** 0.5 for errors in groups.values()]
    return sum(means) / len(means)


def fitted(some: Sequence[Call]) -> Constants:
    """Return the constants with the least loss: one after the other, ever finer."""
    best, least = START, loss(some, START)
    step = 0.2
    while step > 0.002:
        moved = False
        for name in asdict(best):
            for factor in (1 + step, 1 / (1 + step)):
                value = getattr(best, name) * factor
                if name == "links":
                    value = min(value, 1.0)
                candidate = replace(best, **{name: value})
                if (now := loss(some, candidate)) < least:
                    best, least, moved = candidate, now, True
        step = step if moved else step / 2
    return best


def without(fold: str) -> Constants:
    """Return the constants fitted on all calls but those of a fold."""
    return fitted([call for call in calls() if call.fold != fold])


def folds() -> list[str]:
    """Return the folds of the calls, in the order of the table."""
    return list(dict.fromkeys(call.fold for call in calls()))


def ranged(by_fold: dict[str, Constants], left_out: str) -> Ranges:
    """Return the factors that hold SHARE of the calls predicted without their fold.

    Calls of one set err alike, so a set of n counts as the square root of n.
    """
    errors: dict[tuple[bool, bool], list[tuple[float, float]]] = defaultdict(list)
    kept = [call for call in calls() if call.fold != left_out]
    sizes = Counter((call.row.set, call.nbytes >= LARGE) for call in kept)
    for call in kept:
        nodes = shape_of(call.fabric, machine_of(call.fabric)).nodes
        error = abs(math.log(ratio(call, by_fold[call.fold])))
        is_large = call.nbytes >= LARGE
        weight = sizes[call.row.set, is_large] ** -0.5
        errors[nodes > 1, is_large].append((error, weight))
    keys = [(False, False), (False, True), (True, False), (True, True)]
    return Ranges(*(math.exp(quantile(errors[key], SHARE)) for key in keys))


def write() -> None:
    """Fit all and write constants.csv and ranges.csv of `predictions`."""
    left_out = ["", *folds()]
    with ProcessPoolExecutor() as pool:
        everything = dict(zip(left_out, pool.map(without, left_out), strict=True))
    by_fold = {fold: everything[fold] for fold in folds()}
    _write("constants.csv", Constants, everything)
    _write("ranges.csv", Ranges, {fold: ranged(by_fold, fold) for fold in everything})
    predictions.constants.cache_clear()
    predictions.ranges.cache_clear()


def _write(
    name: str,
    kind: type[Constants | Ranges],
    rows: Mapping[str, Constants | Ranges],
) -> None:
    with (FOLDER / name).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["left_out", *(field.name for field in fields(kind))])
        for fold, values in rows.items():
            table.writerow([fold, *(f"{value:.4g}" for value in astuple(values))])


if __name__ == "__main__":
    write()

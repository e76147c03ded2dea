"""Published steps of training beside forecasts that have not seen them, and how true.

Here: `steps`, a row for each scored step, and `scores`, a row for each set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_seconds
from collectives_lab.strategies import Forecast, forecast
from collectives_lab.strategies.fitted import constants, spread
from collectives_lab.truth.published import split
from collectives_lab.truth.scoring import Score, score
from collectives_lab.truth.step_fit import fitted_on
from collectives_lab.truth.step_settings import Settings, settings

CALCULON = (1.40, 1.14, 18.03, 13.64, 49.89, 34.47, 90.08, 66.04)
"""Seconds of the rows of `korthikanti` by Calculon, whose constants have seen them:
printed by `calculon llm-validation`, calculon-ai/calculon@caa4b11."""


@dataclass(frozen=True)
class Step:
    """A published step and its forecast, by constants fitted without its fold.

    fitted: the sets that they were fitted on. theirs: another model's seconds, or None.
    """

    settings: Settings
    forecast: Forecast
    fitted: tuple[str, ...]
    theirs: float | None = None

    @property
    def set(self) -> str:
        return self.settings.row.set

    @property
    def measured(self) -> float:
        return self.settings.seconds

    @property
    def predicted(self) -> float:
        return self.forecast.seconds

    @property
    def ratio(self) -> float:
        """Return predicted over measured."""
        return self.predicted / self.measured

    @property
    def is_covered(self) -> bool:
        """Return whether the measurement lies between low and high."""
        return self.forecast.low <= self.measured <= self.forecast.high

    @property
    def alone(self) -> bool:
        """Return whether nothing was fitted on its machine, only on other classes."""
        machine = split()[self.set].machine
        return machine not in {split()[name].machine for name in self.fitted}


class Steps(tuple[Step, ...]):
    """Steps, shown as a table."""

    def table(self) -> Table:
        """Return a row a step; a star where only other classes were fitted on."""
        rows = []
        for one in self:
            s, name = one.settings.strategy, one.set + "*" * one.alone
            near, far = format_seconds(one.forecast.low), one.forecast.high
            rows.append(
                [name, s.model.name, s.world_size, s.says()]
                + [format_seconds(one.measured), format_seconds(one.predicted)]
                + [f"{one.ratio:.2f}", f"{near} to {format_seconds(far)}"]
                + [format_seconds(one.theirs) if one.theirs else ""]
                + [", ".join(one.fitted)]
            )
        head = ["set", "model", "GPUs", "strategy", "measured", "predicted", "ratio"]
        return table([*head, "four in five", "Calculon", "fitted on"], *rows)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@cache
def steps() -> Steps:
    """Return every scored step of training beside its forecast."""
    compared: list[Step] = []
    for one in settings():
        guess = forecast(one.strategy, one.cluster, constants(one.fold))
        if not guess.unsupported:
            guess = replace(guess, factor=spread(one.fold))
        sets = tuple(dict.fromkeys(row.row.set for row in fitted_on(one.fold)))
        before = sum(step.set == one.row.set for step in compared)
        theirs = CALCULON[before] if one.row.set == "korthikanti" else None
        compared.append(Step(one, guess, sets, theirs))
    return Steps(compared)


def scores() -> dict[str, Score]:
    """Return the score of each set."""
    names = dict.fromkeys(one.set for one in steps())
    return {name: score(s for s in steps() if s.set == name) for name in names}


def step_report() -> Table:
    """Return the scores of all sets as a table."""
    rows = [
        ["step", name]
        + [one.count, *(f"{100 * e:.1f} %" for e in (one.error, one.worst))]
        + [f"{100 * share:.0f} %" for share in (one.near, one.covered)]
        for name, one in scores().items()
    ]
    head = ("kind", "set", "steps", "error", "worst", "within 15 %", "in range")
    return table(head, *rows)

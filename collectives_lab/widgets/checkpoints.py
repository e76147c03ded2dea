"""An explorer of checkpoints: what part of the time failures cost a training run.

Here you can turn the time of a checkpoint, the failures, the time of a restart and the
interval (`explore_checkpoints`), in a notebook and in an exported page.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from collectives_lab.costs.failures import Shares, best_interval, shares_of_time
from collectives_lab.plots.figure import INK, Diagram
from collectives_lab.plots.lines import lines
from collectives_lab.plots.series import SERIES
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.lookup import axes_of, full_table_of
from collectives_lab.widgets.words import number

DAY, HOUR, MINUTE = 86400, 3600, 60
CHECKPOINTS = (1, 2, 6, 15, 30, 60, 120, 300, 600)
FAILURES = (0.25, 0.5, 1, 2, 4, 8, 16, 32)
RESTARTS = tuple(MINUTE * n for n in (0, 1, 2, 5, 10, 20, 30, 60))
INTERVALS = (
    *(10, 15, 20, 30, 45),
    *(MINUTE * n for n in (1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 45)),
    *(HOUR * n for n in (1, 1.5, 2, 3, 4, 6, 8, 12, 24)),
)
NAMES = ("lost", "checkpoints", "repeated steps", "restarts")
DASHES = ("", "9 3", "9 3 2 3", "2 2")
TICKS = (10, 60, 600, 3600, 36_000)
LOWEST = 0.1
"""Per cent, at the bottom of the picture."""
SCRIPTS = ("units.js", "knobs.js", "lookup.js", "chart.js", "checkpoints.js")


class CheckpointExplorer(page.Explorer):
    """The share of the time that is lost, by the interval, under sliders."""

    scripts, function = SCRIPTS, "exploreCheckpoints"

    def __init__(
        self, checkpoint: float, failures: float, restart: float, interval: float
    ):
        self.checkpoint = knob(
            "checkpoint", "a checkpoint stops training for", CHECKPOINTS, checkpoint,
            duration)  # fmt: skip
        self.failures = knob("failures", "failures a day", FAILURES, failures, number)
        self.restart = knob("restart", "a restart takes", RESTARTS, restart, duration)
        self.interval = knob(
            "interval", "training between checkpoints", INTERVALS, interval, duration
        )
        self.knobs = self.checkpoint, self.failures, self.restart, self.interval

    @property
    def shares(self) -> Shares:
        """Return how the time divides where the sliders begin, at all intervals."""
        return shares_of_time(
            np.array(self.interval.values),
            self.checkpoint.value,
            DAY / self.failures.value,
            self.restart.value,
        )

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: sliders, shares of the time between restarts, and the
        best intervals.
        """
        turned = self.checkpoint, self.failures
        intervals = np.array(self.interval.values)

        def table(part: Callable[[Shares], Any]) -> list[Any]:
            return full_table_of(
                lambda c, f: part(shares_of_time(intervals, c, DAY / f)),
                turned,
                intervals,
            )

        restarts = np.array(self.restart.values)
        colors = SERIES[0], SERIES[1], SERIES[2], INK
        return {
            "names": NAMES,
            "looks": page.looks(colors, DASHES),
            "knobs": [vars(one) for one in self.knobs],
            "axes": axes_of(turned, intervals),
            "effective": table(lambda shares: shares.effective),
            "checkpoints": table(lambda shares: shares.checkpoints),
            "up": {
                "axes": axes_of((self.failures,), restarts),
                "table": full_table_of(
                    lambda f: 1 - shares_of_time(HOUR, 1, DAY / f, restarts).restarts,
                    (self.failures,),
                    restarts,
                ),
            },
            "best": [
                [self._best(c, f) for f in self.failures.values]
                for c in self.checkpoint.values
            ],
            "ticks": [[tick, duration(tick)] for tick in TICKS],
            "lowest": LOWEST,
        }

    @staticmethod
    def _best(checkpoint: float, failures: float) -> dict[str, Any]:
        """Return the interval of Young, in words too, and the effective share at it."""
        interval = float(best_interval(checkpoint, DAY / failures))
        shares = shares_of_time(interval, checkpoint, DAY / failures)
        return {
            "interval": interval,
            "text": duration(interval),
            "effective": float(shares.effective),
        }

    def words(self) -> str:
        """Return what is lost, and to what; `checkpointWords` says the same."""
        here = self.interval.start
        shares = self.shares
        best = self._best(self.checkpoint.value, self.failures.value)
        lost_at_best = 1 - best["effective"] * (1 - float(shares.restarts))
        lost, checkpoints, repeated = (
            number(100 * float(np.asarray(part)[here]))
            for part in (shares.lost, shares.checkpoints, shares.repeated)
        )
        return (
            f"With {self.interval.text} of training between two checkpoints, {lost} % "
            f"of the time is lost: {checkpoints} % to checkpoints, {repeated} % to "
            f"repeated steps and {number(100 * float(shares.restarts))} % to restarts. "
            f"Young's formula gives {best['text']}, where {number(100 * lost_at_best)} "
            "% is lost."
        )

    def diagram(self) -> Diagram:
        """Return the curves for what the sliders begin with."""
        intervals, shares = np.array(self.interval.values), self.shares
        parts = shares.lost, shares.checkpoints, shares.repeated, shares.restarts
        figure = lines(
            {
                name: (intervals, _drawn(part + 0 * intervals))
                for name, part in zip(NAMES, parts, strict=True)
            },
            caption=self.words(),
            width=8,
            xlabel="training between two checkpoints",
            ylabel="% of the time",
            xscale="log",
            yscale="log",
            ylim=(LOWEST, 100),
        )
        figure.axes[0].set_xticks(TICKS, [duration(tick) for tick in TICKS])
        best = best_interval(self.checkpoint.value, DAY / self.failures.value)
        figure.axes[0].axvline(float(best), color=INK, linewidth=1, linestyle=":")
        return figure


def explore_checkpoints(
    checkpoint: float = 60,
    failures: float = 8,
    restart: float = 600,
    interval: float = 1200,
) -> CheckpointExplorer:
    """Show what failures cost a training run under sliders, beginning with these.

    checkpoint, restart, interval: seconds; `costs.failures.shares_of_time` has their
    meaning. failures: a day.
    """
    return CheckpointExplorer(checkpoint, failures, restart, interval)


def duration(seconds: float) -> str:
    """Write a time as one reads a clock: `45 s`, `1.5 min`, `3 h`."""
    for scale, unit in ((HOUR, "h"), (MINUTE, "min")):
        if seconds >= scale:
            return f"{number(seconds / scale)} {unit}"
    return f"{number(seconds)} s"


def _drawn(share: Any) -> Any:
    """Return per cent; a share of nothing has no place on a logarithmic axis."""
    return np.where(share > 0, 100 * share, np.nan)

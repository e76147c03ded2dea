"""Ranks in a box: they run one program, and then one call of it after another."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from collectives_lab.wire.frames import Ran
from collectives_lab.wire.operations import EVERY_VERB
from collectives_lab.wire.outcome import Failure, Outcome
from collectives_lab.wire.program import Program
from collectives_lab.wire.switch import Outside, Schedule, Switch


class SealedRanks:
    """Ranks in a box that have run one program.

    status_of: returns how a rank ended, as `Box.status_of`. seconds: limit of the
    program, and again of all calls. until: when all of it is over at the latest.
    """

    def __init__(
        self,
        switch: Switch,
        status_of: Callable[[int], int | None],
        seconds: float,
        until: float,
    ):
        self.switch, self.status_of = switch, status_of
        self.seconds, self.until = seconds, until
        self.deadline = self._deadline()
        self.failure: Failure | None = None

    @property
    def at(self) -> tuple[str, int] | None:
        """The statement (cell, number) of a notebook that a rank alone came to."""
        return self.switch.lines[0].at

    @property
    def ran(self) -> Sequence[Ran]:
        """The report of rank 0 on a notebook's statements."""
        return self.switch.lines[0].ran

    def load(self, program: Program) -> None:
        """Run the program on every rank; what goes wrong stays in `failure`."""
        loaded = self.switch.load(program.to_bytes(), self.deadline)
        self.failure = self._explained(loaded)
        self.deadline = self._deadline()

    def _deadline(self) -> float:
        return min(time.monotonic() + self.seconds, self.until)

    def call(
        self,
        name: str,
        args: Sequence[Sequence[Any] | None],
        allowed: Collection[str] = EVERY_VERB,
        schedule: Schedule | None = None,
        outside: Outside | None = None,
    ) -> Outcome:
        """Call a function of the program on each rank with that rank's arguments.

        outside: what answers their questions. After a failure the ranks are of no more
        use: every later call gives the same.
        """
        if self.failure is not None:
            return self.switch.nothing(self.failure)
        schedule = schedule or Schedule()
        outcome = self.switch.call(
            name, args, allowed, schedule, self.deadline, outside
        )
        self.failure = self._explained(outcome.failure)
        return replace(outcome, failure=self.failure)

    def _explained(self, failure: Failure | None) -> Failure | None:
        """Return the failure, a death with how it came."""
        if failure is None or failure.kind != "died" or failure.rank is None:
            return failure
        status = self.status_of(failure.rank)
        return replace(failure, text=_death(status))


def _death(status: int | None) -> str:
    if status is None:
        return "it ended before it returned"
    if status >= 0:
        return f"it left with exit code {status} before it returned"
    name = signal.Signals(-status).name if -status in list(signal.Signals) else ""
    return f"it was ended by signal {-status} ({name or 'unknown'})"

"""The clocks of the hosts of a group, brought to the launcher's.

Here `HostClocks` reads them between jobs by short questions to the agents, and turns
the times that ranks report into ours. Ranks that share our clock are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from collectives_lab.launch.processes.job import Outcome
from collectives_lab.recorder import clock_readings
from collectives_lab.recorder.call_record import now
from collectives_lab.trace import table
from collectives_lab.trace.clocks import Clock, Reading

ROUNDS = 8
"""Questions to each clock: the quickest answers bound the error."""

Ask = Callable[[str, Sequence[int]], dict[int, Any]]
"""Asks a question of ranks and waits for their answers."""

_TIMES = ("started", "ended", "failed_at")


class HostClocks:
    """The readings of each rank's clock. names: of the clocks, by rank."""

    def __init__(self, names: Sequence[str]):
        own = clock_readings.name()
        self._ranks: dict[str, list[int]] = {}
        for rank, name in enumerate(names):
            if name != own:
                self._ranks.setdefault(name, []).append(rank)
        self._readings: dict[str, list[Reading]] = {name: [] for name in self._ranks}

    def read(self, ask: Ask) -> None:
        """Read each clock; its last two readings are kept."""
        for name, ranks in self._ranks.items():
            reading = _read(ask, ranks[0])
            if reading is not None:
                self._readings[name] = [*self._readings[name][-1:], reading]

    def align(self, outcome: Outcome) -> None:
        """Bring all times of an outcome to our clock, and say how well in `clocks`."""
        error = 0.0
        for name, ranks in self._ranks.items():
            if not self._readings[name]:
                continue
            clock = Clock(self._readings[name])
            for rank in ranks:
                for reports in (outcome.reports, outcome.progress):
                    if rank in reports:
                        reports[rank] = _shifted(reports[rank], clock)
            error = max(error, clock.error(clock.readings[-1].at))
        if self._ranks:
            outcome.clocks = {"error": error, "count": len(self._ranks) + 1}


def _read(ask: Ask, rank: int) -> Reading | None:
    """Return how far a rank's clock is from ours; None if it does not answer."""
    low, high, remote = -math.inf, math.inf, math.nan
    for _ in range(ROUNDS):
        sent = now()
        answers = ask("clock", [rank])
        arrived = now()
        if rank not in answers:
            return None
        remote = answers[rank]
        low, high = max(low, sent - remote), min(high, arrived - remote)
    return Reading(remote, low, high)


def _shifted(report: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """Return a report with its times on our clock."""
    own = {name: report[name] for name in _TIMES if name in report}
    there = clock.at_reference(np.array([*own.values()], dtype=float)).tolist()
    moved: dict[str, Any] = dict(zip(own, there, strict=True))
    if "events" in report:
        moved["events"] = table.moved(report["events"], clock.at_reference)
    return {**report, **moved}

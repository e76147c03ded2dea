"""The result of a job: a `Run`, made of the ranks' reports, or its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from collectives_lab.basics.errors import LabError
from collectives_lab.launch.job_errors import error_of
from collectives_lab.launch.launch_spec import LaunchSpec
from collectives_lab.launch.processes.job import Outcome
from collectives_lab.launch.rank.channel import unpack
from collectives_lab.launch.run_text import run_text
from collectives_lab.trace import Trace, table
from collectives_lab.trace.wire_bytes import wire_matrix


@dataclass(eq=False, repr=False)
class Run:
    """The result of a job on every rank.

    results: what the function returned, by rank (None on a rank that did not get
    there). output: what it printed, by rank. elapsed: seconds from the first rank's
    start to the last one's end. backend_reason: why this backend.
    """

    results: list[Any]
    output: list[str]
    world_size: int
    backend: str
    backend_reason: str
    elapsed: float
    _recorded: _Recorded

    def __repr__(self) -> str:
        return run_text(self)

    @property
    def seconds(self) -> list[float | None]:
        """How long each rank took, by rank; None for one that did not get to the
        end.
        """
        reports = self._recorded.reports
        return [
            reports[rank]["ended"] - reports[rank]["started"]
            if "ended" in reports.get(rank, {})
            else None
            for rank in range(self.world_size)
        ]

    @property
    def late(self) -> list[float]:
        """Seconds that the machine added to the calls of each rank on `fabric=`.

        Where they are many, what is felt is the machine and not the network.
        """
        reports = self._recorded.reports
        return [reports.get(r, {}).get("late", 0.0) for r in range(self.world_size)]

    @cached_property
    def trace(self) -> Trace:
        """What moved: every communication call of every rank."""
        return self._recorded.trace()


def finish(outcome: Outcome, spec: LaunchSpec) -> Run:
    """Return the Run of an outcome; raises the error that it reports."""
    result = _run_of(outcome, spec)
    if not outcome.failed:
        for rank in outcome.ranks:
            try:
                result.results[rank] = unpack(outcome.results[rank])
            except Exception as error:
                unreadable = LabError(
                    f"the result of rank {rank} arrived but cannot be read: {error}"
                )
                unreadable.run = result
                raise unreadable from error
        return result
    is_emulated = spec.fabric is not None
    failure = error_of(outcome, spec.world_size, spec.timeout, is_emulated)
    failure.run = result
    raise failure


def _run_of(outcome: Outcome, spec: LaunchSpec) -> Run:
    reports = outcome.reports
    all_reports = {**outcome.progress, **reports}
    times = [t for report in all_reports.values() for t in _times(report)]
    begun = min(times, default=0.0)
    return Run(
        [None] * spec.world_size,
        [transcript.text() for transcript in outcome.output],
        spec.world_size,
        spec.backend,
        spec.reason,
        max(times, default=0.0) - begun,
        _Recorded(spec.world_size, all_reports, begun, outcome.clocks),
    )


def _times(report: Mapping[str, Any]) -> list[float]:
    """Return when a rank began and ended; else when its calls did."""
    if "ended" in report:
        return [report["started"], report["ended"]]
    times = np.concatenate([report["events"].columns[name] for name in table.TIMES])
    return times[~np.isnan(times)].tolist()


@dataclass(frozen=True)
class _Recorded:
    """The reports of ranks, of which the trace is made when somebody asks for it."""

    world_size: int
    reports: Mapping[int, Mapping[str, Any]]
    begun: float
    clocks: Mapping[str, Any]

    def trace(self) -> Trace:
        """Return all that was recorded, with time counted from the first rank's
        start.
        """
        reports = [self.reports[rank] for rank in sorted(self.reports)]
        events = table.concatenate(r["events"] for r in reports if "events" in r)
        groups: dict[str, Sequence[int]] = {}
        for report in reports:
            groups |= report.get("groups", {})
        ranks = [self.reports.get(rank, {}) for rank in range(self.world_size)]
        wire = wire_matrix(
            [r.get("wire_before", {}) for r in ranks],
            [r.get("wire_after", {}) for r in ranks],
        )
        meta = {"clocks": dict(self.clocks)} if self.clocks else None
        events = table.moved(events, lambda times: times - self.begun)
        return Trace(self.world_size, *events, groups, wire, meta)

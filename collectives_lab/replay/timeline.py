"""The result of a replay: the virtual times of all calls, and their causes.

Here you can read from a Timeline the total time (`elapsed`), the time for which ranks
were blocked (`exposed`), the chain of steps that determined the end (`critical_path`),
and the trace with its new times (`trace`), which the same plots draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from collectives_lab.basics.units import format_seconds
from collectives_lab.fabrics import Fabric
from collectives_lab.replay.lane_program import Program, Times
from collectives_lab.replay.path import Step, critical_path
from collectives_lab.replay.phases import phases_of
from collectives_lab.trace import Event, Trace


class Timeline:
    """A trace in the virtual time of a fabric."""

    def __init__(self, trace: Trace, fabric: Fabric, program: Program, times: Times):
        self.source = trace
        self.fabric = fabric
        self._program = program
        self._times = times
        self._quantum = program.quantum

    @property
    def elapsed(self) -> float:
        """Return the seconds until the last rank and the last message have finished."""
        times = self._times
        last = max(times.clock.max(initial=0), times.end.max(initial=0))
        return float(last) * self._quantum

    @cached_property
    def trace(self) -> Trace:
        """The replayed trace with the times of the fabric in seconds.

        A call that never began, or never ended, has no time for that.
        """
        calls, times = self._program.calls, self._times
        phases = phases_of(self._program, times.end)
        begun = phases.begun[phases.phase]
        begun = np.where(begun < 0, -1, begun + phases.delay)
        waits = np.where(phases.begun < 0, -1, phases.begun + phases.length)
        waits = np.where(phases.closes < 0, -1, waits[phases.closes])
        ends = np.append(times.end, -1)  # the -1 is for calls without a message
        is_compute = self.source.is_op("compute")[calls.row]
        ended = np.where(is_compute, begun, ends[phases.message])
        columns = dict(self.source.columns)
        is_recorded = calls.row >= 0
        row = calls.row[is_recorded]
        seconds = np.zeros(len(self.source))
        seconds[row] = (
            calls.seconds[is_recorded] * self.fabric.pace[calls.rank[is_recorded]]
        )
        issued, waited, completed = (np.full(len(row), np.nan) for _ in range(3))
        issued[row] = self._seconds(begun[is_recorded])
        waited[row] = self._seconds(waits[is_recorded])
        completed[row] = self._seconds(ended[is_recorded])
        is_early = completed < waited
        completed[is_early] = waited[is_early]
        columns |= {
            "issued": issued - seconds,
            "waited": waited,
            "completed": completed,
        }
        source = self.source
        meta = {k: v for k, v in source.meta.items() if k != "clock"}
        meta |= {"fabric": self.fabric.name}
        return Trace(
            source.world_size, columns, source.texts, source.groups, source.wire, meta
        )

    def _seconds(self, quanta: np.ndarray) -> np.ndarray:
        return np.where(quanta < 0, np.nan, quanta * self._quantum)

    @property
    def events(self) -> Iterator[Event]:
        """Iterate over the calls with their new times, rank by rank."""
        return self.trace.events

    def exposed(self) -> list[float]:
        """Return the seconds for which each rank was blocked: exposed communication.

        The thread of a rank that was blocked the longest counts.
        """
        first, gap = self._program.first, self._program.gap
        blocked = self._times.clock
        if len(gap):
            blocked = blocked - np.diff(np.append(0, np.cumsum(gap))[first])
        by_thread = blocked[: self._program.calls.threads]
        per_rank = by_thread.reshape(self.source.world_size, -1).max(axis=1)
        return (per_rank * self._quantum).tolist()

    def critical_path(self) -> list[Step]:
        """Return the chain of messages and computing that determined the total time.

        Each step could only begin when the one before it had ended, or had left the
        link in `held_by`. So a change off the path would not shorten the total time.
        """
        return critical_path(self._program)

    def __repr__(self) -> str:
        return f"Timeline({format_seconds(self.elapsed)} on {self.fabric!r})"

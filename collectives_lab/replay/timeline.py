"""What a replay says: when every call began and ended, and what held it up.

Here you can ask a Timeline how long the whole took (`elapsed`), how long ranks were
blocked (`exposed`), how busy each link was (`link_use`), what the end waited for
(`critical_path`), and for the trace with its new times (`trace`), which the same plots
draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from collectives_lab.basics.units import format_seconds
from collectives_lab.fabrics import Fabric
from collectives_lab.replay.path import Step, critical_path
from collectives_lab.replay.program import Program
from collectives_lab.replay.state import Times
from collectives_lab.trace import Event, Trace


class Timeline:
    """A trace in the virtual time of a fabric."""

    def __init__(self, trace: Trace, fabric: Fabric, program: Program, times: Times):
        self.source = trace
        self.fabric = fabric
        self._program = program
        self._times = times
        self._quantum = program.quantum

    @cached_property
    def _ended(self) -> np.ndarray:
        """When each phase has all that it waits for."""
        p, t = self._program, self._times
        ended = t.begun + p.length
        waited = np.flatnonzero((p.closes >= 0) & (p.message >= 0))
        np.maximum.at(ended, p.closes[waited], t.end[p.message[waited]])
        return ended

    @property
    def elapsed(self) -> float:
        """Seconds until the last rank is through and the last message has arrived."""
        last = max(self._ended.max(initial=0), self._times.end.max(initial=0))
        return float(last) * self._quantum

    @cached_property
    def trace(self) -> Trace:
        """The trace that was replayed, with the times of the fabric in seconds.

        A call that never began, or never ended, has no time for that.
        """
        p, t, calls = self._program, self._times, self._program.calls
        begun = np.where(t.begun[p.phase] < 0, -1, t.begun[p.phase] + p.delay)
        waits = np.where(t.begun < 0, -1, t.begun + p.length)[p.closes]
        waits[p.closes < 0] = -1
        ends = np.append(t.end, -1)  # -1, for what is no message
        is_compute = self.source.is_op("compute")[calls.row]
        ended = np.where(is_compute, begun, ends[p.message])
        columns = dict(self.source.columns)
        shown = calls.row >= 0
        row = calls.row[shown]
        seconds = np.zeros(len(self.source))
        seconds[row] = calls.seconds[shown] * self.fabric.pace[calls.rank[shown]]
        issued, waited, completed = (np.full(len(row), np.nan) for _ in range(3))
        issued[row] = self._seconds(begun[shown])
        waited[row] = self._seconds(waits[shown])
        completed[row] = self._seconds(ended[shown])
        is_early = completed < waited
        completed[is_early] = waited[is_early]
        columns |= {
            "issued": issued - seconds,
            "waited": waited,
            "completed": completed,
        }
        s = self.source
        meta = {k: v for k, v in s.meta.items() if k != "clock"}
        meta |= {"fabric": self.fabric.name}
        return Trace(s.world_size, columns, s.texts, s.groups, s.wire, meta)

    def _seconds(self, quanta: np.ndarray) -> np.ndarray:
        return np.where(quanta < 0, np.nan, quanta * self._quantum)

    @property
    def events(self) -> Iterator[Event]:
        """The calls with their new times, rank by rank."""
        return self.trace.events

    def exposed(self) -> list[float]:
        """Seconds for which each rank was blocked: communication that nothing hides.

        Of a rank's threads the one that was blocked the longest counts.
        """
        p, calls = self._program, self._program.calls
        blocked = self._ended - (self._times.begun + p.length)
        by_lane = np.zeros(p.lane.max(initial=0) + calls.threads, dtype=np.int64)
        np.add.at(by_lane, p.lane, blocked)
        by_lane = by_lane[: calls.threads]
        per_rank = by_lane.reshape(self.source.world_size, -1).max(axis=1)
        return (per_rank * self._quantum).tolist()

    def link_use(self) -> dict[str, float]:
        """The share of `elapsed` for which each link that was used was busy."""
        use = {}
        for stage in self._program.stages:
            on = stage.link >= 0
            busy = np.bincount(stage.link[on], stage.busy[on], minlength=stage.links)
            for number in np.flatnonzero(busy).tolist():
                share = float(busy[number]) * self._quantum / self.elapsed
                use[stage.names.format(number)] = share
        return use

    def critical_path(self) -> list[Step]:
        """The chain of messages and computing that made the whole as long as it is.

        Each step could only begin when the one before it had ended (or had left the
        link that it is `held_by`), so nothing off the path would shorten the whole.
        """
        return critical_path(self._program, self._times)

    def __repr__(self) -> str:
        return f"Timeline({format_seconds(self.elapsed)} on {self.fabric!r})"

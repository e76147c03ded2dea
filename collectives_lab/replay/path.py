"""The critical path: from the end back to what it waited for, until the start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from collectives_lab.replay.program import Program
from collectives_lab.replay.state import Times


class Step(NamedTuple):
    """A stretch of the critical path: seconds from begin to end, and what happens.

    kind: `message` from rank to peer, or `compute` on rank. held_by: the link that the
    message had to wait for, empty if it set out as soon as both its ends were posted.
    """

    kind: str
    rank: int
    peer: int | None
    nbytes: int
    begin: float
    end: float
    held_by: str


def critical_path(program: Program, times: Times) -> list[Step]:
    """The chain that ends last, first step first; each began when the last one let it.

    A step ends when its message has arrived, or has left the link that the next one was
    held by, or when the computing is done.
    """
    return _Path(program, times).steps


class _Path:
    def __init__(self, program: Program, times: Times):
        self.p, self.t = program, times
        self.steps: list[Step] = []
        self.by_closes = np.argsort(program.closes, kind="stable")
        self.closes = program.closes[self.by_closes]
        self.queues: dict[int, np.ndarray] = {}
        self._back_from_the_end()
        self.steps.reverse()

    def _back_from_the_end(self) -> None:
        waits = self.t.begun + self.p.length
        last = int(waits.argmax()) if len(waits) else -1
        message = int(self.t.end.argmax()) if len(self.t.end) else -1
        if message >= 0 and (last < 0 or self.t.end[message] >= waits[last]):
            post: tuple[int, int] | None = self._arrived(message)
        else:
            post = (last, int(waits[last])) if last >= 0 else None
        while post is not None:
            post = self._posted(*post)

    def _posted(self, phase: int, time: int) -> tuple[int, int] | None:
        """From a call made at `time` in a phase back to another call, if any."""
        begun = int(self.t.begun[phase])
        self._compute(phase, begun, time)
        if phase == 0 or not self.p.goes_on[phase - 1]:
            return None
        before = phase - 1
        first, end = _range_of(before, self.closes)
        for call in self.by_closes[first:end].tolist():
            message = int(self.p.message[call])
            if message >= 0 and self.t.end[message] == begun:
                return self._arrived(message)
        return before, begun

    def _arrived(self, message: int) -> tuple[int, int]:
        """From the arrival of a message back to the later of its two ends."""
        end, stage = int(self.t.end[message]), -1
        for number, s in enumerate(self.p.stages):
            if s.link[message] >= 0:
                entered = self.t.entered[number][message]
                if entered + s.through[message] == end:
                    stage = number
                    break
        while stage >= 0:
            end, message, stage = self._entered(message, stage, end)
        calls, ready = self.p.calls, int(self.t.ready[message])
        for call in (int(calls.send[message]), int(calls.recv[message])):
            phase = int(self.p.phase[call])
            if self.t.begun[phase] + self.p.delay[call] == ready:
                break
        return phase, ready

    def _entered(self, message: int, stage: int, end: int) -> tuple[int, int, int]:
        """Note the message, back to when it entered the stage that decided; go on.

        Returns the end of the step before, its message and the stage to go back from;
        the stage is -1 when the message has set out at once.
        """
        entered, held = int(self.t.entered[stage][message]), ""
        arrived, earlier = int(self.t.ready[message]), -1
        for number in range(stage):
            if self.p.stages[number].link[message] >= 0:
                arrived, earlier = int(self.t.entered[number][message]), number
        if entered == arrived and earlier >= 0:
            return end, message, earlier
        if entered > arrived:
            s = self.p.stages[stage]
            held = s.names.format(s.link[message])
        self._message(message, entered, end, held)
        if not held:
            return entered, message, -1
        return entered, self._before(message, stage), stage

    def _before(self, message: int, stage: int) -> int:
        """The message that kept the link of this stage from another."""
        link, entered = self.p.stages[stage].link, self.t.entered[stage]
        if stage not in self.queues:
            self.queues[stage] = np.lexsort((np.arange(len(link)), entered, link))
        order = self.queues[stage]
        begin, end = _range_of(int(link[message]), link, order)
        here = order[begin:end]
        # Who entered earlier, not only was served earlier: of several at one time all
        # but the last keep the link for no time.
        return int(here[np.searchsorted(entered[here], entered[message]) - 1])

    def _message(self, message: int, begin: int, end: int, held: str) -> None:
        calls, q = self.p.calls, self.p.quantum
        src, dst = (int(calls.rank[e[message]]) for e in (calls.send, calls.recv))
        nbytes = int(calls.nbytes[message])
        self.steps.append(Step("message", src, dst, nbytes, begin * q, end * q, held))

    def _compute(self, phase: int, begin: int, end: int) -> None:
        if end > begin:
            rank, q = int(self.p.rank[phase]), self.p.quantum
            self.steps.append(Step("compute", rank, None, 0, begin * q, end * q, ""))


def _range_of(
    value: int, column: np.ndarray, order: np.ndarray | None = None
) -> tuple[int, int]:
    """Where a value is in a column that is sorted, or that `order` would sort."""
    # In the column's own type, or numpy would convert all of it each time.
    ends = np.array([value, value + 1], dtype=column.dtype)
    begin, end = np.searchsorted(column, ends, sorter=order)
    return int(begin), int(end)

"""The critical path, traced back from the end through its causes to the start."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import numpy as np

from collectives_lab.replay import engine
from collectives_lab.replay.lane_program import Program, Times
from collectives_lab.replay.phases import phases_of


class Step(NamedTuple):
    """A step of the critical path, from begin to end in seconds.

    kind: `message` from rank to peer, or `compute` on rank. held_by: the link for which
    the message had to wait; empty if it started as soon as send and recv were posted.
    """

    kind: str
    rank: int
    peer: int | None
    nbytes: int
    begin: float
    end: float
    held_by: str


def critical_path(program: Program) -> list[Step]:
    """Play a program; return the chain of steps that ends last, first step first.

    Each step begins when the one before it ends: when its message has arrived or has
    left the link for which the next one waits, or when the computing is done.
    """
    return _PathFinder(program, engine.run(program, keeps_entries=True)).steps


class _PathFinder:
    def __init__(self, program: Program, times: Times):
        self.program, self.times = program, times
        self.phases = phases_of(program, times.end)
        self.steps: list[Step] = []
        self.by_closes = np.argsort(self.phases.closes, kind="stable")
        self.closes = self.phases.closes[self.by_closes]
        self.queues: dict[int, np.ndarray] = {}
        self._back_from_the_end()
        self.steps.reverse()

    def _back_from_the_end(self) -> None:
        waits = self.phases.begun + self.phases.length
        last = int(waits.argmax()) if len(waits) else -1
        message = int(self.times.end.argmax()) if len(self.times.end) else -1
        if message >= 0 and (last < 0 or self.times.end[message] >= waits[last]):
            post: tuple[int, int] | None = self._arrived(message)
        else:
            post = (last, int(waits[last])) if last >= 0 else None
        while post is not None:
            post = self._posted(*post)

    def _posted(self, phase: int, time: int) -> tuple[int, int] | None:
        """Go from a call made at `time` in a phase back to an earlier call, if any."""
        begun = int(self.phases.begun[phase])
        self._compute(phase, begun, time)
        if phase == 0 or not self.phases.has_next[phase - 1]:
            return None
        previous = phase - 1
        first, end = _rows_with(previous, self.closes)
        for call in self.by_closes[first:end].tolist():
            message = int(self.phases.message[call])
            if message >= 0 and self.times.end[message] == begun:
                return self._arrived(message)
        return previous, begun

    def _arrived(self, message: int) -> tuple[int, int]:
        """Go from the arrival of a message back to its send or recv, the later one."""
        end, stage = int(self.times.end[message]), -1
        program = self.program
        for number in self._stages_of(message):
            entered = self.times.entered[message, number]
            if entered + program.through[program.route[message], number] == end:
                stage = number
                break
        while stage >= 0:
            end, message, stage = self._entered(message, stage, end)
        posts = self._posts_of(message)
        return max(posts, key=itemgetter(1))

    def _stages_of(self, message: int) -> list[int]:
        """Return the stages in which a message takes a link."""
        program = self.program
        return np.flatnonzero(program.link[program.route[message]] >= 0).tolist()

    def _posts_of(self, message: int) -> list[tuple[int, int]]:
        """Return the phases that post its send and its recv, and when they do."""
        calls, phases, posts = self.program.calls, self.phases, []
        for call in (calls.send[message], calls.recv[message]):
            phase = int(np.searchsorted(phases.first, call, side="right")) - 1
            posts.append((phase, int(phases.begun[phase] + phases.delay[call])))
        return posts

    def _entered(self, message: int, stage: int, end: int) -> tuple[int, int, int]:
        """Add the message to the path, from when it entered the deciding stage.

        Returns the end of the previous step, its message and the stage to go back from;
        the stage is -1 when the message did not wait for a link.
        """
        entered, held_by = int(self.times.entered[message, stage]), ""
        arrived, earlier = max(time for _, time in self._posts_of(message)), -1
        for number in self._stages_of(message):
            if number < stage:
                arrived, earlier = int(self.times.entered[message, number]), number
        if entered == arrived and earlier >= 0:
            return end, message, earlier
        if entered > arrived:
            program = self.program
            link = program.link[program.route[message], stage]
            held_by = program.names[stage].format(link)
        self._message(message, entered, end, held_by)
        if not held_by:
            return entered, message, -1
        return entered, self._previous_on_link(message, stage), stage

    def _previous_on_link(self, message: int, stage: int) -> int:
        """Return the message that occupied the link of this stage before this one."""
        program, entered = self.program, self.times.entered[:, stage]
        link = program.link[program.route, stage]
        if stage not in self.queues:
            self.queues[stage] = np.lexsort((np.arange(len(link)), entered, link))
        order = self.queues[stage]
        begin, end = _rows_with(int(link[message]), link, order)
        rows = order[begin:end]
        # It entered earlier, and was not only served earlier: of several messages that
        # entered at one time, all but the last occupy the link for no time.
        return int(rows[np.searchsorted(entered[rows], entered[message]) - 1])

    def _message(self, message: int, begin: int, end: int, held_by: str) -> None:
        calls, quantum = self.program.calls, self.program.quantum
        src, dst = (int(calls.rank[e[message]]) for e in (calls.send, calls.recv))
        nbytes = int(calls.nbytes[calls.send[message]])
        self.steps.append(
            Step("message", src, dst, nbytes, begin * quantum, end * quantum, held_by)
        )

    def _compute(self, phase: int, begin: int, end: int) -> None:
        if end > begin:
            calls, quantum = self.program.calls, self.program.quantum
            rank = int(calls.rank[self.phases.last[phase]])
            self.steps.append(
                Step("compute", rank, None, 0, begin * quantum, end * quantum, "")
            )


def _rows_with(
    value: int, column: np.ndarray, order: np.ndarray | None = None
) -> tuple[int, int]:
    """Return the range of rows with a value in a column sorted by `order`."""
    # The column's own dtype, or numpy would convert the whole column each time.
    ends = np.array([value, value + 1], dtype=column.dtype)
    begin, end = np.searchsorted(column, ends, sorter=order)
    return int(begin), int(end)

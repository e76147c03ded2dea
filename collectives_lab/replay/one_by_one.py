"""The replay, one arrival at a time: the definition, and the fast way for few messages.

A message is ready when both its ends are posted. It passes its stages in order; at each
it takes its link as soon as that is free, after all that came before it, and goes on to
the next at once: what is slow there holds it up there.
"""

from __future__ import annotations

import heapq

import numpy as np

from collectives_lab.replay.program import Program
from collectives_lab.replay.state import Times


def run(program: Program) -> Times:
    """Play the program to its end; phases that never begin keep -1."""
    return _Play(program).play()


class _Play:
    def __init__(self, program: Program):
        p = self.program = program
        n = len(p.calls.send)
        self.first, self.length = p.first.tolist(), p.length.tolist()
        self.needs, self.goes_on = p.needs.tolist(), p.goes_on.tolist()
        self.message, self.delay = p.message.tolist(), p.delay.tolist()
        self.closes = p.closes.tolist()
        self.ends = list(zip(p.calls.send.tolist(), p.calls.recv.tolist(), strict=True))
        self.signal = p.calls.is_signal.tolist()
        self.stages = [
            (s.link.tolist(), s.busy.tolist(), s.through.tolist(), [0] * s.links)
            for s in p.stages
        ]
        self.begun, self.latest = [-1] * len(p.length), [0] * len(p.length)
        self.posted, self.ready, self.end = [0] * n, [-1] * n, [-1] * n
        self.entered = [[-1] * n for _ in p.stages]
        self.beginning = [(phase, 0) for phase in p.starts.tolist()]
        self.arrivals: list[tuple[int, int, int]] = []

    def play(self) -> Times:
        while self.beginning or self.arrivals:
            if self.beginning:
                self.begin(*self.beginning.pop())
            else:
                self.arrive(*heapq.heappop(self.arrivals))
        begun, ready, end, *entered = (
            np.array(column, dtype=np.int64)
            for column in (self.begun, self.ready, self.end, *self.entered)
        )
        return Times(begun, ready, end, entered)

    def begin(self, phase: int, time: int) -> None:
        """Post the calls of a phase; what it waits for may be done already."""
        for call in range(self.first[phase], self.first[phase + 1]):
            self.post(call, time + self.delay[call])
        self.begun[phase] = time
        self.go_on(phase)

    def go_on(self, phase: int) -> None:
        """Begin the next phase of the lane if this one has all that it waits for."""
        if not self.needs[phase] and self.begun[phase] >= 0 and self.goes_on[phase]:
            waits = self.begun[phase] + self.length[phase]
            self.beginning.append((phase + 1, max(waits, self.latest[phase])))

    def post(self, call: int, time: int) -> None:
        """One end of a message is there; with both it sets out."""
        message = self.message[call]
        if message < 0:
            return
        self.posted[message] += 1
        self.ready[message] = max(self.ready[message], time)
        if self.posted[message] == 2:
            time = self.ready[message]
            if self.signal[message]:
                self.finish(message, time)
            else:
                self.end[message] = time
                heapq.heappush(self.arrivals, (time, 0, message))

    def arrive(self, time: int, stage: int, message: int) -> None:
        """Take the link of a stage when it is free, and go on to the next."""
        link, busy, through, free = self.stages[stage]
        here = link[message]
        if here >= 0:
            time = max(time, free[here])
            free[here] = time + busy[message]
            self.entered[stage][message] = time
            self.end[message] = max(self.end[message], time + through[message])
        if stage + 1 < len(self.stages):
            heapq.heappush(self.arrivals, (time, stage + 1, message))
        else:
            self.finish(message, self.end[message])

    def finish(self, message: int, time: int) -> None:
        """All of it has arrived: both ends are done."""
        self.end[message] = time
        for phase in (self.closes[call] for call in self.ends[message]):
            if phase < 0:
                continue
            self.needs[phase] -= 1
            self.latest[phase] = max(self.latest[phase], time)
            self.go_on(phase)

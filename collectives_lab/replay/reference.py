"""Reference replay, one arrival at a time: the definition, and fast for few messages.

A message is ready when both its send and its recv are posted. It passes its stages in
order: at each it takes its link as soon as all earlier messages have left the link
free, and then arrives at the next stage at once, where it may have to wait again.
"""

from __future__ import annotations

import heapq

import numpy as np

from collectives_lab.replay.program import Program, Times


def run(program: Program) -> Times:
    """Play the program to its end; phases that never begin keep -1."""
    return _Replay(program).play()


class _Replay:
    def __init__(self, program: Program):
        program = self.program = program
        message_count = len(program.calls.send)
        self.first, self.length = program.first.tolist(), program.length.tolist()
        self.needs, self.has_next = program.needs.tolist(), program.has_next.tolist()
        self.message, self.delay = program.message.tolist(), program.delay.tolist()
        self.closes = program.closes.tolist()
        self.ends = list(
            zip(program.calls.send.tolist(), program.calls.recv.tolist(), strict=True)
        )
        self.signal = program.calls.is_signal.tolist()
        self.stages = [
            (s.link.tolist(), s.busy.tolist(), s.through.tolist(), [0] * s.links)
            for s in program.stages
        ]
        self.begun, self.latest = [-1] * len(program.length), [0] * len(program.length)
        self.posted, self.ready, self.end = (
            [0] * message_count,
            [-1] * message_count,
            [-1] * message_count,
        )
        self.entered = [[-1] * message_count for _ in program.stages]
        self.beginning = [(phase, 0) for phase in program.starts.tolist()]
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
        """Post the calls of a phase; its awaited calls may be done already."""
        for call in range(self.first[phase], self.first[phase + 1]):
            self.post(call, time + self.delay[call])
        self.begun[phase] = time
        self.advance(phase)

    def advance(self, phase: int) -> None:
        """Begin the lane's next phase if all awaited calls of this one are done."""
        if not self.needs[phase] and self.begun[phase] >= 0 and self.has_next[phase]:
            waits = self.begun[phase] + self.length[phase]
            self.beginning.append((phase + 1, max(waits, self.latest[phase])))

    def post(self, call: int, time: int) -> None:
        """Post the send or the recv of a message; it starts when both are posted."""
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
        """Take the link of a stage when it is free, and continue to the next stage."""
        link, busy, through, free = self.stages[stage]
        number = link[message]
        if number >= 0:
            time = max(time, free[number])
            free[number] = time + busy[message]
            self.entered[stage][message] = time
            self.end[message] = max(self.end[message], time + through[message])
        if stage + 1 < len(self.stages):
            heapq.heappush(self.arrivals, (time, stage + 1, message))
        else:
            self.finish(message, self.end[message])

    def finish(self, message: int, time: int) -> None:
        """Complete the send and the recv of a message that has arrived."""
        self.end[message] = time
        for phase in (self.closes[call] for call in self.ends[message]):
            if phase < 0:
                continue
            self.needs[phase] -= 1
            self.latest[phase] = max(self.latest[phase], time)
            self.advance(phase)

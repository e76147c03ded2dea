"""The engine of virtual time: it plays a program, one arrival of a message at a time.

Here you can `run` a program. `play` defines all times. It is written over plain arrays,
so that numba can compile it (the extra `fast`); without numba the same lines run as
they stand. A message is ready when both its send and its recv are posted. It passes its
stages in order: at each it takes its link as soon as all that came before have left
the link free, and then arrives at the next stage at once, where it may wait again. Who
arrives first is served first; of those who arrive together, the message with the lower
number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from collectives_lab.replay.program import Program, Times

WORTH_COMPILING = 150_000
"""Messages that take longer, uncompiled, than to load the compiler does."""


def run(program: Program, keeps_entries: bool = False) -> Times:
    """Play the program to its end; what never begins or ends keeps -1.

    keeps_entries: whether `Times.entered` is wanted, which takes a number of 8 bytes
    for each message and stage.
    """
    calls, messages = program.calls, len(program.calls.send)
    closes = program.closes[np.stack([calls.send, calls.recv], axis=1)]
    # A phase is over when it has begun and its calls are done; the last one never is.
    needs = program.needs + 1 + ~program.has_next
    begun, ended = (np.full(len(needs), -1, np.int64) for _ in range(2))
    end = np.full(messages, -1, np.int64)
    stages = len(program.names)
    entered = np.full((messages if keeps_entries else 0, stages), -1, np.int64)
    free = np.zeros((stages, program.link.max(initial=0) + 1), np.int64)
    arrays: tuple[np.ndarray, ...] = (
        *(program.starts, program.first, program.length, needs),
        *(program.message, program.delay, closes),
        *(program.link, program.busy, program.through, free),
        *(begun, ended, end, entered),
    )
    if compiled := _compiled() if messages >= WORTH_COMPILING else None:
        compiled(*arrays)
    else:
        play(*[array.data for array in arrays])  # Python reads them quickest so
    return Times(begun, ended, np.maximum(end, -1, out=end), entered)


@cache
def _compiled() -> Callable[..., None] | None:
    """Return `play`, compiled, and kept beside this file; None without numba."""
    try:
        from numba import njit
    except ImportError:
        return None
    try:
        return njit(cache=True)(play)
    except RuntimeError:  # no folder to keep it in
        return njit(play)


def play(
    starts: Any,
    first: Any,
    length: Any,
    needs: Any,
    message: Any,
    delay: Any,
    closes: Any,
    link: Any,
    busy: Any,
    through: Any,
    free: Any,
    begun: Any,
    ended: Any,
    end: Any,
    entered: Any,
) -> None:
    """Fill in the last four arrays, the times; the others are those of a `Program`.

    needs[phase]: what has to happen before the next one of its lane begins. closes: the
    phases that wait for the send and for the recv of a message, -1 for none.
    free[stage, link]: when the link is free again. begun[phase], ended[phase]: when it
    begins, and when its wait ends. end[message]: when its last byte has arrived.
    entered[message, stage]: when it takes its link, unless it has no rows.
    """
    arrivals = [(0, 0, 0)]  # time, message, stage; a compiler sees what it will hold
    arrivals.pop()
    beginning = [(phase + 0, 0) for phase in starts]
    while True:
        while beginning:
            phase, time = beginning.pop()
            begun[phase] = time
            ended[phase] = max(ended[phase], time + length[phase])
            for call in range(first[phase], first[phase + 1]):
                number = message[call] + 0
                if number < 0:
                    continue  # a compute
                posted = time + delay[call]
                if end[number] == -1:
                    end[number] = -2 - posted  # its other side is not there yet
                else:
                    end[number] = max(posted, -2 - end[number])
                    heappush(arrivals, (end[number], number, 0))
            needs[phase] -= 1
            if needs[phase] == 0:
                beginning.append((phase + 1, ended[phase]))
        if not arrivals:
            return
        time, number, stage = heappop(arrivals)
        while stage < len(free):
            taken = link[number, stage]
            if taken >= 0:
                turn = max(time, free[stage, taken])
                free[stage, taken] = turn + busy[number, stage]
                if len(entered):
                    entered[number, stage] = turn
                end[number] = max(end[number], turn + through[number, stage])
                if turn > time:  # others may arrive before it goes on
                    time, number, stage = heappushpop(
                        arrivals, (turn, number, stage + 1)
                    )
                    continue
            stage += 1
        for side in range(2):
            phase = closes[number, side] + 0
            if phase >= 0:
                ended[phase] = max(ended[phase], end[number])
                needs[phase] -= 1
                if needs[phase] == 0:
                    beginning.append((phase + 1, ended[phase]))

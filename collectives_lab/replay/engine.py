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
from heapq import heappop, heappush
from typing import Any

import numpy as np

from collectives_lab.replay.lane_program import Program, Times

WORTH_COMPILING = 150_000
"""Messages that take longer, uncompiled, than to load the compiler does."""

STAGE_BITS = 4
"""Bits of the number of a stage, of which a fabric has eight at most."""

LAST_STAGE = 2**STAGE_BITS - 1

FORGET = 2**15
"""Arrivals of the queue that are forgotten together, after they were served."""


def run(program: Program, keeps_entries: bool = False) -> Times:
    """Play the program to its end; what never ends keeps -1.

    keeps_entries: whether `Times.entered` is wanted, which takes a number of 8 bytes
    for each message and stage.
    """
    messages, lanes = len(program.route), len(program.first) - 1
    stages = len(program.names)
    reached, clock = program.first[:-1].copy(), np.zeros(lanes, np.int64)
    end = np.full(messages, -1, np.int64)
    entered = np.full((messages if keeps_entries else 0, stages), -1, np.int64)
    arrays: tuple[np.ndarray, ...] = (
        *(program.first, program.points, program.gap, program.route),
        *(program.link, program.busy, program.through),
        np.zeros((stages, program.link.max(initial=0) + 1), np.int64),
        *(np.full(n, -1, np.int32) for n in (messages, lanes)),
        *(end, clock, reached, entered),
    )
    if compiled := _compiled() if messages >= WORTH_COMPILING else None:
        compiled(*arrays)
    else:
        play(*[array.data for array in arrays])  # Python reads them quickest so
    return Times(np.maximum(end, -1, out=end), clock, reached, entered)


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
    first: Any,
    points: Any,
    gap: Any,
    route: Any,
    link: Any,
    busy: Any,
    through: Any,
    free: Any,
    waiting: Any,
    others: Any,
    end: Any,
    clock: Any,
    reached: Any,
    entered: Any,
) -> None:
    """Fill in the last four arrays, the times; the first seven are those of a Program.

    free[stage, link]: when the link is free again. waiting[message]: a lane that waits
    for it, -1 for none, -2 once it has arrived. others[lane]: one more lane that waits
    for the same message, -1 for none. end[message]: when its last byte has arrived;
    until both sides have posted it, -1, or -2 less the time of the first. clock[lane]
    and reached[lane]: the time, and its next point. entered[message, stage]: when it
    takes its link, unless it has no rows.
    """
    # An arrival is its time, and the numbers of message and stage in one number. Those
    # that come in order stand in a queue, the others in a heap.
    heap, queue, served = [(0, 0)], [(0, 0)], 1
    heap.pop()  # a compiler has seen what it will hold
    ready = [lane + 0 for lane in range(len(clock))]
    stages, computes, keeps = len(free), len(gap) > 0, len(entered) > 0
    while True:
        while ready:
            lane = ready.pop()
            time, last, at = clock[lane], first[lane + 1], reached[lane] + 0
            while at < last:
                point = points[at] + 0
                number = point >> 1
                if computes:
                    time += gap[at]
                at += 1
                if number < 0:
                    if point & 1:
                        break  # nothing will ever come
                elif point & 1:
                    if waiting[number] != -2:
                        others[lane] = waiting[number]
                        waiting[number] = lane
                        break
                    if end[number] > time:
                        time = end[number]
                elif end[number] == -1:
                    end[number] = -2 - time  # its other side is not there yet
                else:
                    start = -2 - end[number]
                    if start < time:
                        start = time
                    end[number] = start
                    arrival = (start, number << STAGE_BITS)
                    if arrival > queue[-1]:
                        queue.append(arrival)
                    else:
                        heappush(heap, arrival)
            clock[lane], reached[lane] = time, at
        if served < len(queue) and (not heap or queue[served] < heap[0]):
            time, arrived = queue[served]
            served += 1
            if served == FORGET:
                del queue[: served - 1]
                served = 1
        elif heap:
            time, arrived = heappop(heap)
        else:
            return
        number, stage = arrived >> STAGE_BITS, arrived & LAST_STAGE
        row, latest = route[number], end[number]
        while stage < stages:
            taken = link[row, stage]
            if taken >= 0:
                turn = free[stage, taken]
                if turn < time:
                    turn = time
                free[stage, taken] = turn + busy[row, stage]
                if keeps:
                    entered[number, stage] = turn
                if turn + through[row, stage] > latest:
                    latest = turn + through[row, stage]
                if turn > time:  # others may arrive before it goes on
                    arrival = (turn, number << STAGE_BITS | stage + 1)
                    if arrival > queue[-1]:
                        queue.append(arrival)
                    else:
                        heappush(heap, arrival)
                    break
            stage += 1
        else:
            lane, waiting[number] = waiting[number], -2
            while lane >= 0:
                if clock[lane] < latest:
                    clock[lane] = latest
                ready.append(lane + 0)
                lane = others[lane]
        end[number] = latest

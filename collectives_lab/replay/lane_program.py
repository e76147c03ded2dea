"""The program of a replay: what lanes do one after another, and stages of messages.

A lane posts its side of messages and waits for messages, each after some time of
computing. Times are whole numbers of a quantum of 2**-k seconds, so sums are exact, and
rounding never decides which of two messages came first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from collectives_lab.basics.machine_limits import free_memory
from collectives_lab.basics.units import format_bytes
from collectives_lab.fabrics import Fabric
from collectives_lab.replay.calls import Calls
from collectives_lab.replay.points import BLOCK, points_in_order

MESSAGE_BYTES, STAGE_BYTES = 60, 20
"""Memory that a message takes in a replay besides its calls, and in each stage."""

MANY = 1_000_000
"""Messages from which we look whether there is memory for them."""


@dataclass(frozen=True, eq=False)
class Program:
    """Columns of points, messages and routes; points are sorted by lane.

    first[lane]: its first point, with one more entry at the end. points: twice the
    number of the message that the lane posts its side of there, and one more where it
    waits for the message. A compute posts the message -1; what waits for it never ends.
    gap[point]: the quanta of computing before it; empty where nobody computes.
    names[stage]: how its links are called, as in `fabrics.Stage`. route[message]: a row
    of the next three; messages in a row that are alike have one. link[route, stage]:
    the link taken there, -1 for none. busy, through: likewise, the quanta for which the
    link is taken, and until the last byte has passed it. quantum: seconds.
    """

    calls: Calls
    first: np.ndarray
    points: np.ndarray
    gap: np.ndarray
    names: list[str]
    route: np.ndarray
    link: np.ndarray
    busy: np.ndarray
    through: np.ndarray
    quantum: float

    def gaps(self, begin: int, end: int) -> np.ndarray:
        """Return the quanta of computing before some points."""
        if len(self.gap):
            return self.gap[begin:end]
        return np.zeros(end - begin, np.int64)

    @property
    def message(self) -> np.ndarray:
        """Return the message that each call sends or receives, -1 for none."""
        return _message_of(self.calls)


class Times(NamedTuple):
    """Times of messages and lanes as columns, in quanta.

    end[message]: its last byte has arrived; -1 for never. clock[lane]: the lane is
    done, or begins to wait for ever. reached[lane]: the point behind the last one that
    it came to. entered[message, stage]: it took its link of this stage; without rows
    where nobody asked.
    """

    end: np.ndarray
    clock: np.ndarray
    reached: np.ndarray
    entered: np.ndarray


def compile_program(calls: Calls, fabric: Fabric, compute: float) -> Program:
    """Compile the points of every lane, and the stages of each message on `fabric`.

    compute: the factor on the time recorded between a rank's calls. Raises ValueError
    for more messages than there is memory for.
    """
    _check_memory(len(calls.send), fabric)
    quantum = _quantum(calls, fabric, compute)
    first, points, gap = _points(calls, fabric.pace, compute, quantum)
    names, route, link, busy, through = _stages(calls, fabric, quantum)
    return Program(
        calls, first, points, gap, names, route, link, busy, through, quantum
    )


def _check_memory(messages: int, fabric: Fabric) -> None:
    needed = messages * (MESSAGE_BYTES + STAGE_BYTES * fabric.stage_count)
    if messages >= MANY and needed > (free := free_memory()):
        raise ValueError(
            f"this replay has {messages:,} messages, for which {format_bytes(needed)} "
            f"of memory are needed and {format_bytes(free)} are free; `costs` and "
            "`lab.predict` give times by a formula, for any number of ranks"
        )


def _quantum(calls: Calls, fabric: Fabric, compute: float) -> float:
    """Return the finest power of two in which no time can exceed 2**62."""
    upper_bound = fabric.slowest(len(calls.send), int(calls.nbytes.sum()))
    upper_bound += float(calls.seconds.sum() * fabric.pace.max(initial=1.0))
    if compute and calls.timed and len(calls):
        span = np.nanmax(calls.issued) - np.nanmin(calls.issued)
        for times in (calls.waited, calls.ended):
            if not np.isnan(times).all():
                span = max(span, np.nanmax(times) - np.nanmin(calls.issued))
        upper_bound += float(span) * compute * fabric.pace.max() * calls.threads
    return 2.0 ** (math.ceil(math.log2(max(upper_bound, 1e-12))) - 61)


def _points(
    calls: Calls, pace: np.ndarray, compute: float, quantum: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return first, points and gap of a Program."""
    lanes = max(int(calls.lane.max(initial=-1)) + 1, calls.threads)
    first = np.zeros(lanes + 1, np.int64)
    count = len(calls) + int(np.count_nonzero(~np.isnan(calls.waited)))
    points, message = np.empty(count, np.int32), _message_of(calls)
    gap = np.zeros(count if calls.computes(compute) else 0, np.int64)
    begin = next_lane = 0
    for call, is_wait in points_in_order(calls):
        end = begin + len(call)
        points[begin:end] = 2 * message[call] + is_wait
        if len(gap):
            seconds = calls.gaps(call, is_wait, compute) * pace[calls.rank[call]]
            gap[begin:end] = np.rint(seconds / quantum)
        lane = calls.lane[call]
        block_lanes = np.arange(next_lane, lane[-1] + 1)
        first[block_lanes] = begin + np.searchsorted(lane, block_lanes)
        begin, next_lane = end, block_lanes[-1] + 1
    first[next_lane:] = count
    return first, points, gap


def _stages(
    calls: Calls, fabric: Fabric, quantum: float
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return names, route, link, busy and through of a Program.

    Signals take no links.
    """
    names = [stage.names for stage in fabric.stages(*np.zeros((3, 0), int))]
    route = np.empty(len(calls.send), np.int32)
    # Memory that is never written takes none.
    shape = len(route), len(names)
    link, busy = np.empty(shape, np.int32), np.empty(shape, np.int64)
    through = busy if fabric.is_textbook else np.empty(shape, np.int64)
    count = 0
    for begin in range(0, len(route), BLOCK):
        block = slice(begin, begin + BLOCK)
        send, is_signal = calls.send[block], calls.is_signal[block]
        ways = calls.rank[send], calls.rank[calls.recv[block]], calls.nbytes[send]
        is_new = np.ones(len(send), dtype=bool)
        is_new[1:] = np.any([way[1:] != way[:-1] for way in (*ways, is_signal)], axis=0)
        route[block] = np.cumsum(is_new) + (count - 1)
        rows = slice(count, count := count + int(np.count_nonzero(is_new)))
        for number, stage in enumerate(fabric.stages(*(way[is_new] for way in ways))):
            link[rows, number] = stage.link
            busy[rows, number] = np.rint(stage.busy * (1 / quantum))
            if through is not busy:
                through[rows, number] = np.rint(stage.through * (1 / quantum))
        link[rows][is_signal[is_new]] = -1
    return names, route, link[:count], busy[:count], through[:count]


def _message_of(calls: Calls) -> np.ndarray:
    message = np.full(len(calls), -1, dtype=np.int32)
    for ends in (calls.send, calls.recv):
        message[ends] = np.arange(len(ends), dtype=np.int32)
    return message

"""The program of a replay: phases of lanes, stages of messages, and their times.

A lane goes through *phases*: a phase begins, posts its calls, each after some time of
computing, and ends when the calls that it waits for are done; then the next begins.
Times are whole numbers of a quantum of 2**-k seconds, so sums are exact, and rounding
never decides which of two messages came first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from collectives_lab.basics.machine_limits import free_memory
from collectives_lab.basics.units import format_bytes
from collectives_lab.fabrics import Fabric, Stage
from collectives_lab.replay.calls import Calls

BLOCK = 2**15
"""Calls that are compiled together, so that what is in work stays in the caches."""

MESSAGE_BYTES, STAGE_BYTES = 140, 20
"""Memory that a message takes in a replay besides its calls, and in each stage."""

MANY = 1_000_000
"""Messages from which we look whether there is memory for them."""


@dataclass(frozen=True, eq=False)
class Program:
    """Columns of phases, calls and messages; phases and calls are sorted by lane.

    first[phase]: its first call, with one more entry at the end. length[phase]: quanta
    until it begins to wait. needs[phase]: the number of calls that it waits for.
    has_next[phase]: whether another phase of its lane follows.
    delay[call]: quanta from the beginning of that phase. closes[call]: the phase that
    waits for the call, -1 for none. message[call]: the message that it sends or
    receives, -1 for a compute. names[stage]: how its links are called, as in
    `fabrics.Stage`. link[message, stage]: the link that it takes there, -1 for none.
    busy, through: likewise, the quanta for which the link is taken, and until the last
    byte has passed it. quantum: seconds.
    """

    calls: Calls
    first: np.ndarray
    length: np.ndarray
    needs: np.ndarray
    has_next: np.ndarray
    delay: np.ndarray
    closes: np.ndarray
    message: np.ndarray
    names: list[str]
    link: np.ndarray
    busy: np.ndarray
    through: np.ndarray
    quantum: float

    @property
    def starts(self) -> np.ndarray:
        """Return the first phase of each lane."""
        begins = np.ones(len(self.length), dtype=bool)
        begins[1:] = ~self.has_next[:-1]
        return np.flatnonzero(begins)

    @property
    def last(self) -> np.ndarray:
        """Return the last call that a phase's lane has made by the phase's wait."""
        return self.first[1:] - 1

    @property
    def phase(self) -> np.ndarray:
        """Return the phase that makes each call."""
        return np.repeat(np.arange(len(self.length)), np.diff(self.first))


class Times(NamedTuple):
    """Times of phases and messages as columns; -1 for events that never happen.

    begun[phase], ended[phase]: its beginning, and the end of its wait. end[message]:
    its last byte has arrived. entered[message, stage]: it took its link of this stage;
    without rows where nobody asked.
    """

    begun: np.ndarray
    ended: np.ndarray
    end: np.ndarray
    entered: np.ndarray


def compile_program(calls: Calls, fabric: Fabric, compute: float) -> Program:
    """Compile the phases of every lane, and the stages of each message on `fabric`.

    compute: the factor on the time recorded between a rank's calls. Raises ValueError
    for more messages than there is memory for.
    """
    _check_memory(len(calls.send), fabric)
    quantum = _quantum(calls, fabric, compute)
    closes, delay = np.full(len(calls), -1, np.int32), np.zeros(len(calls), np.int64)
    blocks = [(*np.empty((3, 0), np.int32), np.empty(0, bool))]
    phases = 0
    for begin, end in _blocks(calls.lane):
        points = _Points(calls, begin, end, fabric.pace, compute, quantum)
        closes[points.waited_calls] = points.phase_of_waits + phases
        if points.has_gaps:
            delay[begin:end] = points.delay
        first = begin + points.first
        blocks.append((first, points.needs, points.length, points.has_next))
        phases += len(first)
    first, needs, length, has_next = map(np.concatenate, zip(*blocks, strict=True))
    return Program(
        calls,
        np.append(first, len(calls)),
        length,
        needs,
        has_next,
        delay,
        closes,
        _message_of(calls),
        *_stages(calls, fabric, quantum),
        quantum,
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


def _stages(
    calls: Calls, fabric: Fabric, quantum: float
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Return names, link, busy and through of a Program; signals take no links."""

    def stages_of(messages: slice) -> list[Stage]:
        send, recv = calls.send[messages], calls.recv[messages]
        return [*fabric.stages(calls.rank[send], calls.rank[recv], calls.nbytes[send])]

    names = [stage.names for stage in stages_of(slice(0))]
    shape = len(calls.send), len(names)
    link, busy = np.empty(shape, np.int32), np.empty(shape, np.int64)
    through = busy if fabric.is_textbook else np.empty(shape, np.int64)
    for begin in range(0, len(link), BLOCK):
        block = slice(begin, begin + BLOCK)
        for number, stage in enumerate(stages_of(block)):
            link[block, number] = np.where(calls.is_signal[block], -1, stage.link)
            busy[block, number] = np.rint(stage.busy / quantum)
            if through is not busy:
                through[block, number] = np.rint(stage.through / quantum)
    return names, link, busy, through


def _message_of(calls: Calls) -> np.ndarray:
    message = np.full(len(calls), -1, dtype=np.int32)
    for ends in (calls.send, calls.recv):
        message[ends] = np.arange(len(ends), dtype=np.int32)
    return message


def _blocks(lane: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of about `BLOCK` calls that do not divide a lane."""
    begin = 0
    while begin < len(lane):
        last = lane[min(begin + BLOCK, len(lane)) - 1]
        end = begin + int(np.searchsorted(lane[begin:], last, side="right"))
        yield begin, end
        begin = end


class _Points:
    """The points at which the lanes of a block make a call or begin to wait."""

    def __init__(
        self,
        calls: Calls,
        begin: int,
        end: int,
        pace: np.ndarray,
        compute: float,
        quantum: float,
    ):
        call_count = end - begin
        waits = begin + np.flatnonzero(~np.isnan(calls.waited[begin:end]))
        call = np.concatenate([np.arange(begin, end), waits])
        time = np.concatenate([calls.issued[begin:end], calls.waited[waits]])
        # At equal times a call comes before its wait, since the sort is stable.
        # Complex numbers are sorted by lane, then by time; two sorted runs are merged.
        order = np.argsort(calls.lane[call] + 1j * time, kind="stable")
        call, is_wait = call[order], order >= call_count
        lane = calls.lane[call]
        gap = calls.gaps(call, is_wait, compute)
        self.has_gaps = bool(gap.any())
        if self.has_gaps:
            gap = np.rint(gap * pace[calls.rank[call]] / quantum).astype(np.int64)
        begins = np.ones(len(call), dtype=bool)
        same_lane = lane[1:] == lane[:-1]
        begins[1:] = ~same_lane | (is_wait[:-1] & (~is_wait[1:] | (gap[1:] > 0)))
        phase = np.cumsum(begins, dtype=np.int32) - 1
        starts = np.flatnonzero(begins)
        self.first = (starts - np.cumsum(is_wait)[starts] + is_wait[starts]).astype(
            np.int32
        )
        self.has_next = np.append(lane[starts[1:]] == lane[starts[:-1]], False)
        self.waited_calls, self.phase_of_waits = call[is_wait], phase[is_wait]
        self.needs = np.bincount(self.phase_of_waits, minlength=len(starts)).astype(
            np.int32
        )
        self.length = np.zeros(len(starts), dtype=np.int64)
        if self.has_gaps:
            elapsed = np.cumsum(gap)
            since = elapsed - (elapsed - gap)[starts][phase]
            self.delay = since[~is_wait]
            self.length = since[np.append(starts[1:], len(call)) - 1]

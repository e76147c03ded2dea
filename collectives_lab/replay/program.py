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

from collectives_lab import fabrics
from collectives_lab.fabrics import Fabric
from collectives_lab.replay.calls import Calls

BLOCK = 2**18
"""Calls that are compiled together, to limit memory."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A `fabrics.Stage` in quanta, for all messages. links: the number of its links."""

    names: str
    links: int
    link: np.ndarray
    busy: np.ndarray
    through: np.ndarray


@dataclass(frozen=True, eq=False)
class Program:
    """Columns of phases, calls and messages; phases and calls are sorted by lane.

    first[phase]: its first call, with one more entry at the end. lane[phase],
    rank[phase]: its lane and rank. length[phase]: quanta until it begins to wait.
    needs[phase]: the number of calls that it waits for. has_next[phase]: whether
    another phase of its lane follows. phase[call]: the phase that makes the call.
    delay[call]: quanta from the beginning of that phase. closes[call]: the phase that
    waits for the call, -1 for none. message[call]: the message that it sends or
    receives, -1 for a compute. stages: the stages of all messages but signals, in
    order. quantum: seconds.
    """

    calls: Calls
    first: np.ndarray
    lane: np.ndarray
    rank: np.ndarray
    length: np.ndarray
    needs: np.ndarray
    has_next: np.ndarray
    phase: np.ndarray
    delay: np.ndarray
    closes: np.ndarray
    message: np.ndarray
    stages: list[Stage]
    quantum: float

    @property
    def starts(self) -> np.ndarray:
        """Return the first phase of each lane."""
        begins = np.ones(len(self.length), dtype=bool)
        begins[1:] = ~self.has_next[:-1]
        return np.flatnonzero(begins)


class Times(NamedTuple):
    """Times of phases and messages as columns; -1 for events that never happen.

    begun[phase]: its beginning. ready[message]: send and recv are posted. end[message]:
    its last byte has arrived. entered[stage][message]: it took its link of this stage.
    """

    begun: np.ndarray
    ready: np.ndarray
    end: np.ndarray
    entered: list[np.ndarray]


def compile_program(calls: Calls, fabric: Fabric, compute: float) -> Program:
    """Compile the phases of every lane, and the stages of each message on `fabric`.

    compute: the factor on the time recorded between a rank's calls.
    """
    src, dst = calls.rank[calls.send], calls.rank[calls.recv]
    stages = list(fabric.stages(src, dst, calls.nbytes))
    quantum = _quantum(calls, stages, fabric, compute)
    call_count = len(calls)
    phase, closes = np.empty(call_count, np.int32), np.full(call_count, -1, np.int32)
    delay = np.zeros(call_count, np.int64)
    empty = np.empty(0, np.int32)
    columns = [(empty, empty, empty.astype(np.int64), empty.astype(bool))]
    phase_count = 0
    for begin, end in _blocks(calls.lane):
        points = _Points(calls, begin, end, fabric.pace, compute, quantum)
        phase[begin:end] = points.phase_of_calls + phase_count
        closes[points.waited_calls] = points.phase_of_waits + phase_count
        if points.has_gaps:
            delay[begin:end] = points.delay
        columns.append((points.lane, points.rank, points.length, points.has_next))
        phase_count += len(points.length)
    lane, rank, length, has_next = map(np.concatenate, zip(*columns, strict=True))
    return Program(
        calls,
        np.append(0, np.cumsum(np.bincount(phase, minlength=phase_count))).astype(
            np.int32
        ),
        lane,
        rank,
        length,
        np.bincount(closes[closes >= 0], minlength=phase_count).astype(np.int32),
        has_next,
        phase,
        delay,
        closes,
        _message_of(calls),
        [_in_quanta(stage, calls.is_signal, quantum) for stage in stages],
        quantum,
    )


def _quantum(
    calls: Calls, stages: list[fabrics.Stage], fabric: Fabric, compute: float
) -> float:
    """Return the finest power of two in which no time can exceed 2**62."""
    upper_bound = sum(float(stage.through.sum()) for stage in stages)
    upper_bound += float(calls.seconds.sum() * fabric.pace.max(initial=1.0))
    if compute and calls.timed and len(calls):
        span = np.nanmax(calls.issued) - np.nanmin(calls.issued)
        for times in (calls.waited, calls.ended):
            if not np.isnan(times).all():
                span = max(span, np.nanmax(times) - np.nanmin(calls.issued))
        upper_bound += float(span) * compute * fabric.pace.max() * calls.threads
    return 2.0 ** (math.ceil(math.log2(max(upper_bound, 1e-12))) - 61)


def _in_quanta(stage: fabrics.Stage, is_signal: np.ndarray, quantum: float) -> Stage:
    link = np.where(is_signal, -1, stage.link).astype(np.int32)
    busy = np.rint(stage.busy / quantum).astype(np.int64)
    is_shared = stage.through is stage.busy
    through = busy if is_shared else np.rint(stage.through / quantum).astype(np.int64)
    return Stage(stage.names, int(link.max(initial=-1)) + 1, link, busy, through)


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
        end = int(np.searchsorted(lane, last, side="right"))
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
        order = np.lexsort((time, calls.lane[call]))
        call, is_wait = call[order], order >= call_count
        lane = calls.lane[call]
        gap = calls.gaps(call, is_wait, compute)
        self.has_gaps = bool(gap.any())
        if self.has_gaps:
            gap = np.rint(gap * pace[calls.rank[call]] / quantum).astype(np.int64)
        begins = np.ones(len(call), dtype=bool)
        same_lane = lane[1:] == lane[:-1]
        begins[1:] = ~same_lane | (is_wait[:-1] & (~is_wait[1:] | (gap[1:] > 0)))
        phase = np.cumsum(begins) - 1
        starts = np.flatnonzero(begins)
        self.lane, self.rank = lane[starts], calls.rank[call[starts]]
        self.has_next = np.append(lane[starts[1:]] == lane[starts[:-1]], False)
        self.phase_of_calls = phase[~is_wait]  # in order, since calls were sorted
        self.waited_calls, self.phase_of_waits = call[is_wait], phase[is_wait]
        self.length = np.zeros(len(starts), dtype=np.int64)
        if self.has_gaps:
            elapsed = np.cumsum(gap)
            since = elapsed - (elapsed - gap)[starts][phase]
            self.delay = since[~is_wait]
            self.length = since[np.append(starts[1:], len(call)) - 1]

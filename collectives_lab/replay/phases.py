"""The phases of lanes, and when they began, as a replay has found.

A lane goes through *phases*: a phase begins, posts its calls, each after some time of
computing, and ends when the calls that it waits for are done; then the next begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collectives_lab.replay.lane_program import Program
from collectives_lab.replay.points import points_in_order

_NEVER = 2**62
"""Quanta later than all that happens."""


@dataclass(frozen=True, eq=False)
class Phases:
    """Columns of phases and of calls; both are sorted by lane.

    first[phase]: its first call, with one more entry at the end. length[phase]: quanta
    until it begins to wait. has_next[phase]: whether another phase of its lane follows.
    delay[call]: quanta from the beginning of its phase. closes[call]: the phase that
    waits for the call, -1 for none. message[call]: the message that it sends or
    receives, -1 for none. begun[phase], ended[phase]: its beginning, and the end of its
    wait; -1 for what never happens.
    """

    first: np.ndarray
    length: np.ndarray
    has_next: np.ndarray
    delay: np.ndarray
    closes: np.ndarray
    message: np.ndarray
    begun: np.ndarray
    ended: np.ndarray

    @property
    def last(self) -> np.ndarray:
        """Return the last call that a phase's lane has made by the phase's wait."""
        return self.first[1:] - 1

    @property
    def phase(self) -> np.ndarray:
        """Return the phase that makes each call."""
        return np.repeat(np.arange(len(self.length)), np.diff(self.first))


def phases_of(program: Program, end: np.ndarray) -> Phases:
    """Return the phases of a program, given when the last byte of each message arrived.

    end: by message, -1 for one that never arrives.
    """
    calls = program.calls
    closes, delay = np.full(len(calls), -1, np.int32), np.zeros(len(calls), np.int64)
    pieces = [(*np.empty((2, 0), np.int64), np.empty(0, bool))]
    count = begin = 0
    for call, is_wait in points_in_order(calls):
        gap = program.gaps(begin, begin + len(call))
        lane = calls.lane[call]
        begins = np.ones(len(call), dtype=bool)
        same_lane = lane[1:] == lane[:-1]
        begins[1:] = ~same_lane | (is_wait[:-1] & (~is_wait[1:] | (gap[1:] > 0)))
        phase, starts = np.cumsum(begins) - 1, np.flatnonzero(begins)
        closes[call[is_wait]] = count + phase[is_wait]
        elapsed = np.cumsum(gap)
        since = elapsed - (elapsed - gap)[starts][phase]
        delay[call[~is_wait]] = since[~is_wait]
        length = since[np.append(starts[1:], len(call)) - 1]
        calls_before = starts - (np.cumsum(is_wait) - is_wait)[starts]
        first = call[~is_wait][0] + calls_before
        has_next = np.append(lane[starts[1:]] == lane[starts[:-1]], False)
        pieces.append((first, length, has_next))
        count, begin = count + len(starts), begin + len(call)
    first, length, has_next = map(np.concatenate, zip(*pieces, strict=True))
    message = program.message
    begun, ended = _times(length, has_next, _awaited(closes, message, end, count))
    first = np.append(first, len(calls))
    return Phases(first, length, has_next, delay, closes, message, begun, ended)


def _awaited(
    closes: np.ndarray, message: np.ndarray, end: np.ndarray, count: int
) -> np.ndarray:
    """Return when all that each phase waits for has arrived; 0 where it is nothing."""
    arrived = np.append(np.where(end < 0, _NEVER, end), _NEVER)
    awaited = np.zeros(count, np.int64)
    calls = np.flatnonzero(closes >= 0)
    np.maximum.at(awaited, closes[calls], arrived[message[calls]])
    return awaited


def _times(
    length: np.ndarray, has_next: np.ndarray, awaited: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return when each phase began and ended."""
    begins = np.append(True, ~has_next)[: len(length)]
    edges = np.append(np.flatnonzero(begins), len(length))
    computed = np.cumsum(length)
    computed -= np.repeat((computed - length)[edges[:-1]], np.diff(edges))
    blocked = awaited - computed
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        lane = blocked[begin:end]
        np.maximum.accumulate(lane, out=lane)
    ended = computed + np.maximum(blocked, 0)
    ended[ended >= _NEVER] = -1
    begun = np.roll(ended, 1)
    begun[edges[:-1]] = 0
    return begun, ended

"""The points of lanes: where each makes a call, or begins to wait for one.

Here you can put the points of all lanes in their order (`points_in_order`), a block of
lanes at a time, so that what is in work stays in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from collectives_lab.replay.calls import Calls

BLOCK = 2**15
"""Calls, or messages, that are in work together."""


class Points(NamedTuple):
    """Points of a block of lanes, in order: the call of each, and whether it waits."""

    call: np.ndarray
    is_wait: np.ndarray


def points_in_order(calls: Calls) -> Iterator[Points]:
    """Yield the points of the lanes in order, block by block; no lane is divided.

    Points of a lane are in the order of their times. At equal times calls come before
    waits, and both in the order of the calls.
    """
    begin = 0
    while begin < len(calls):
        last = calls.lane[min(begin + BLOCK, len(calls)) - 1]
        end = begin + int(np.searchsorted(calls.lane[begin:], last, side="right"))
        yield _points(calls, begin, end)
        begin = end


def _points(calls: Calls, begin: int, end: int) -> Points:
    lane, issued = calls.lane[begin:end], calls.issued[begin:end]
    waited = calls.waited[begin:end]
    waits = np.flatnonzero(~np.isnan(waited))
    if not _is_sorted(lane[waits], waited[waits]):
        waits = waits[np.lexsort((waited[waits], lane[waits]))]
    is_wait = np.zeros(len(lane) + len(waits), dtype=bool)
    is_wait[np.arange(len(waits)) + _calls_before(lane, issued, waited, waits)] = True
    call = np.empty(len(is_wait), dtype=np.int64)
    call[is_wait], call[~is_wait] = begin + waits, np.arange(begin, end)
    return Points(call, is_wait)


def _is_sorted(lane: np.ndarray, time: np.ndarray) -> bool:
    in_order = (lane[1:] > lane[:-1]) | (time[1:] >= time[:-1])
    return bool(in_order.all())


def _calls_before(
    lane: np.ndarray, issued: np.ndarray, waited: np.ndarray, waits: np.ndarray
) -> np.ndarray:
    """Return how many calls come before each wait: those of its time, and earlier ones.

    Most waits come before the next call of another time.
    """
    is_last = np.ones(len(lane), dtype=bool)
    is_last[:-1] = (lane[1:] != lane[:-1]) | (issued[1:] > issued[:-1])
    ends = np.flatnonzero(is_last) + 1
    number = np.cumsum(is_last) - is_last  # of the calls of one time
    before, time = ends[number[waits]], waited[waits]
    if np.array_equal(time, issued[waits]):
        return before  # as in a plan
    following = np.minimum(before, len(lane) - 1)
    is_other = (lane[following] == lane[waits]) & (issued[following] <= time)
    is_other &= before < len(lane)
    is_other |= time < issued[waits]
    if is_other.any():
        others = waits[is_other]
        # Complex numbers are sorted by lane, then by time.
        before[is_other] = np.searchsorted(
            lane + 1j * issued, lane[others] + 1j * waited[others], side="right"
        )
    return before

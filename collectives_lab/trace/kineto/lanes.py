"""The lane of a rank: when it computes, and when it stands still.

On a CPU a lane is the thread that makes the calls; on a GPU it is the stream that has
the most kernels. Here `lane_of` makes one from a profile: it says until when what has
been called by some time computes (`time`), how long something computes between two
times (`busy`), and where it stands still (`gap`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collectives_lab.trace.kineto.profile import Profile, Spans

SHORT = 100e-6
"""Seconds for which a thread may stand still between two ops without waiting."""

SHORT_ON_GPU = 5e-6
"""The same for a stream between two kernels."""


@dataclass(frozen=True)
class Lane:
    """Stretches of computing in order, without overlaps, and what limits the gaps.

    done: the computing done by the end of each stretch. scopes: where a thread begins
    something else, so that a gap before it is no wait. launched, finished: of a GPU,
    the launch of each kernel in order, and when all up to it have finished.
    """

    begin: np.ndarray
    end: np.ndarray
    done: np.ndarray
    scopes: np.ndarray
    launched: np.ndarray
    finished: np.ndarray
    short: float

    @property
    def on_gpu(self) -> bool:
        """Return whether it is a stream of a GPU."""
        return len(self.launched) > 0

    def time(self, called: float) -> float:
        """Return when the lane comes to what the CPU calls at a time."""
        before = int(np.searchsorted(self.launched, called)) - 1
        if not self.on_gpu or before < 0:
            return called
        return max(called, float(self.finished[before]))

    def busy(self, begin: float, end: float) -> tuple[float, float]:
        """Return when the first computing between two times begins, and its sum."""
        if not len(self.begin) or end <= begin:
            return begin, 0.0
        first = int(np.searchsorted(self.end, begin, side="right"))
        if first == len(self.begin) or self.begin[first] >= end:
            return begin, 0.0
        seconds = self._done(end) - self._done(begin)
        return max(begin, float(self.begin[first])), seconds

    def _done(self, time: float) -> float:
        number = int(np.searchsorted(self.begin, time, side="right")) - 1
        if number < 0:
            return 0.0
        return float(self.done[number] - max(0.0, self.end[number] - time))

    def gap(
        self, after: float, until: float, ended: float | None = None
    ) -> tuple[float, float] | None:
        """Return the first gap that begins between two times and may be a wait.

        ended: when the call was over; the gap contains it, or ends after it.
        """
        number = max(int(np.searchsorted(self.end, after - 1e-9)) - 1, 0)
        while number + 1 < len(self.begin):
            begin, end = max(self.end[number], after), self.begin[number + 1]
            if begin > until:
                return None
            is_long = end - begin > self.short and end > after
            if is_long and (ended is None or ended <= end) and self._is_free(begin, end):
                return float(begin), float(end)
            number += 1
        return None

    def _is_free(self, begin: float, end: float) -> bool:
        first, last = np.searchsorted(self.scopes, [begin, end], side="right")
        return bool(first == last)


def lane_of(profile: Profile, thread: int) -> Lane:
    """Return the lane on which the calls of a thread take place."""
    begin, end, stream = profile.gpu.columns()
    if not len(begin):
        return _lane(*_of(profile.ops, thread), _of(profile.others, thread)[0], SHORT)
    streams, inverse = np.unique(stream, return_inverse=True)
    main = streams[np.bincount(inverse, end - begin).argmax()]
    order = np.argsort(np.array(profile.gpu.begin), kind="stable")
    correlation = np.array(profile.launch, dtype=np.int64)[order]
    chosen = stream == main
    launched, finished = _launched(profile, correlation[chosen], begin[chosen], end[chosen])
    none = np.empty(0)
    return _lane(
        begin[chosen], end[chosen], none, SHORT_ON_GPU, launched, finished
    )


def _of(spans: Spans, thread: int) -> tuple[np.ndarray, np.ndarray]:
    begin, end, number = spans.columns()
    return begin[number == thread], end[number == thread]


def _launched(
    profile: Profile, correlation: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the launches of kernels in order, and when all up to each are finished."""
    at, _, number = profile.launches.columns()
    order = np.argsort(number, kind="stable")
    number, at = number[order], at[order]
    place = np.searchsorted(number, correlation)
    place = np.minimum(place, len(number) - 1) if len(number) else place
    known = len(number) > 0 and number[place] == correlation
    launched = np.where(known, at[place], begin) if len(number) else begin
    order = np.argsort(launched, kind="stable")
    return launched[order], np.maximum.accumulate(end[order])


def _lane(
    begin: np.ndarray,
    end: np.ndarray,
    scopes: np.ndarray,
    short: float,
    launched: np.ndarray | None = None,
    finished: np.ndarray | None = None,
) -> Lane:
    """Merge what overlaps, or lies within each other, to stretches."""
    none = np.empty(0)
    if len(begin):
        latest = np.maximum.accumulate(end)
        starts = np.flatnonzero(np.append(True, begin[1:] > latest[:-1]))
        begin, end = begin[starts], latest[np.append(starts[1:] - 1, len(end) - 1)]
    return Lane(
        begin,
        end,
        np.cumsum(end - begin),
        scopes,
        none if launched is None else launched,
        none if finished is None else finished,
        short,
    )

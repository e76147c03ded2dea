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

LAUNCH = 20e-6
"""Seconds from a launch to its kernel at most, where the stream is free: 20 us on a
V100 with the call in PyTorch, by NVIDIA's "Understanding the Visualization of Overhead
and Latency in NVIDIA Nsight Systems"."""


@dataclass(frozen=True)
class Lane:
    """Stretches of computing in order, without overlaps, and the gaps that are waits.

    done: the computing done by the end of each stretch. idle, resumed: begin and end of
    each gap in which the lane may wait: a thread neither computes nor calls, and then
    goes on with what it was doing; a stream has its next kernel in the queue, and else
    it waits for who launches. launched, finished: of a GPU, the launch of each
    kernel in order, and when all up to it have finished. stream: its number, -1 for a
    thread.
    """

    begin: np.ndarray
    end: np.ndarray
    done: np.ndarray
    idle: np.ndarray
    resumed: np.ndarray
    launched: np.ndarray
    finished: np.ndarray
    stream: int = -1

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
        first = int(np.searchsorted(self.resumed, after, side="right"))
        if ended is not None:
            first = max(first, int(np.searchsorted(self.resumed, ended)))
        if first == len(self.idle) or self.idle[first] > until:
            return None
        return max(float(self.idle[first]), after), float(self.resumed[first])


def lane_of(profile: Profile, thread: int) -> Lane:
    """Return the lane on which the calls of a thread take place."""
    begin, end, stream = profile.gpu.columns()
    if not len(begin):
        return _thread(profile, thread)
    streams, inverse = np.unique(stream, return_inverse=True)
    main = int(streams[np.bincount(inverse, end - begin).argmax()])
    chosen = stream == main
    order = np.argsort(np.array(profile.gpu.begin), kind="stable")
    correlation = np.array(profile.launch, dtype=np.int64)[order][chosen]
    began, ended = begin[chosen], end[chosen]
    launched = _launched(profile, correlation)
    begin, end = _merged(began, ended)
    idle, resumed = _gaps(begin, end, np.empty(0), SHORT_ON_GPU)
    queued = launched[np.searchsorted(began, resumed)]  # -inf where it is not known
    waits = resumed - queued > LAUNCH
    idle, resumed = np.maximum(idle, queued)[waits], resumed[waits]
    launches = _in_order(np.where(np.isinf(launched), began, launched), ended)
    return Lane(begin, end, np.cumsum(end - begin), idle, resumed, *launches, main)


def _thread(profile: Profile, thread: int) -> Lane:
    ops, scopes = (_of(s, thread) for s in (profile.ops, profile.others))
    calls = [
        (c.begin, c.end)
        for c in profile.calls
        if c.lane == thread and c.name.startswith("c10d::")
    ]
    busy = np.concatenate([np.stack(ops, axis=1), np.reshape(calls, (-1, 2))])
    busy = busy[np.argsort(busy[:, 0], kind="stable")]
    gaps = _gaps(*_merged(*busy.T), scopes[0], SHORT)
    begin, end = _merged(*ops)
    none = np.empty(0)
    return Lane(begin, end, np.cumsum(end - begin), *gaps, none, none)


def _of(spans: Spans, thread: int) -> tuple[np.ndarray, np.ndarray]:
    begin, end, number = spans.columns()
    return begin[number == thread], end[number == thread]


def _launched(profile: Profile, correlation: np.ndarray) -> np.ndarray:
    """Return when each kernel was launched; minus infinity where the file lacks it."""
    at, _, number = profile.launches.columns()
    if not len(number):
        return np.full(len(correlation), -np.inf)
    order = np.argsort(number, kind="stable")
    number, at = number[order], at[order]
    place = np.minimum(np.searchsorted(number, correlation), len(number) - 1)
    return np.where(number[place] == correlation, at[place], -np.inf)


def _in_order(launched: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the launches of kernels in order, and when all up to each are finished."""
    order = np.argsort(launched, kind="stable")
    return launched[order], np.maximum.accumulate(end[order])


def _merged(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge intervals that overlap, or lie within each other, to stretches."""
    if not len(begin):
        return begin, end
    latest = np.maximum.accumulate(end)
    starts = np.flatnonzero(np.append(True, begin[1:] > latest[:-1]))
    return begin[starts], latest[np.append(starts[1:] - 1, len(end) - 1)]


def _gaps(
    begin: np.ndarray, end: np.ndarray, scopes: np.ndarray, short: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return begin and end of the gaps between stretches that may be waits.

    scopes: where a thread begins something else: then the gap is before it.
    """
    idle, resumed = end[:-1], begin[1:]
    from_, to = (np.searchsorted(scopes, t, side="right") for t in (idle, resumed))
    chosen = (resumed - idle > short) & (from_ == to)
    return idle[chosen], resumed[chosen]

"""Vectorised replay for millions of messages, with the times of `reference`.

A message takes at least as long as the quickest one from its arrival to its end. So all
arrivals within that time form one wave: none of their effects can come before the last
of them. A wave passes stage after stage, each for all its messages at once. A message
never occupies all its links together: that would be easier, but would make an
all-to-all over shared NICs many times too slow.
"""

from __future__ import annotations

import numpy as np

from collectives_lab.replay.program import Program, Stage, Times


def can_run(program: Program) -> bool:
    """Return whether every message takes some time, without which waves are empty."""
    return bool(program.stages[-1].through[~program.calls.is_signal].min(initial=1) > 0)


def run(program: Program) -> Times:
    """Play the program to its end; phases that never begin keep -1."""
    return _Waves(program).play()


class _Waves:
    def __init__(self, program: Program):
        program = self.program = program
        message_count, phase_count = len(program.calls.send), len(program.length)
        self.begun = np.full(phase_count, -1, np.int64)
        self.latest = np.zeros(phase_count, np.int64)
        self.needs = program.needs.copy()
        self.ends = [
            _Ends(program.calls.send, program.closes),
            _Ends(program.calls.recv, program.closes),
        ]
        self.is_send = np.zeros(len(program.message), dtype=bool)
        self.is_send[program.calls.send] = True
        self.posted = np.zeros(message_count, np.int8)
        self.ready, self.end = (
            np.full(message_count, -1, np.int64),
            np.full(message_count, -1, np.int64),
        )
        self.entered = [np.full(message_count, -1, np.int64) for _ in program.stages]
        self.free = [np.zeros(stage.links, np.int64) for stage in program.stages]
        self.mark = [np.zeros(stage.links, np.int64) for stage in program.stages]
        self.at = np.zeros(message_count, np.int64)
        self.waiting = [_Pool() for _ in program.stages]
        self.some_computes = bool((program.message < 0).any())
        self.some_signals = bool(program.calls.is_signal.any())
        self.beginning: list[tuple[np.ndarray, np.ndarray]] = []
        is_transfer = ~program.calls.is_signal
        last = program.stages[-1].through
        self.quickest = int(last[is_transfer].min()) if is_transfer.any() else 0

    def play(self) -> Times:
        starts = self.program.starts
        self.beginning.append((starts, np.zeros(len(starts), np.int64)))
        while True:
            while self.beginning:
                self.begin(*self.beginning.pop())
            first = min(pool.first() for pool in self.waiting)
            if first == _NEVER:
                break
            self.wave(first + max(self.quickest, 1))
        return Times(self.begun, self.ready, self.end, self.entered)

    def wave(self, until: int) -> None:
        """Let all messages that arrive at a stage before `until` take their links."""
        for number, stage in enumerate(self.program.stages):
            ids = self.waiting[number].take(until)
            if not len(ids):
                continue
            self.pass_stage(number, stage, ids)
            if number + 1 == len(self.program.stages):
                self.finish(ids, self.end[ids])
            else:
                self.waiting[number + 1].add(ids, self.at[ids])

    def pass_stage(self, number: int, stage: Stage, ids: np.ndarray) -> None:
        """Give the links of a stage to messages, first come first served."""
        link = stage.link[ids]
        if link.min() < 0:
            ids, link = ids[link >= 0], link[link >= 0]
        free, mark = self.free[number], self.mark[number]
        number_of = np.arange(len(ids))
        mark[link] = number_of
        if (mark[link] == number_of).all():  # every link has one message
            time = np.maximum(self.at[ids], free[link])
            free[link] = time + stage.busy[ids]
        else:
            order = np.lexsort((ids, self.at[ids], link))
            ids, link = ids[order], link[order]
            time = _queue(link, self.at[ids], stage.busy[ids], free)
        self.at[ids] = self.entered[number][ids] = time
        self.end[ids] = np.maximum(self.end[ids], time + stage.through[ids])

    def finish(self, ids: np.ndarray, times: np.ndarray) -> None:
        """Complete the send and the recv of messages; phases that waited may end."""
        for ends in self.ends:
            phases, end_times = ends.closes[ids], times
            if ends.some_unawaited:
                phases, end_times = phases[phases >= 0], times[phases >= 0]
            if ends.is_alone:
                self.latest[phases] = np.maximum(self.latest[phases], end_times)
                self.needs[phases] -= 1
            else:
                np.maximum.at(self.latest, phases, end_times)
                np.subtract.at(self.needs, phases, 1)
                phases = np.unique(phases)
            self.advance(phases[(self.needs[phases] == 0) & (self.begun[phases] >= 0)])

    def advance(self, phases: np.ndarray) -> None:
        """Begin the next phases of lanes whose awaited calls are all done."""
        phases = phases[self.program.has_next[phases]]
        if len(phases):
            waits = self.begun[phases] + self.program.length[phases]
            start_times = np.maximum(waits, self.latest[phases])
            self.beginning.append((phases + 1, start_times))

    def begin(self, phases: np.ndarray, times: np.ndarray) -> None:
        """Post the calls of phases; messages with send and recv posted start."""
        program = self.program
        counts = program.first[phases + 1] - program.first[phases]
        begins = np.cumsum(counts) - counts
        calls = np.repeat(program.first[phases] - begins, counts) + np.arange(
            counts.sum()
        )
        ids, post_times = (
            program.message[calls],
            np.repeat(times, counts) + program.delay[calls],
        )
        is_send = self.is_send[calls]
        ids = np.concatenate(
            [self.post(ids[end], post_times[end]) for end in (is_send, ~is_send)]
        )
        if self.some_signals:
            signal = program.calls.is_signal[ids]
            self.end[ids[signal]] = self.ready[ids[signal]]
            signals, ids = ids[signal], ids[~signal]
        self.at[ids] = self.end[ids] = self.ready[ids]
        self.waiting[0].add(ids, self.at[ids])
        if self.some_signals:
            self.finish(signals, self.end[signals])
        self.begun[phases] = times
        self.advance(phases[self.needs[phases] == 0])

    def post(self, ids: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Post the send or recv of each message; return those that have both now."""
        if self.some_computes:
            ids, times = ids[ids >= 0], times[ids >= 0]
        self.ready[ids] = np.maximum(self.ready[ids], times)
        self.posted[ids] += 1
        return ids[self.posted[ids] == 2].astype(np.int64)


_NEVER = 2**63 - 1


class _Pool:
    """Messages on their way to a stage, with the times of their arrival.

    Most are kept sorted; late ones are searched linearly until they are too many.
    """

    def __init__(self) -> None:
        self.ids, self.times = np.empty(0, np.int64), np.empty(0, np.int64)
        self.late_ids, self.late_times = self.ids, self.times

    def first(self) -> int:
        """Return the earliest arrival, or a time that never comes."""
        early = int(self.times[0]) if len(self.times) else _NEVER
        return min(early, int(self.late_times.min(initial=_NEVER)))

    def add(self, ids: np.ndarray, times: np.ndarray) -> None:
        """Add messages with the times of their arrival."""
        if not len(self.late_ids):
            self.late_ids, self.late_times = ids, times
            return
        self.late_ids = np.concatenate([self.late_ids, ids])
        self.late_times = np.concatenate([self.late_times, times])

    def take(self, until: int) -> np.ndarray:
        """Remove and return the messages that arrive before `until`."""
        end = int(np.searchsorted(self.times, until))
        ids, self.ids, self.times = self.ids[:end], self.ids[end:], self.times[end:]
        if len(self.late_ids) and self.late_times.max() < until:
            late, self.late_ids = self.late_ids, self.ids[:0]
            self.late_times = self.times[:0]
            ids = np.concatenate([ids, late]) if end else late
        elif len(self.late_ids):
            is_due = self.late_times < until
            ids = np.concatenate([ids, self.late_ids[is_due]])
            self.late_ids = self.late_ids[~is_due]
            self.late_times = self.late_times[~is_due]
        if len(self.late_ids) > 1024 + len(self.ids) // 8:
            self._sort()
        return ids

    def _sort(self) -> None:
        times = np.concatenate([self.times, self.late_times])
        order = np.argsort(times, kind="stable")
        self.ids = np.concatenate([self.ids, self.late_ids])[order]
        self.times = times[order]
        self.late_ids, self.late_times = self.ids[:0], self.times[:0]


class _Ends:
    """The sends or the recvs of all messages, with the phase that waits for each.

    closes: that phase, -1 for none. some_unawaited: whether there are -1. is_alone: no
    phase waits for two of them, so numpy can count without `ufunc.at`.
    """

    def __init__(self, calls: np.ndarray, closes: np.ndarray):
        self.closes = closes[calls]
        waited = self.closes[self.closes >= 0]
        self.some_unawaited = len(waited) < len(self.closes)
        self.is_alone = bool(np.bincount(waited).max(initial=0) <= 1)


def _queue(
    link: np.ndarray,
    time: np.ndarray,
    busy: np.ndarray,
    free: np.ndarray,
) -> np.ndarray:
    """Return when each message, sorted by link and arrival, takes its link.

    The k-th messages of all links are served together. Few links with many messages are
    served link by link instead: with the busy time of earlier messages subtracted, the
    times are a running maximum.
    """
    first = np.flatnonzero(np.append(True, link[1:] != link[:-1]))
    sizes = np.diff(np.append(first, len(link)))
    entered = np.empty_like(time)
    if len(first) < sizes.max():
        for begin, size in zip(first.tolist(), sizes.tolist(), strict=True):
            link_rows = slice(begin, begin + size)
            elapsed = np.cumsum(busy[link_rows])
            before = elapsed - busy[link_rows]
            earliest = np.maximum(time[link_rows], free[link[begin]]) - before
            entered[link_rows] = np.maximum.accumulate(earliest) + before
            free[link[begin]] = entered[begin + size - 1] + busy[begin + size - 1]
        return entered
    for k in range(int(sizes.max())):
        rows = first[sizes > k] + k
        entered[rows] = np.maximum(time[rows], free[link[rows]])
        free[link[rows]] = entered[rows] + busy[rows]
    return entered

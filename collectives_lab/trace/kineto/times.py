"""When each call of a profile was made, waited for, and over.

A profile says when a call was made and, mostly, when it was carried out. It seldom says
where the caller waits for it, which a replay must know: on a slower network the caller
waits there longer. Here `timed` finds it, from what is most certain to what is least:

1. a call that is not asynchronous is waited for where it is made;
2. a wait that the file records ends the oldest call of that thread that is open;
3. a call inside of a backward pass, as DDP makes them, is waited for at its end;
4. a call is waited for in the gap of its lane in which it ends, or that it ends before.

A call for which none of this holds is one that nobody waits for, as far as the file
says; later calls of its group still come after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives_lab.trace.kineto.calls import Call, gloo_spans, read_annotation
from collectives_lab.trace.kineto.lanes import Lane, lane_of
from collectives_lab.trace.kineto.profile import Profile, Slice


@dataclass
class Timed:
    """A call with its times, in seconds of its rank's file; None where not known.

    thread: the number of its lane, 0 for the first one. ended: when it was carried out;
    completed: when its caller went on.
    """

    call: Call
    thread: int
    issued: float
    ended: float | None = None
    waited: float | None = None
    completed: float | None = None


def timed(profile: Profile, calls: list[Call]) -> tuple[list[Timed], dict[int, Lane]]:
    """Return the calls with their times, and the lanes of the rank's threads."""
    lanes = _lanes(profile, calls)
    number = {
        id(lane): n
        for n, lane in enumerate({id(v): v for v in lanes.values()}.values())
    }
    made = [
        Timed(c, number[id(lane)], _issued(c, lane))
        for c in calls
        if c.op and (lane := lanes[c.span.lane])
    ]
    _carried_out(profile, made)
    by_span = {id(t.call): t for t in made}
    _recorded_waits(calls, by_span, lanes)
    _waits_of_backward(profile, made, lanes)
    _waits_in_gaps(made, lanes)
    for one in made:
        if one.waited is None and one.call.is_async is False:
            one.waited = one.issued
        if one.completed is None:
            one.completed = one.ended
        elif one.ended is not None:
            one.completed = max(one.completed, one.ended)
    return made, {number[id(lane)]: lane for lane in lanes.values()}


def _lanes(profile: Profile, calls: list[Call]) -> dict[Any, Lane]:
    """Return the lane of each thread that makes calls; on a GPU all have one."""
    threads = list(dict.fromkeys(call.span.lane for call in calls))
    if len(profile.gpu.begin):
        return dict.fromkeys(threads, lane_of(profile, -1))
    return {thread: lane_of(profile, thread) for thread in threads}


def _issued(call: Call, lane: Lane) -> float:
    at = lane.time(call.span.begin)
    return min(at, call.kernel.begin) if call.kernel else at


def _carried_out(profile: Profile, made: list[Timed]) -> None:
    """Note when each call was over: its kernel's end, or that of Gloo's annotation."""
    spans = iter(gloo_spans(profile))
    following = next(spans, None)
    messages = _message_spans(profile)
    for one in made:
        call = one.call
        if call.kernel:
            one.ended = call.kernel.end
        elif call.op in ("send", "recv"):
            if span := messages.get((call.span.lane, call.op, call.span.begin)):
                one.ended = span.end
                read_annotation(call, span)
        else:
            while following and following.begin < call.span.begin:
                following = next(spans, None)
            if following:
                one.ended = following.end
                read_annotation(call, following)
                following = next(spans, None)


def _message_spans(profile: Profile) -> dict[tuple[int, str, float], Slice]:
    """Return Gloo's annotations of sends and receives, by thread, verb and call."""
    spans, latest = {}, {}
    for one in profile.calls:
        kind, _, name = one.name.partition(":")
        op = name.strip(":_").split("_")[0]
        if kind == "c10d" and op in ("send", "recv"):
            latest[one.lane, op] = one.begin
        elif kind == "gloo" and (one.lane, op) in latest:
            spans[one.lane, op, latest.pop((one.lane, op))] = one
    return spans


def _recorded_waits(
    calls: list[Call], timed_of: dict[int, Timed], lanes: dict[int, Lane]
) -> None:
    """Give calls the waits that the file has: of calls that block, and recorded."""
    open_calls: dict[int, list[Timed]] = {}
    for call in calls:
        of_thread = open_calls.setdefault(call.span.lane, [])
        lane = lanes[call.span.lane]
        if call.op:
            one = timed_of[id(call)]
            if lane.on_gpu and call.kernel and call.kernel.lane == lane.stream:
                one.waited = one.issued  # in the order of the stream itself
            elif call.is_async is False and not lane.on_gpu:
                one.waited, one.completed = one.issued, call.span.end
            of_thread.append(one)
        elif of_thread:
            _wait(of_thread, call.span, lane)


def _wait(open_calls: list[Timed], span: Slice, lane: Lane) -> None:
    """End the call that a record of a wait is for: one that blocks, or the oldest."""
    latest = open_calls[-1]
    number = -1 if latest.call.is_async is False else 0
    if span.name.startswith("emulated:"):
        op = span.name.partition(":")[2]
        alike = [n for n, one in enumerate(open_calls) if one.call.op == op]
        if not alike:
            return
        number = alike[-1] if latest.call.is_async is False else alike[0]
    one = open_calls.pop(number)
    one.waited = lane.time(span.begin) if one.waited is None else one.waited
    one.completed = None if lane.on_gpu else span.end


def _waits_of_backward(
    profile: Profile, made: list[Timed], lanes: dict[int, Lane]
) -> None:
    """Let calls inside of a backward pass be waited for at its end, in their order."""
    outside, engine = np.sort(_outermost(profile)), _engine(profile)
    over: dict[int, float] = {}
    for one in made:
        if one.waited is not None or one.call.op in ("send", "recv"):
            continue
        of_thread, ends = engine.get(one.call.span.lane, (_NONE, _NONE))
        number = int(np.searchsorted(of_thread, one.call.span.begin, "right")) - 1
        if number < 0 or ends[number] < one.call.span.end:
            continue
        stop = np.searchsorted(outside, ends[number], side="right")
        limit = outside[stop] if stop < len(outside) else math.inf
        last = int(np.searchsorted(of_thread, limit)) - 1
        _wait_at(one, float(ends[max(last, number)]), lanes[one.call.span.lane], over)


def _wait_at(one: Timed, time: float, lane: Lane, over: dict[int, float]) -> None:
    """Let a call be waited for at a time of the CPU, and where its lane stands still.

    over: by thread, when the last wait of the same pass was over.
    """
    after = max(lane.time(time), over.get(one.thread, -math.inf))
    one.waited = after
    if lane.on_gpu:
        one.completed = None
    elif gap := lane.gap(after, after + _NEAR):
        one.waited, one.completed = gap
    else:
        one.completed = after
    over[one.thread] = max(after, one.completed or after)


_NEAR = 2e-3
"""Seconds of computing, such as copies, between two waits at the end of a pass."""


_NONE = np.empty(0)


def _engine(profile: Profile) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return begin and end of the ops of autograd's engine, by thread."""
    begin, end, thread = profile.engine.columns()
    threads = np.unique(thread).tolist()
    return {t: (begin[thread == t], end[thread == t]) for t in threads}


def _outermost(profile: Profile) -> np.ndarray:
    """Return when ops and scopes begin that lie in no other event and not in a pass."""
    columns = [s.columns() for s in (profile.engine, profile.others, profile.ops)]
    begin, end, thread = (np.concatenate(c) for c in zip(*columns, strict=True))
    in_pass = np.repeat([True, False, False], [len(c[0]) for c in columns])
    begins = []
    for number in np.unique(thread):
        own = np.flatnonzero(thread == number)
        own = own[np.lexsort((-end[own], begin[own]))]
        latest = np.maximum.accumulate(end[own]) if len(own) else end[own]
        alone = np.append(True, begin[own][1:] >= latest[:-1])
        begins.append(begin[own][alone & ~in_pass[own]])
    return np.concatenate(begins) if begins else np.empty(0)


def _waits_in_gaps(made: list[Timed], lanes: dict[int, Lane]) -> None:
    """Let calls be waited for where their lane stands still until they are over."""
    for one in made:
        lane = lanes[one.call.span.lane]
        if one.waited is not None or one.ended is None:
            continue
        after = max(one.issued, one.call.span.end if not lane.on_gpu else one.issued)
        if one.ended <= after and not lane.on_gpu:
            one.waited, one.completed = one.issued, after
            continue
        gap = lane.gap(after, one.ended, one.ended)
        if gap:
            one.waited, one.completed = gap[0], None if lane.on_gpu else gap[1]

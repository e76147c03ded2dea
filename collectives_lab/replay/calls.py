"""Calls of a trace, in the order in which every lane makes them.

A *lane* makes one call after another: a thread of a rank, or the stream in which a rank
runs the collectives of one group. Here you can read a Trace as `Calls` (`calls_of`);
`expand` then replaces each collective by the plan of an algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collectives_lab.trace import Trace


@dataclass(frozen=True, eq=False)
class Calls:
    """Columns of calls, sorted by lane, and of the messages between them.

    issued, waited: on a clock of the lane; waited is NaN for a call without a wait.
    ended: the time at which the caller continued after the wait. seconds: the duration
    of a compute, 0 for other calls. row: the row of the trace for a call, -1 for a call
    inside of a collective. threads: lanes below this are threads of the recorded
    program, whose clock is in seconds if `timed`. send, recv: the calls of each
    message. is_signal: messages between two lanes of a rank, which take no time.
    """

    lane: np.ndarray
    rank: np.ndarray
    nbytes: np.ndarray
    issued: np.ndarray
    waited: np.ndarray
    ended: np.ndarray
    seconds: np.ndarray
    row: np.ndarray
    threads: int
    timed: bool
    send: np.ndarray
    recv: np.ndarray
    is_signal: np.ndarray

    def __len__(self) -> int:
        return len(self.lane)

    def computes(self, compute: float) -> bool:
        """Return whether there is computing between the points of some lane."""
        return bool(self.seconds.any() or (compute and self.timed))

    def gaps(self, call: np.ndarray, is_wait: np.ndarray, compute: float) -> np.ndarray:
        """Return the seconds of computing before each point: a call or a wait.

        call, is_wait: the points in the order of their lanes. compute: the factor on
        the recorded time between a rank's calls. The duration of a compute event comes
        before its own point.
        """
        seconds = self.seconds[call]
        gap = np.where(is_wait, 0.0, seconds)
        if compute and self.timed:
            lane, time = self.lane[call], self._times(call, is_wait)
            resumed = np.where(is_wait, self.ended[call], time + seconds)
            earliest = float(self.issued[self.lane < self.threads].min())
            previous = np.full(len(call), earliest)
            same_lane = lane[1:] == lane[:-1]
            previous[1:][same_lane] = np.fmax(resumed, time)[:-1][same_lane]
            idle = np.maximum(time - previous, 0)
            gap += np.where(lane < self.threads, idle, 0) * compute
        return gap

    def _times(self, call: np.ndarray, is_wait: np.ndarray) -> np.ndarray:
        return np.where(is_wait, self.waited[call], self.issued[call])


def calls_of(trace: Trace, is_complete: bool = True) -> Calls:
    """Read the sends, recvs and computes of a trace; collectives stay single calls.

    A trace without times is read as calls that wait one by one, except isend and irecv,
    which then have no wait. Raises ValueError for a recv without a send and for a send
    with a wait but without a recv, unless the trace is not `is_complete`, and for
    impossible sizes and seconds.
    """
    columns = trace.columns
    issued, waited = columns["issued"], columns["waited"]
    timed = trace.meta.get("clock") != "steps" and not np.isnan(issued).any()
    computes = trace.is_op("compute")
    if np.isnan(issued).any():
        issued = np.arange(len(trace), dtype=np.float64)
        nonblocking = [i for i, t in enumerate(trace.texts) if t in ("isend", "irecv")]
        waited = np.where(np.isin(columns["variant"], nonblocking), np.nan, issued)
    if computes.any():
        waited = np.where(computes, np.nan, waited)
    send, recv = trace.pairs()
    if is_complete:
        _check_matched(trace, send, recv, waited)
    _check_sizes(trace, send, recv)
    threads = int(columns["thread"].max(initial=0)) + 1
    lane = columns["rank"]
    if threads > 1:
        lane = lane * np.int32(threads) + columns["thread"]
    calls = Calls(
        lane,
        columns["rank"],
        columns["nbytes"],
        issued,
        waited,
        columns["completed"],
        np.nan_to_num(columns["seconds"]) if computes.any() else _zeros(len(trace)),
        np.arange(len(trace), dtype=np.int32),
        trace.world_size * threads,
        timed,
        send,
        recv,
        np.zeros(len(send), dtype=bool),
    )
    return by_lane(calls)


def _zeros(n: int) -> np.ndarray:
    return np.broadcast_to(np.float64(0), n)


def by_lane(calls: Calls) -> Calls:
    """Return the calls sorted by lane, and in a lane by the time of issue."""
    lane, issued = calls.lane, calls.issued
    in_order = lane[1:] > lane[:-1]
    in_order |= (lane[1:] == lane[:-1]) & (issued[1:] >= issued[:-1])
    if in_order.all():
        return calls
    order = np.lexsort((issued, lane))
    new_position = np.empty(len(order), dtype=np.int32)
    new_position[order] = np.arange(len(order), dtype=np.int32)
    columns = ("lane", "rank", "nbytes", "issued", "waited", "ended", "seconds", "row")
    moved = {name: getattr(calls, name)[order] for name in columns}
    return replace(
        calls, **moved, send=new_position[calls.send], recv=new_position[calls.recv]
    )


def _check_matched(
    trace: Trace, send: np.ndarray, recv: np.ndarray, waited: np.ndarray
) -> None:
    """Raise ValueError for a recv without a send, or a send with a wait but no recv."""
    for op, matched in (("recv", recv), ("send", send)):
        unmatched = trace.is_op(op)
        unmatched[matched] = False
        if op == "send":
            unmatched &= ~np.isnan(waited)
        if unmatched.any():
            event = trace.event(int(np.flatnonzero(unmatched)[0]))
            side, counterpart = ("from", "send") if op == "recv" else ("to", "recv")
            peer = "any rank" if event.peer is None else f"rank {event.peer}"
            location = f" at {event.where}" if event.where else ""
            raise ValueError(
                f"rank {event.rank}: its {op} of {event.nbytes} bytes {side} {peer}, "
                f"tag {event.tag}{location}, meets no {counterpart}; need both ends of "
                "a message"
            )


def _check_sizes(trace: Trace, send: np.ndarray, recv: np.ndarray) -> None:
    """Raise ValueError for different sizes of send and recv, or a bad duration."""
    nbytes = trace.columns["nbytes"]
    wrong = np.flatnonzero(nbytes[send] != nbytes[recv])
    if len(wrong):
        sender, receiver = (trace.event(int(rows[wrong[0]])) for rows in (send, recv))
        raise ValueError(
            f"rank {sender.rank} sends {sender.nbytes} bytes to rank {receiver.rank}, "
            f"which receives {receiver.nbytes}; need the same number"
        )
    computes = np.flatnonzero(trace.is_op("compute"))
    seconds = trace.columns["seconds"][computes]
    wrong = computes[~((seconds >= 0) & np.isfinite(seconds))]
    if len(wrong):
        event = trace.event(int(wrong[0]))
        raise ValueError(
            f"rank {event.rank}: a compute of {event.seconds} seconds; need a number, "
            "0 or more"
        )

"""The calls of a trace in the order in which every lane makes them.

A *lane* makes one call after another: a thread of a rank, or the stream in which a rank
runs the collectives of one group. Here a Trace becomes `Calls`, in which the
collectives that it holds as black boxes are opened by the plan of an algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collectives_lab.trace import Trace


@dataclass(frozen=True, eq=False)
class Calls:
    """Columns of calls, sorted by lane, and of the messages between them.

    issued, waited: on a clock of the lane's own; waited is NaN for a call that is not
    waited for. ended: when the caller went on after the wait. seconds: what a compute
    takes, 0 for other calls. row: the row of the trace that a call stands for, -1 for
    what has come out of a collective. threads: lanes below this are threads of the
    reader's, whose clock is in seconds if `timed`. send, recv: the calls of each
    message. is_signal: messages between two lanes of a rank, which take no time.
    """

    lane: np.ndarray
    rank: np.ndarray
    issued: np.ndarray
    waited: np.ndarray
    ended: np.ndarray
    seconds: np.ndarray
    row: np.ndarray
    threads: int
    timed: bool
    send: np.ndarray
    recv: np.ndarray
    nbytes: np.ndarray
    is_signal: np.ndarray

    def __len__(self) -> int:
        return len(self.lane)

    def gaps(self, call: np.ndarray, is_wait: np.ndarray, compute: float) -> np.ndarray:
        """Seconds of computing before each point of a lane: a call, or a wait for one.

        call, is_wait: the points in the order of their lanes. compute: how many times
        the recorded time between a rank's calls; before a compute's own point comes
        what it takes.
        """
        seconds = self.seconds[call]
        gap = np.where(is_wait, 0.0, seconds)
        if compute and self.timed:
            lane, time = self.lane[call], self._times(call, is_wait)
            goes_on = np.where(is_wait, self.ended[call], time + seconds)
            before = np.full(len(call), self.issued[self.lane < self.threads].min())
            same = lane[1:] == lane[:-1]
            before[1:][same] = np.fmax(goes_on, time)[:-1][same]
            idle = np.maximum(time - before, 0)
            gap += np.where(lane < self.threads, idle, 0) * compute
        return gap

    def _times(self, call: np.ndarray, is_wait: np.ndarray) -> np.ndarray:
        return np.where(is_wait, self.waited[call], self.issued[call])


def calls_of(trace: Trace, is_complete: bool = True) -> Calls:
    """Read the sends, recvs and computes of a trace; its collectives are left closed.

    A trace without times is read as calls that wait one by one, but for isend and
    irecv, which then nobody waits for. Raises ValueError for a recv, or a send that is
    waited for, that no other rank answers, unless it is not `is_complete`, and for
    sizes and seconds that cannot be.
    """
    c = trace.columns
    issued, waited = c["issued"], c["waited"]
    timed = trace.meta.get("clock") != "steps" and not np.isnan(issued).any()
    computes = trace.is_op("compute")
    if np.isnan(issued).any():
        issued = np.arange(len(trace), dtype=np.float64)
        goes_on = [i for i, t in enumerate(trace.texts) if t in ("isend", "irecv")]
        waited = np.where(np.isin(c["variant"], goes_on), np.nan, issued)
    if computes.any():
        waited = np.where(computes, np.nan, waited)
    send, recv = trace.pairs()
    if is_complete:
        _check_answered(trace, send, recv, waited)
    _check_sizes(trace, send, recv)
    threads = int(c["thread"].max(initial=0)) + 1
    lane = c["rank"] * np.int32(threads) + c["thread"]
    calls = Calls(
        lane if threads > 1 else c["rank"],
        c["rank"],
        issued,
        waited,
        c["completed"],
        np.nan_to_num(c["seconds"]) if computes.any() else _zeros(len(trace)),
        np.arange(len(trace), dtype=np.int32),
        trace.world_size * threads,
        timed,
        send.astype(np.int32),
        recv.astype(np.int32),
        c["nbytes"][send],
        np.zeros(len(send), dtype=bool),
    )
    return by_lane(calls)


def _zeros(n: int) -> np.ndarray:
    return np.broadcast_to(np.float64(0), n)


def by_lane(calls: Calls) -> Calls:
    """The same calls with those of a lane beside each other, as they are issued."""
    lane, issued = calls.lane, calls.issued
    in_order = lane[1:] > lane[:-1]
    in_order |= (lane[1:] == lane[:-1]) & (issued[1:] >= issued[:-1])
    if in_order.all():
        return calls
    order = np.lexsort((issued, lane))
    now_at = np.empty(len(order), dtype=np.int32)
    now_at[order] = np.arange(len(order), dtype=np.int32)
    columns = ("lane", "rank", "issued", "waited", "ended", "seconds", "row")
    moved = {name: getattr(calls, name)[order] for name in columns}
    return replace(calls, **moved, send=now_at[calls.send], recv=now_at[calls.recv])


def _check_answered(
    trace: Trace, send: np.ndarray, recv: np.ndarray, waited: np.ndarray
) -> None:
    """Every recv must have its send, and every send that is waited for its recv."""
    for op, met in (("recv", recv), ("send", send)):
        alone = trace.is_op(op)
        alone[met] = False
        if op == "send":
            alone &= ~np.isnan(waited)
        if alone.any():
            e = trace.event(int(np.flatnonzero(alone)[0]))
            side, answer = ("from", "send") if op == "recv" else ("to", "recv")
            peer = "any rank" if e.peer is None else f"rank {e.peer}"
            place = f" at {e.where}" if e.where else ""
            raise ValueError(
                f"rank {e.rank}: its {op} of {e.nbytes} bytes {side} {peer}, tag "
                f"{e.tag}{place}, meets no {answer}; need both ends of a message"
            )


def _check_sizes(trace: Trace, send: np.ndarray, recv: np.ndarray) -> None:
    """A message has one size, and computing takes some time."""
    nbytes = trace.columns["nbytes"]
    wrong = np.flatnonzero(nbytes[send] != nbytes[recv])
    if len(wrong):
        one, other = (trace.event(int(rows[wrong[0]])) for rows in (send, recv))
        raise ValueError(
            f"rank {one.rank} sends {one.nbytes} bytes to rank {other.rank}, which "
            f"receives {other.nbytes}; need the same number"
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

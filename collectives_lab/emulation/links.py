"""The links of one rank: its calls take as long as a fabric makes them take.

Nothing is kept back on its way: the library carries a transfer out at once, and who
waits for it goes on when it would have ended on the fabric, or when it has really
ended, if that is later. The recorder tells of every call, so here you can `post` a
message, `come` to a collective, `hold` the work of one that is not waited for, and
`sleep` until a call is over.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch.profiler import record_function

from collectives_lab.emulation.collective_steps import Asked
from collectives_lab.emulation.delayed_works import LONG, POLL, DelayedWorks
from collectives_lab.emulation.network import Message, Share
from collectives_lab.emulation.shared import MOST, SharedNetwork
from collectives_lab.recorder import torch_ops
from collectives_lab.recorder.call_record import Record, now

TOO_LATE = "the work has not ended within the timeout of its wait"


class _Clock(threading.local):
    """The network's clock for one thread, which may be behind the machine's.

    It stands while the thread is in a call and moves on by what the call takes on the
    network. What a call costs here, and a rank that is woken late, are not the
    program's doing: its next call counts from when the program would have made it, and
    the thread catches up in its next wait.
    """

    behind = since = 0.0

    def __init__(self) -> None:
        """Let the thread wake when its time has come, whatever else the cores do.

        By the policy of the ranks, SCHED_BATCH, it would wait for its turn.
        """
        if hasattr(os, "SCHED_OTHER"):
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def at(self, moment: float) -> float:
        """Return the network's time at a moment after the thread's last call."""
        return max(moment, self.since) - self.behind

    def go_on(self, time: float, most: float) -> float:
        """Go on at a time of the network that may have passed; return what is lost."""
        self.since = now()
        behind = self.since - time
        self.behind = min(behind, most)
        return behind - self.behind


class Links:
    """The transfers of one rank on the emulated network of its group."""

    def __init__(self, rank: int, network: SharedNetwork):
        """Be `rank` on this network; starts a thread, which `cancel` ends."""
        self.rank = rank
        self.network = network
        self._lost = 0.0
        self._clock = _Clock()
        self._cancelled = threading.Event()
        self._held = DelayedWorks(network)

    # -- a call --------------------------------------------------------------------

    def post(self, record: Record) -> None:
        """Put one end of a message on the network, before the library hears of it.

        Not that of a recv from any rank, which has no sender yet. Whatever the call,
        other ranks that are due go first, since for this one no time passes.
        """
        os.sched_yield()
        if record.is_message and record.peer is not None:
            message, nbytes = self._message(record), record.call.nbytes
            time = self._clock.at(record.issued)
            self.network.change(lambda net: net.post(message, nbytes, time))

    def withdraw(self, record: Record) -> None:
        """Take back a message that the library has refused."""
        if record.peer is not None:
            message = self._message(record)
            self.network.change(lambda net: net.withdraw(message))

    def come(self, record: Record) -> None:
        """Take part in a collective on the network."""
        row = record.row(self.rank, 0)
        request = Asked(row.op, row.nbytes, row.root, row.dtype, row.splits)
        share, ranks = self._share(record), record.group.ranks
        time = self._clock.at(record.issued)
        self.network.change(lambda net: net.come(share, ranks, request, time))

    def hold(self, record: Record, result: Any) -> Any:
        """Note that the library has taken a call; return what its caller gets.

        For a collective that is not waited for at once, this is a work that ends on
        time. Its caller may wait for it unseen, so it has nothing left to catch up.
        """
        work = None
        if record.call.on_cpu and not record.is_message:  # else it ends when queued
            self.come(record)
            work = None if record.call.waits else torch_ops.work_of(result)
        self._go_on(self._clock.at(record.issued), 0.0 if work is not None else MOST)
        if work is None:
            return result
        delayed = self._held.hold(self._share(record), work)
        return (*result[:-1], delayed) if isinstance(result, tuple) else delayed

    # -- its end -------------------------------------------------------------------

    def meeting(
        self,
        record: Record,
        work: Any,
        go: Callable[[], Any],
        timeout: timedelta | None,
    ) -> Callable[[], Any]:
        """Return what waits for a call until it has really ended: `go`, and more.

        From a collective a rank may come back before others have called it. On the
        network it then still waits for those that it needs, and so it does here.
        """
        if timeout is not None and not record.call.waits:
            until = now() + timeout.total_seconds()
            if record.is_message:
                return lambda: self._received(record, go, until)
            return lambda: self._within(work, until)
        if record.is_message:
            return go
        share = self._share(record)

        def wait() -> Any:
            result = go()
            if record.call.on_cpu and not record.call.waits:
                _raise_failure(work)
            while self.network.forecast().get(share) == math.inf:
                self._rest(POLL)
            return result

        return wait

    def _within(self, work: Any, until: float) -> bool:
        """Wait for a work that was held, which cannot do so for a time by itself."""
        while not work.is_completed():
            if now() > until:
                raise RuntimeError(TOO_LATE)
            self._rest(POLL)
        _raise_failure(work)
        return True

    def _received(self, record: Record, go: Callable[[], Any], until: float) -> Any:
        """Wait for a message, unless it is known to take longer on the network."""
        result = go()
        ends = self.network.forecast()
        end = 0.0 if record.peer is None else ends.get(self._message(record), 0.0)
        if until < end < math.inf:
            self._rest(max(until - now(), 0.0))
            raise RuntimeError(TOO_LATE)
        return result

    def sleep(self, record: Record) -> None:
        """Wait until a call that has really ended is over on the network too."""
        if record.is_message:
            key: Message | Share = self._message(record)
        else:
            key = self._share(record)
        begun = record.issued if record.waited is None else record.waited
        time = self._clock.at(begun)
        looked = now()
        end = self.network.forecast().get(key, time)  # forgotten: over for a while
        if end == math.inf and record.is_message:
            end = self._met(record)
        if end > looked:
            # A profile has this as what the call takes, which it cannot know otherwise.
            with record_function(f"emulated:{record.op}"):
                while end > looked:
                    self._rest(end - looked)
                    os.sched_yield()
                    looked = record.completed = now()  # before what it is compared with
                    end = self.network.forecast().get(key, end)
        self._go_on(max(time, end), 0.0 if record.op == "barrier" else MOST)

    def _met(self, record: Record) -> float:
        """Return when a message ends whose recv, from any rank, was not known before.

        Its sender knows it now, its receiver has been ready for it since it asked.
        """
        message, nbytes = self._message(record), record.call.nbytes
        since = now() if record.op == "send" else record.issued
        self.network.change(lambda net: net.complete(message, nbytes, since))
        return self.network.forecast().get(message, since)

    def lateness(self) -> float:
        """Return the seconds that this machine has added, since it was last asked.

        They are what was not caught up, and never will be by the thread that asks.
        """
        self._go_on(self._clock.at(now()), 0.0)
        lost, self._lost = self._lost, 0.0
        return lost

    def cancel(self) -> None:
        """Let nobody sleep any longer, in any thread; the calls are lost."""
        self._cancelled.set()
        self._held.close()

    def _rest(self, seconds: float) -> None:
        if self._cancelled.wait(min(seconds, LONG)):
            raise KeyboardInterrupt

    def _go_on(self, time: float, most: float) -> None:
        self._lost += self._clock.go_on(time, most)

    def _message(self, record: Record) -> Message:
        src, dst = record.ends(self.rank)
        return Message(record.group.name, record.call.tag, src, dst, record.number)

    def _share(self, record: Record) -> Share:
        return Share(record.group.name, record.number, self.rank)


def _raise_failure(work: Any) -> None:
    """Raise the error of a held work that has failed; its own wait does not."""
    work.get_future().wait()

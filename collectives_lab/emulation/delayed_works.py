"""Works of asynchronous collectives, ended when the emulated network has carried them.

A collective with `async_op=True`, and those of DDP and of functional collectives, gives
its caller a work at once. Here a thread (`DelayedWorks`) has that work end when both
are over, the real collective and the emulated one, so what runs meanwhile overlaps.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from collectives_lab.emulation.network import Share
from collectives_lab.emulation.shared import SharedNetwork
from collectives_lab.recorder import torch_ops
from collectives_lab.recorder.call_record import now
from collectives_lab.recorder.call_site import OwnThread

POLL = 0.002
"""Seconds between two looks at what depends on calls that others have yet to make."""

LONG = 1e6
"""Seconds that can be slept at once, whatever the machine; what is longer is cut."""

_wait = torch_ops.Work.wait
"""torch's own."""


class _Work(NamedTuple):
    """A real work: its share of a collective, its future, and the future's value."""

    share: Share
    future: torch.futures.Future
    value: Any


class DelayedWorks:
    """A thread that ends works on time."""

    def __init__(self, network: SharedNetwork):
        self._network = network
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._closed = False
        OwnThread(self._serve, name="links").start()

    def hold(self, share: Share, work: Any) -> Any:
        """Return a work, in torch's box, for the one of a collective that has begun."""
        future: torch.futures.Future = torch.futures.Future()

        def really_ended(real: torch.futures.Future) -> None:
            try:
                value: Any = real.value()
            except Exception as error:
                future.set_result(error)
            else:
                self._queue.put(_Work(share, future, value))

        try:
            real = work.get_future()
        except RuntimeError:  # Gloo's reduce_scatter has none
            real = _future_of(work)
        delayed = torch_ops.boxed_work(future.then(self._value))
        real.add_done_callback(really_ended)
        return delayed

    def _value(self, future: torch.futures.Future) -> Any:
        """Return what the collective gave.

        The error that it ended with, unless we end it.
        """
        value = future.value()
        if isinstance(value, Exception) and not self._closed:
            raise value
        return value

    def close(self) -> None:
        """End all works at once, and the thread."""
        self._closed = True
        self._queue.put(None)

    def _serve(self) -> None:
        waiting: list[_Work] = []
        pause: float | None = None
        while not self._closed:
            try:
                work = self._queue.get(timeout=pause)
                waiting += [work] if work is not None else []
            except queue.Empty:
                pass
            time = now()  # before what it is compared with
            ends = self._network.forecast()
            over = [w for w in waiting if ends.get(w.share, 0.0) <= time]
            waiting = [w for w in waiting if w not in over]
            for work in over:
                _end(work)
            pause = _until_next(waiting, ends)
        for work in waiting:
            _end(work)


def _end(work: _Work) -> None:
    """End a work in a thread of its own, as its callbacks may wait for another work.

    DDP's PowerSGD hook does, and what the reader has hung on the future runs here too.
    """
    end = work.future.set_result
    OwnThread(end, work.value, name="links", runs_readers_code=True).start()


def _future_of(work: Any) -> torch.futures.Future:
    """Return a future for a work that has none: a thread waits for it."""
    future: torch.futures.Future = torch.futures.Future()

    def wait() -> None:
        try:
            with torch.inference_mode():  # what it writes may be an inference tensor
                _wait(work)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result([])

    OwnThread(wait, name="links").start()
    return future


def _until_next(waiting: list[_Work], ends: Mapping[tuple, float]) -> float | None:
    """Return seconds until one of them may be over; None if there are none."""
    if not waiting:
        return None
    end = min(ends.get(work.share, 0.0) for work in waiting)
    return POLL if end == math.inf else min(max(end - now(), 0.0), LONG)

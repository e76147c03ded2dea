"""When work on a GPU began and ended, in seconds of the host's clock.

A call of NCCL returns as soon as it is queued, so what the host's clock says then is
when it was launched. Here `Stamps` puts CUDA events round a call, without waiting for
anything, and `read` turns them into seconds once the GPU has come by. What is read
looks like a call of Gloo: when the stream came to the operation, when it came to the
wait for it, and when the operation ended. Without a GPU the tests run it with events of
their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol

import torch

PATIENCE = 1.0
"""Seconds that a GPU may still need after a job; then its times stay unknown."""

now = time.perf_counter


class CudaEvent(Protocol):
    """The part of torch.cuda.Event that is used."""

    def record(self, stream: Any) -> None:
        """Note the time when a stream comes here."""

    def query(self) -> bool:
        """Return whether it has."""

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to another."""


def recorded(device: int) -> CudaEvent:
    """Return an event where the current stream of a GPU is."""
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def is_capturing() -> bool:
    """Return whether calls are put into a CUDA graph: then nothing happens now."""
    return torch.cuda.is_current_stream_capturing()


class Stamps:
    """Events of one call: begun, waited (if a wait came later), ended."""

    __slots__ = ("begun", "device", "ended", "waited")

    def __init__(self, device: int):
        self.device = device
        self.begun = recorded(device)
        self.waited: CudaEvent | None = None
        self.ended: CudaEvent | None = None

    def ends_with(self, work: Any) -> None:
        """Note the end of a call; work: what it returned, None if nothing.

        NCCL's future is done as soon as its work is queued, and runs what is added to
        it at once, on a stream that waits for the work and for nothing else.
        """
        if work is None:
            self.ends_here()
        else:
            work.get_future().add_done_callback(lambda _: self.ends_here())

    def ends_here(self) -> None:
        """Note the end where the current stream is, which waits for the call."""
        self.ended = recorded(self.device)

    def waits_here(self) -> None:
        """Note that the current stream waits for the call from here on."""
        self.waited = recorded(self.device)


Times = tuple[float, float | None, float]
"""When a call was begun, waited for (if later), and ended."""


def read(stamps: Iterable[Stamps], patience: float = 0.0) -> dict[Stamps, Times]:
    """Return the times of those whose events have come by.

    Waits for them so long.
    """
    pending, until = list(stamps), now() + patience
    while now() < until and not all(map(_is_complete, pending)):
        time.sleep(0.001)
    pending = [one for one in pending if _is_over(one)]
    clocks = {device: _clock(device) for device in {one.device for one in pending}}
    times = {}
    for one in pending:
        clock = clocks[one.device]
        if clock is not None:
            times[one] = _times(one, *clock)
    return times


def _is_over(stamps: Stamps) -> bool:
    return stamps.ended is not None and stamps.ended.query()


def _is_complete(stamps: Stamps) -> bool:
    return _is_over(stamps) and _is_past(stamps)


def _is_past(stamps: Stamps) -> bool:
    return stamps.waited is None or stamps.waited.query()


def _times(stamps: Stamps, clock: CudaEvent, reading: float) -> Times:
    begun = reading - stamps.begun.elapsed_time(clock) / 1e3
    ended = begun + stamps.begun.elapsed_time(stamps.ended) / 1e3
    if stamps.waited is None or not _is_past(stamps):
        return begun, None, ended
    return begun, begun + stamps.begun.elapsed_time(stamps.waited) / 1e3, ended


def free_stream(device: int) -> Any:
    """Return a block whose current stream is one with nothing on it."""
    return torch.cuda.stream(torch.cuda.Stream(device))


def _clock(device: int) -> tuple[CudaEvent, float] | None:
    """Return an event on a stream with nothing else on it, and when it was by our
    clock.

    The best of three, some ten microseconds wide; None where the GPU does not answer.
    """
    best: tuple[float, CudaEvent, float] | None = None
    for _ in range(3):
        with free_stream(device):
            before = now()
            event = recorded(device)
        while not event.query():
            if now() > before + PATIENCE:
                return None
        after = now()
        if best is None or after - before < best[0]:
            best = after - before, event, (before + after) / 2
    return None if best is None else best[1:]

"""What recording costs: an operation that does next to nothing, and a large one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row, interleave, spread
from benchmarks.peers.unseen import BATCH, begin
from benchmarks.worker import Worker
from collectives_lab import recorder

LARGE = 2**20
"""Elements of 4 bytes: 4 MiB."""


@contextlib.contextmanager
def not_recording() -> Iterator[None]:
    """The interposer stays in the dispatcher, but nobody listens."""
    kept = recorder.current()
    recorder.start(None)
    try:
        yield
    finally:
        recorder.start(kept)


def small_all_reduces(is_recorded: bool) -> float:
    """Seconds an all_reduce of one rank alone, over a batch of them."""
    x = torch.ones(4)
    with contextlib.nullcontext() if is_recorded else not_recording():
        begun = time.perf_counter()
        for _ in range(BATCH):
            dist.all_reduce(x)
        return (time.perf_counter() - begun) / BATCH


def large_all_reduces(pairs: int) -> list[list[float]]:
    """Seconds of each all_reduce of 4 MiB from a barrier on: recorded, and not."""
    x = torch.zeros(LARGE)

    def one() -> float:
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(x)
        return time.perf_counter() - begun

    def unrecorded() -> float:
        with not_recording():
            return one()

    return interleave(one, unrecorded, rounds=pairs)


def measure(quick: bool) -> list[Row]:
    """The cost of an operation against both peers, and of a large all_reduce."""
    return [*an_operation(3 if quick else 60), a_large_one(3 if quick else 300)]


def an_operation(rounds: int) -> list[Row]:
    """One rank alone: on torch's fake backend nothing but calls is left; and on Gloo.

    On Gloo the call hands over to a thread, and whether that one is done before the
    caller waits, or must be woken, moves the time by more than recording does.
    """
    return [
        *_an_operation("fake", "an all_reduce that moves nothing, recorded", rounds),
        *_an_operation("gloo", "an all_reduce by one rank of Gloo, recorded", rounds),
    ]


def _fake_group() -> None:
    dist.destroy_process_group()
    begin("fake", "")


def _an_operation(backend: str, what: str, rounds: int) -> list[Row]:
    with Worker("benchmarks.peers.unseen", backend) as peer, lab.Ranks(1) as ranks:
        if backend == "fake":
            ranks.run(_fake_group)

        def batch(is_recorded: bool) -> Callable[[], float]:
            return lambda: ranks.run(small_all_reduces, (is_recorded,)).results[0]

        sides = (batch(True), batch(False), peer.ask)
        on, off, none = interleave(*sides, rounds=rounds)
    return [
        _costs(what, on, "torch alone", none),
        _costs("the same", on, "recorder off", off),
    ]


def _costs(what: str, on: list[float], name: str, other: list[float]) -> Row:
    more = [a - b for a, b in zip(on, other, strict=True)]
    reached, added = median(more) <= 25e-6, spread(more, "us", "+")
    return Row("recording", what, "us", on, "+25 us", reached, name, other, added)


def a_large_one(pairs: int) -> Row:
    """An operation ends with its last rank; neighbours in time are compared."""
    taken = lab.run(large_all_reduces, 4, (pairs,), timeout=240).results
    on, off = ([max(t) for t in zip(*s, strict=True)] for s in zip(*taken, strict=True))
    more = [a / b - 1 for a, b in zip(on, off, strict=True)]
    return Row(
        "recording",
        "an all_reduce of 4 MiB on 4 ranks, recorded",
        "ms",
        on,
        "+3 %",
        median(more) <= 0.03,
        "recorder off",
        off,
        spread(more, "%", "+"),
    )

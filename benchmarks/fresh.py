"""4 fresh ranks to the first all_reduce, beside `mp.spawn` and a plain fork."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row, interleave, times_faster
from benchmarks.worker import Worker

PAUSE = 0.1
"""Seconds between two runs, as between two cells of a quick reader."""


def first_all_reduce() -> float:
    """All_reduce once; return the time after it, on the clock of all processes."""
    dist.all_reduce(torch.ones(4))
    return time.perf_counter()


def ours() -> float:
    """Return the seconds from the call to the last rank's first all_reduce."""
    start = time.perf_counter()
    return max(lab.run(first_all_reduce, 4).results) - start


def measure(quick: bool) -> list[Row]:
    """Measure both rows; runs of ours and of the peer take turns."""
    return [beside_spawn(1 if quick else 7), beside_fork(1 if quick else 8)]


def beside_spawn(rounds: int) -> Row:
    """Measure beside `mp.spawn`, which starts four interpreters that import torch."""
    with Worker("benchmarks.peers.spawn") as peer:
        samples, peer_samples = interleave(ours, peer.ask, rounds=rounds, pause=PAUSE)
    ratio = times_faster(samples, peer_samples)
    return Row(
        "fresh",
        "4 fresh ranks to the first all_reduce",
        "ms",
        samples,
        "25 times faster",
        ratio >= 25,
        "mp.spawn",
        peer_samples,
        f"{ratio:.0f} times faster",
    )


def beside_fork(rounds: int) -> Row:
    """Measure beside a fork, in blocks of five, so most runs follow their own kind."""
    with Worker("benchmarks.peers.fork") as peer:
        samples, peer_samples = interleave(
            ours, peer.ask, rounds=rounds, runs=5, pause=PAUSE
        )
    ratio = times_faster(samples, peer_samples)
    return Row(
        "fresh",
        f"the same, runs {PAUSE} s apart",
        "ms",
        samples,
        "no slower",
        ratio >= 1,
        "a plain fork",
        peer_samples,
        f"{ratio:.1f} times faster",
    )

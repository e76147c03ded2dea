"""4 fresh ranks to the first all_reduce, beside `mp.spawn` and a plain fork."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

import collectives_lab as lab
from benchmarks.measure import Row, interleave, times_faster
from benchmarks.worker import Worker

PAUSE = 0.1
"""Seconds between two runs, as between two cells of somebody quick."""


def first_all_reduce() -> float:
    """All_reduce once; return the time after it, on the clock all processes share."""
    dist.all_reduce(torch.ones(4))
    return time.perf_counter()


def ours() -> float:
    """Seconds from the call to the last rank's first all_reduce."""
    begun = time.perf_counter()
    return max(lab.run(first_all_reduce, 4).results) - begun


def measure(quick: bool) -> list[Row]:
    """Both rows; each peer has runs of ours between its own."""
    return [beside_spawn(1 if quick else 7), beside_fork(1 if quick else 8)]


def beside_spawn(rounds: int) -> Row:
    """`mp.spawn` starts four interpreters, and each imports torch."""
    with Worker("benchmarks.peers.spawn") as peer:
        mine, other = interleave(ours, peer.ask, rounds=rounds, pause=PAUSE)
    ratio = times_faster(mine, other)
    return Row(
        "fresh",
        "4 fresh ranks to the first all_reduce",
        "ms",
        mine,
        "25 times faster",
        ratio >= 25,
        "mp.spawn",
        other,
        f"{ratio:.0f} times faster",
    )


def beside_fork(rounds: int) -> Row:
    """Runs in blocks of five, so that most follow one of their own kind."""
    with Worker("benchmarks.peers.fork") as peer:
        mine, other = interleave(ours, peer.ask, rounds=rounds, runs=5, pause=PAUSE)
    ratio = times_faster(mine, other)
    return Row(
        "fresh",
        f"the same, runs {PAUSE} s apart",
        "ms",
        mine,
        "no slower",
        ratio >= 1,
        "a plain fork",
        other,
        f"{ratio:.1f} times faster",
    )

"""A parameter server in virtual time: who may go on, and how old gradients are.

Here you can ask who may go on under a bound on staleness (`Clocks`), and play a server
whose messages take no time (`play`): when each gradient arrives and how many updates it
missed. A worker's clock is how many gradients it has brought. `replay` cannot play it:
no message takes time here, and who goes on is not in a trace but follows from a bound.

Source: Ho et al. 2013, More Effective Distributed ML via a Stale Synchronous Parallel
Parameter Server, section 2.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Clocks", "Gradient", "play"]

Seconds = Callable[[int, int], float]
"""What a gradient takes to compute, of `(worker, clock)`; both count from 0."""


class Clocks:
    """The clocks of the workers: the rule of bounded staleness.

    A worker may begin its next gradient while it is at most `bound` ahead of the
    slowest worker that is not through.
    """

    def __init__(self, workers: int, steps: int, bound: int | None):
        """Start all clocks at 0; None bounds nothing."""
        if bound is not None and bound < 0:
            raise ValueError(f"bound is {bound}; need 0 or more clocks, or None")
        self.clock = [0] * workers
        self.steps, self.bound = steps, bound
        self.waiting: list[int] = []

    def ahead(self, worker: int) -> int:
        """Return how many clocks a worker is ahead of the slowest one."""
        return self.clock[worker] - min(self.clock)

    def arrived(self, worker: int) -> list[int]:
        """Count a worker's gradient; return the workers that may now go on."""
        self.clock[worker] += 1
        if self.clock[worker] < self.steps:
            self.waiting.append(worker)
        free = [w for w in self.waiting if self._may_go(w)]
        self.waiting = [w for w in self.waiting if w not in free]
        return free

    def _may_go(self, worker: int) -> bool:
        return self.bound is None or self.ahead(worker) <= self.bound


@dataclass(frozen=True)
class Gradient:
    """A gradient that the server applied.

    worker: whose it is. begin, end: when it was computed. missed: updates that the
    server made meanwhile.
    """

    worker: int
    begin: float
    end: float
    missed: int


def play(
    workers: int, bound: int | None, seconds: Seconds, steps: int
) -> list[Gradient]:
    """Return the gradients of a server in the order in which it applies them.

    bound: clocks that a worker may be ahead of the slowest one; None lets nobody wait.
    steps: gradients of each worker. Of gradients that arrive together, the server takes
    that of the lowest worker first. Raises ValueError unless all counts are positive.
    """
    if workers < 1 or steps < 1:
        raise ValueError(
            f"{workers} workers with {steps} gradients each; need 1 or more of both"
        )
    clocks = Clocks(workers, steps, bound)
    done: list[Gradient] = []
    given = [(0.0, 0)] * workers  # when a worker began, and after how many updates
    arriving = [(seconds(worker, 0), worker) for worker in range(workers)]
    heapq.heapify(arriving)
    while arriving:
        now, worker = heapq.heappop(arriving)
        begin, seen = given[worker]
        done.append(Gradient(worker, begin, now, len(done) - seen))
        for free in clocks.arrived(worker):
            given[free] = now, len(done)
            takes = seconds(free, clocks.clock[free])
            heapq.heappush(arriving, (now + takes, free))
    return done

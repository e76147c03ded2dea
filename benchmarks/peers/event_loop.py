"""The event loop that somebody would write in an afternoon: a ring, with a heap."""

from __future__ import annotations

import heapq
from collections import defaultdict


def ring_all_reduce(
    world_size: int, nbytes: int, alpha: float, beta: float
) -> tuple[float, int]:
    """Return the seconds of a ring on equal links, and how many messages it has."""
    steps, seconds = 2 * (world_size - 1), alpha + nbytes / world_size * beta
    port_out, port_in = [0.0] * world_size, [0.0] * world_size
    step, under_way = [0] * world_size, [0] * world_size
    done = [0.0] * world_size
    posted: dict[tuple[int, int], float] = defaultdict(float)
    once: set[tuple[int, int]] = set()
    arrivals: list[tuple[float, int, int]] = []

    def begin(rank: int) -> None:
        """Post a rank's send to its right and its recv from its left."""
        under_way[rank] = 2
        for src in (rank, (rank - 1) % world_size):
            message = src, step[rank]
            if message in once:
                once.remove(message)
                start = max(done[rank], posted.pop(message))
                heapq.heappush(arrivals, (start, *message))
            else:
                once.add(message)
                posted[message] = done[rank]

    for rank in range(world_size):
        begin(rank)
    messages = 0
    while arrivals:
        time, src, _ = heapq.heappop(arrivals)
        dst, messages = (src + 1) % world_size, messages + 1
        end = max(time, port_out[src], port_in[dst]) + seconds
        port_out[src] = port_in[dst] = end
        for rank in (src, dst):
            under_way[rank] -= 1
            done[rank] = max(done[rank], end)
            if not under_way[rank]:
                step[rank] += 1
                if step[rank] < steps:
                    begin(rank)
    return max(done), messages

"""Messages between two ranks, measured; `costs.fit` fits a Link to them.

Here you can measure them on fresh ranks (`ping_pong`) or on running ones (`samples`).
"""

from __future__ import annotations

from collections.abc import Iterable

from collectives_lab.bench.rank_pool import RankPool, rank_pool
from collectives_lab.bench.sweep import Sweep
from collectives_lab.bench.timing import measure
from collectives_lab.costs.fitting import Sample

SIZES = tuple(2**n for n in range(3, 25))
"""8 B to 16 MiB."""


def ping_pong(
    world_size: int = 2,
    sizes: Iterable[int] = SIZES,
    iterations: int = 20,
    backend: str = "auto",
    timeout: float = 300.0,
) -> list[Sample]:
    """Measure messages between ranks 0 and 1 of `world_size`; medians, one a size."""
    with rank_pool(world_size, backend, timeout) as ranks:
        return samples(ranks, sizes, iterations)


def samples(
    ranks: RankPool, sizes: Iterable[int] = SIZES, iterations: int = 20
) -> list[Sample]:
    """Measure messages between the first two of running ranks; the first size twice."""
    sweep = Sweep("sendrecv", tuple(sizes), dtype="uint8", iterations=iterations)
    sweep.check(ranks.world_size)
    counts = sweep.counts(ranks.world_size)
    for count in counts[:1]:  # until the system has given each rank a core of its own
        ranks.call(measure, sweep, count)
    rows = [row for count in counts for row in ranks.call(measure, sweep, count)]
    return [(row.nbytes, row.seconds) for row in rows]

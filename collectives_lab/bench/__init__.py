"""Measurements: sweeps in the columns of nccl-tests, with predictions beside them.

    python -m collectives_lab bench all_reduce --algorithms library,ring --sizes 8:64M

In code, `rows(Sweep("all_reduce", [2**20]))` measures the same. `ping_pong` measures
messages between two ranks, `fit` fits a Link to them, and `predict` predicts the time
of a collective on that link.
"""

from __future__ import annotations

from collections.abc import Iterator

from collectives_lab.bench.link import ping_pong
from collectives_lab.bench.prediction import predict
from collectives_lab.bench.rank_pool import rank_pool
from collectives_lab.bench.sweep import Row, Sweep, names
from collectives_lab.bench.timing import measure
from collectives_lab.costs import fit

__all__ = ["Row", "Sweep", "fit", "names", "ping_pong", "predict", "rows"]


def rows(
    sweep: Sweep, world_size: int = 4, backend: str = "auto", timeout: float = 300.0
) -> Iterator[Row]:
    """Measure a sweep on fresh ranks, row by row; timeout: seconds for each size."""
    sweep.check(world_size)
    with rank_pool(world_size, backend, timeout) as ranks:
        for count in sweep.counts(world_size):
            yield from ranks.call(measure, sweep, count)

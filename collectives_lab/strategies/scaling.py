"""More ranks: what is held fixed, what a step takes then, and which strategy is best.

Here: `scaling`, one strategy with more and more ranks along data, strong or weak by
what it is told to `hold`; and `fastest`, the strategies of a number of ranks that fit
into memory, the quickest first: the fair rival of any strategy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.strategies.clusters import Cluster
from collectives_lab.strategies.memory import fullest
from collectives_lab.strategies.model import Model
from collectives_lab.strategies.strategy import Strategy
from collectives_lab.strategies.timing import StepTime, hardware_flops, step_time

HOLD = ("batch", "batch a rank")


@dataclass(frozen=True, repr=False)
class Scaling:
    """Steps by number of ranks, the fewest first; hold: what was the same in all."""

    hold: str
    steps: tuple[StepTime, ...]

    def efficiency(self) -> list[float]:
        """Return tokens a second and rank, over those with the fewest ranks."""
        each = [s.tokens_per_second / s.strategy.world_size for s in self.steps]
        return [rate / each[0] for rate in each]

    def table(self) -> Table:
        """Return a row a number of ranks."""
        rows = []
        for step, efficiency in zip(self.steps, self.efficiency(), strict=True):
            s = step.strategy
            rows.append(
                [s.world_size, s.batch, s.micro_batches, format_seconds(step.seconds)]
                + [f"{step.tokens_per_second:,.0f}", f"{efficiency:.0%}"]
                + [f"{step.mfu:.0%}", format_bytes(fullest(s).total)]
            )
        head = ["ranks", "batch", "micro-batches", "step", "tokens/s", "efficiency"]
        return table([*head, "MFU", "memory"], *rows)

    def __repr__(self) -> str:
        return f"held fixed: {self.hold}\n{self.table()!r}"

    def _repr_html_(self) -> str:
        return f"<p>held fixed: {self.hold}</p>{self.table()._repr_html_()}"


def scaling(
    strategy: Strategy,
    cluster: Cluster,
    data: Sequence[int],
    hold: str,
    efficiency: float = 1.0,
    rings: bool = False,
) -> Scaling:
    """Follow a strategy over these degrees along data.

    hold: "batch", strong scaling: the batch stays, so a rank has less of it, in fewer
    micro-batches of the same size as long as there is one. "batch a rank", weak
    scaling: the batch grows with the ranks, and so does what one step learns from.
    Model, tensor, pipeline and the length of an example are the same in both.
    efficiency, rings: as in `step_time`. Raises ValueError for a degree that does not
    divide the batch.
    """
    if hold not in HOLD:
        raise ValueError(f"hold is {hold!r}; need {HOLD[0]!r} or {HOLD[1]!r}")
    steps = []
    for degree in sorted(data):
        batch, micro = strategy.batch, strategy.micro_batches
        if hold == "batch":
            micro = max(1, micro * strategy.data // degree)
        else:
            batch = batch * degree // strategy.data
        there = strategy.but(data=degree, batch=batch, micro_batches=micro)
        steps.append(step_time(there, cluster, efficiency, rings=rings))
    return Scaling(hold, tuple(steps))


def fastest(
    model: Model,
    cluster: Cluster,
    world_size: int,
    batch: int,
    sequence: int,
    efficiency: float = 1.0,
    rings: bool = False,
    **fixed: Any,
) -> list[StepTime]:
    """Estimate strategies of so many ranks that fit into memory, quickest first.

    Powers of two along tensor, inside a node, and pipeline; ZeRO 0 to 3 and the copies
    of its shards, as in hybrid sharding; every size of a micro-batch; pieces of a
    stage; what is computed again: scores, or blocks. A strategy is left out where its
    computing and bubble alone take longer than the quickest step. efficiency, rings: as
    in `step_time`. fixed: fields of Strategy that are given:
    `fastest(..., tensor=1, pipeline=1)` looks at data alone.
    """
    rate = efficiency * cluster.peak
    candidates = _strategies(model, cluster, world_size, batch, sequence, fixed)
    steps: list[StepTime] = []
    quickest = math.inf
    for strategy in sorted(candidates, key=_operations):
        if _operations(strategy) / rate > quickest:
            break
        if fullest(strategy).total <= cluster.memory:
            steps.append(step_time(strategy, cluster, efficiency, rings=rings))
            quickest = min(quickest, steps[-1].seconds)
    return sorted(steps, key=lambda step: step.seconds)


def _operations(s: Strategy) -> float:
    """Return those of the slowest stage in a step, with those that fit in its bubble.

    No step of `step_time` is shorter than they take.
    """
    each = max(sum(hardware_flops(s, stage)) for stage in s.unlike())
    return each * (s.micro_batches + (s.pipeline - 1) / s.interleave)


def _strategies(
    model: Model,
    cluster: Cluster,
    world_size: int,
    batch: int,
    sequence: int,
    fixed: dict[str, Any],
) -> Iterator[Strategy]:
    node = cluster.nodes(1).world_size
    tensors, pipelines = _powers(node), _powers(min(model.layers, world_size))
    zeros, again = (0, 1, 2, 3), ("selective", "full")
    for t, p, zero, recompute in product(tensors, pipelines, zeros, again):
        data = world_size // (t * p)
        tried = (
            _powers(batch // data if data else 0),
            _powers(data // 2 if zero else 0) or [1],
            _powers(model.layers // p if p > 1 else 1),
        )
        for micro, copies, pieces in product(*tried):
            ways: dict[str, Any] = {
                "tensor": t,
                "pipeline": p,
                "zero": zero,
                "recompute": recompute,
                "copies": copies,
                "interleave": pieces,
            }
            ways |= {"data": data, "micro_batches": micro, "sequence_parallel": t > 1}
            if any(ways.get(name, value) != value for name, value in fixed.items()):
                continue
            try:
                yield Strategy(
                    model=model, batch=batch, sequence=sequence, **(ways | fixed)
                )
            except ValueError:
                continue  # degrees that do not divide what they share


def _powers(most: int) -> list[int]:
    """Return 1, 2, 4, ... up to `most`; none below 1."""
    return [2**k for k in range(most.bit_length())] if most > 0 else []

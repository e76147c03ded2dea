"""The time of a step on paper: computing, exposed communication, and the bubble.

Here: `step_time`, by part. For a strategy on a cluster

    computing    FLOPs of the slowest stage on one rank, at efficiency times peak
    tensor       all_reduces and their halves, for which computing waits; keys and
                 values along context too
    expert       all_to_alls, the same
    pipeline     the bubble: P-1 times, of P stages of v pieces, a v-th of a micro-batch
                 and a send each way; while the pipeline is full, sends are hidden
    data         what of the gradients and parameters the computing does not hide

What may be hidden says each sentence's `beside`; it uses other links than those that
computing waits for, and all but one of its calls can be hidden. Calls beside the same
pass follow one another. A call takes the least that its bytes need (`call_seconds`).
Not in it: the optimizer, norms and other work that is bound by memory, kernels that
start late, unequal ranks, routing that is not even. So with efficiency 1 the time is a
floor of all that keeps these rules and adds in ranks, not in switches. A schedule of
several pieces that sends along data as soon as a piece allows hides more than one
micro-batch's passes do, and can be below it; so can stages or pieces that are shorter
than the others, as the bubble counts all as the slowest. With `rings` a call has the
latencies of rings, and the time is an estimate.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_seconds
from collectives_lab.strategies.clusters import Cluster, call_seconds
from collectives_lab.strategies.compiler import Sentence, sentences
from collectives_lab.strategies.strategy import Strategy


class Timed(NamedTuple):
    """A sentence, and the seconds that its calls take in a step."""

    sentence: Sentence
    seconds: float


@dataclass(frozen=True, repr=False)
class StepTime:
    """Seconds of a step by part, and what they mean.

    timed: the sentences of the slowest stage, each with all its seconds, hidden or not.
    """

    strategy: Strategy
    cluster: Cluster
    computing: float
    tensor: float
    expert: float
    pipeline: float
    data: float
    timed: tuple[Timed, ...] = field(default=())

    @property
    def seconds(self) -> float:
        return sum(self._parts().values())

    @property
    def tokens_per_second(self) -> float:
        """Of all ranks together."""
        return self.strategy.batch * self.strategy.sequence / self.seconds

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: those that the model needs, of those at peak.

        Source: Chowdhery et al., PaLM, 2022, section 4.1.
        """
        s = self.strategy
        needed = s.model.flops(s.sequence) * s.batch * s.sequence
        return needed / (self.seconds * self.cluster.peak * s.world_size)

    def _parts(self) -> dict[str, float]:
        names = ("computing", "tensor", "expert", "pipeline", "data")
        return {name: getattr(self, name) for name in names}

    def table(self) -> Table:
        """Return a row a part that takes time, and the step."""
        parts = {name: t for name, t in self._parts().items() if t}
        rows = [
            [name, format_seconds(t), f"{t / self.seconds:.1%}"]
            for name, t in (*parts.items(), ("step", self.seconds))
        ]
        return table(["part", "seconds", "share"], *rows)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def hardware_flops(strategy: Strategy, stage: int) -> tuple[float, float]:
    """Return one rank's operations for a micro-batch, `(forward, backward)`.

    Backward takes twice as many as forward, and those that are computed again.
    """
    model, head = strategy.model, stage == strategy.pipeline - 1
    attention = strategy.blocks(stage) * model.attention_flops(strategy.sequence)
    blocks = strategy.blocks(stage) * model.block_flops + attention
    forward = blocks + (model.head_flops if head else 0)
    second = 2 * sum(t.read * t.numel for t in model.matrices[1::2])
    again = {
        "none": 0,
        "selective": attention,
        "alternate": strategy.blocks(stage) * second,
        "full": blocks,
    }[strategy.recompute]
    each = strategy.tokens / strategy.tensor
    return forward * each, (2 * forward + again) * each


def step_time(
    strategy: Strategy,
    cluster: Cluster,
    efficiency: float = 1.0,
    overlap: bool = True,
    rings: bool = False,
) -> StepTime:
    """Estimate a step on as many nodes of the cluster as the strategy needs.

    efficiency: share of its peak at which a GPU computes while nothing else happens.
    overlap: False lets computing wait for every call. rings: a call has as many
    latencies as a ring, not one only; see `call_seconds`.
    """
    if not 0 < efficiency <= 1:
        raise ValueError(f"efficiency is {efficiency}; need a share of the peak, to 1")
    rate = efficiency * cluster.peak
    stages = [
        _Stage.of(strategy, cluster, stage, rate, overlap, rings)
        for stage in strategy.unlike()
    ]
    slow = max(stages, key=lambda stage: stage.working + stage.idle)
    micro = strategy.micro_batches
    hop = slow.working / strategy.interleave + 2 * slow.send
    bubble = (strategy.pipeline - 1) * hop + micro * slow.idle
    return StepTime(
        strategy,
        cluster,
        micro * slow.computing,
        micro * slow.tensor,
        micro * slow.expert,
        bubble,
        max(stage.data for stage in stages),
        slow.timed,
    )


@dataclass(frozen=True)
class _Stage:
    """Seconds of a stage: for a micro-batch, but `data` for a step.

    send: of one message along the pipeline. idle: what sends take longer than working;
    all that they take, if nothing is hidden.
    """

    computing: float
    tensor: float
    expert: float
    send: float
    idle: float
    data: float
    timed: tuple[Timed, ...]

    @property
    def working(self) -> float:
        return self.computing + self.tensor + self.expert

    @classmethod
    def of(
        cls,
        s: Strategy,
        cluster: Cluster,
        stage: int,
        rate: float,
        overlap: bool,
        rings: bool,
    ) -> _Stage:
        forward, backward = (flops / rate for flops in hardware_flops(s, stage))
        fabric, m = cluster.fabric(s.world_size), s.micro_batches
        timed = tuple(
            Timed(one, one.times * call_seconds(one, s, fabric, rings))
            for one in sentences(s, stage)
        )
        computing = {
            "forward": m * forward,
            "first forward": forward,
            "backward": m * backward,
            "last backward": backward,
        }
        waiting = exposed(timed, computing if overlap else {})
        group = {name: waiting.get(name, 0.0) / m for name in ("tensor", "expert")}
        group["tensor"] += waiting.get("context", 0.0) / m
        owners = ("data", "replica", "shard", "copy", "ends")
        data = sum(waiting.get(name, 0.0) for name in owners)
        along = [(one.times, t) for one, t in timed if one.group == "pipeline"]
        send = max((t / times for times, t in along), default=0.0)
        sends = sum(t for _, t in along) / m
        working = forward + backward + sum(group.values())
        idle = max(sends - working, 0.0) if overlap else sends
        return cls(
            forward + backward, **group, send=send, idle=idle, data=data, timed=timed
        )


def exposed(timed: tuple[Timed, ...], computing: dict[str, float]) -> dict[str, float]:
    """Return seconds by group for which computing waits.

    Calls that run beside the same computing share it; one call is always left over.
    """
    together: dict[str, list[Timed]] = defaultdict(list)
    waits: dict[str, float] = defaultdict(float)
    for entry in timed:
        together[entry.sentence.beside].append(entry)
    for beside, calls in together.items():
        total = sum(t for _, t in calls)
        number = sum(one.times for one, _ in calls)
        hidden = min(computing.get(beside, 0.0), total - total / number)
        for one, t in calls:
            waits[one.group] += t * (1 - hidden / total if total else 1)
    return waits

"""A step of training as published measurements have it, with a range.

Here: `forecast`, beside the floor `step_time`: seconds, MFU, where the time goes, the
memory of a rank and whether it fits. For a strategy on a cluster

    matrix      products of matrices, by their size, and attention
    memory      norms, sums, activations, scores, casts: passes over the memory
    tensor      collectives along tensor, context and expert, for which computing waits
    bubble      while the pipeline fills and drains
    sends       between stages, what is not hidden
    data        gradients and parameters along data, what is not hidden
    optimizer   reading and writing all its state

`constants` are fitted, all others are from data sheets and sources; `truth.step_fit`
finds them, and `truth.steps` says how true it all is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.strategies.attained import attained_seconds
from collectives_lab.strategies.clusters import Cluster
from collectives_lab.strategies.compiler import Sentence, sentences, units
from collectives_lab.strategies.computing import (
    Pace,
    Work,
    accumulating_bytes,
    block_work,
    head_work,
    optimizer_bytes,
    sharding_bytes,
)
from collectives_lab.strategies.fitted import Constants, constants, spread
from collectives_lab.strategies.memory import fullest
from collectives_lab.strategies.strategy import Strategy
from collectives_lab.strategies.timing import Timed, exposed

OWNERS = ("data", "replica", "shard", "copy", "ends")

UNSUPPORTED = 2.0
"""The factor of low and high where no measurement supports a forecast."""
GATHERED = 128
"""Ranks over which parameters were gathered in steps that forecasts came near to."""


@dataclass(frozen=True, repr=False)
class Forecast:
    """Seconds of a step by part, and the memory of the fullest rank.

    low, high: seconds between which the truth lies four times in five, on a healthy
    machine. unsupported: what no measurement speaks for, or "".
    """

    strategy: Strategy
    cluster: Cluster
    parts: Mapping[str, float] = field(default_factory=dict)
    factor: float = UNSUPPORTED
    unsupported: str = ""

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())

    @property
    def low(self) -> float:
        return self.seconds / self.factor

    @property
    def high(self) -> float:
        return self.seconds * self.factor

    @property
    def memory(self) -> int:
        """Bytes of the fullest rank, as `memory` counts them."""
        return fullest(self.strategy).total

    @property
    def fits(self) -> bool:
        return self.memory <= self.cluster.memory

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation, as `StepTime.mfu` counts it."""
        s = self.strategy
        needed = s.model.flops(s.sequence) * s.batch * s.sequence
        return needed / (self.seconds * self.cluster.peak * s.world_size)

    def table(self) -> Table:
        """Return a row a part that takes time, the step, its range and the memory."""
        rows = [
            [name, format_seconds(t), f"{t / self.seconds:.1%}"]
            for name, t in (*self.parts.items(), ("step", self.seconds))
            if t
        ]
        low, high = format_seconds(self.low), format_seconds(self.high)
        rows.append(["four times in five", f"{low} to {high}", self.unsupported])
        word = "fits" if self.fits else "does not fit"
        rows.append(["kept by a rank", format_bytes(self.memory), word])
        return table(["part", "seconds", "share"], *rows)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def forecast(
    strategy: Strategy, cluster: Cluster, fitted: Constants | None = None
) -> Forecast:
    """Predict a step on as many nodes of the cluster as the strategy needs.

    fitted: other constants than `constants()`, those of all published steps.
    Raises ValueError for a cluster whose GPU's rates or whose machine are not known.
    """
    fitted = fitted or constants()
    pace = Pace.of(cluster, fitted.share(cluster.gpu), fitted.memory)
    kinds = {i: _stage(strategy, cluster, i, pace) for i in strategy.unlike()}
    slow = max(kinds.values(), key=lambda stage: stage.working)
    m, p = strategy.micro_batches, strategy.pipeline
    inner = p - len(kinds)
    filling = sum(stage.working for stage in kinds.values())
    filling += inner * kinds[min(1, p - 1)].working - slow.working
    parts = {
        "matrix": m * slow.work.matrix,
        "memory": m * slow.work.memory,
        "tensor": m * slow.tensor,
        "bubble": filling / strategy.interleave,
        "sends": (p - 1) * 2 * slow.send + m * slow.idle,
        "data": max(stage.data for stage in kinds.values()),
        "optimizer": max(stage.optimizer for stage in kinds.values()),
    }
    beyond = _unsupported(strategy, cluster)
    factor = UNSUPPORTED if beyond else spread()
    return Forecast(strategy, cluster, parts, factor, beyond)


def _unsupported(s: Strategy, cluster: Cluster) -> str:
    """Return what of a forecast no published step speaks for."""
    if cluster.gpu not in constants().matrix:
        return f"a guess: no published step ran on {cluster.gpu or 'such GPUs'}"
    if s.model.experts:
        return "a guess: no published step has experts"
    if s.zero == 3 and s.reshard and s.ranks("shard") > GATHERED:
        return f"a guess: gathers over more than {GATHERED} ranks were far off"
    if s.context > 1:
        return "a guess: in one published step only do ranks share an example"
    return ""


class _Stage(NamedTuple):
    """Seconds of a stage: for a micro-batch, but `data` and `optimizer` for a step.

    send: of one message. idle: for sends that are not hidden.
    """

    work: Work
    tensor: float
    send: float
    idle: float
    data: float
    optimizer: float

    @property
    def working(self) -> float:
        return self.work.seconds + self.tensor


def _stage(s: Strategy, cluster: Cluster, stage: int, pace: Pace) -> _Stage:
    m, timed = s.micro_batches, _calls(s, cluster, stage)
    ahead, back = _work(s, stage, pace)
    computing = {
        "forward": m * ahead.seconds,
        "first forward": ahead.seconds,
        "backward": m * back.seconds,
        "last backward": back.seconds,
    }
    waiting = exposed(timed, computing)
    tensor = sum(waiting.get(name, 0.0) for name in ("tensor", "context", "expert")) / m
    along = [(one.times, t) for one, t in timed if one.group == "pipeline" and t]
    sends = sum(t for _, t in along) / m
    work = ahead.plus(back)
    hidden = 0.0 if "pipeline" in s.waits else work.seconds + tensor
    return _Stage(
        work,
        tensor,
        max((t / times for times, t in along), default=0.0),
        max(sends - hidden, 0.0),
        sum(waiting.get(name, 0.0) for name in OWNERS),
        optimizer_bytes(s, _updated(s, stage)) / pace.memory,
    )


@lru_cache(maxsize=512)
def _calls(s: Strategy, cluster: Cluster, stage: int) -> tuple[Timed, ...]:
    """Return a stage's sentences with the seconds of all their calls."""
    fabric = cluster.fabric(s.world_size)
    return tuple(
        Timed(_honest(one, s), one.times * attained_seconds(one, s, fabric))
        for one in sentences(s, stage)
    )


@lru_cache(maxsize=512)
def _updated(s: Strategy, stage: int) -> int:
    """Count the parameters whose optimizer state a rank of a stage has."""
    owned = [
        (unit, s.ranks(owners) if s.zero else 1)
        for group, owners in (("data", "shard"), ("replica", "replica"))
        for unit in units(s, stage, group)
    ]
    return sum(unit.padded // ranks for unit, ranks in owned)


def _work(s: Strategy, stage: int, pace: Pace) -> tuple[Work, Work]:
    """Return what a stage computes for a micro-batch, forward and backward."""
    blocks = s.blocks(stage)
    ahead, back = (Work().plus(work, blocks) for work in block_work(s, pace))
    if stage == s.pipeline - 1:
        ends = head_work(s, pace)
        ahead, back = ahead.plus(ends[0]), back.plus(ends[1])
    numbers = _numbers(s, stage)
    moved = accumulating_bytes(s, numbers) + sharding_bytes(s, numbers)
    return ahead, back.plus(Work(0.0, moved / pace.memory))


@lru_cache(maxsize=512)
def _numbers(s: Strategy, stage: int) -> int:
    return sum(shard.numel for layer in s.shards(stage) for shard in layer)


def _honest(one: Sentence, s: Strategy) -> Sentence:
    """Return a sentence that runs beside nothing where its group waits all the same."""
    group = "data" if one.group in OWNERS else one.group
    return replace(one, beside="") if group in s.waits else one

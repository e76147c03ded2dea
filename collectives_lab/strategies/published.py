"""Published speeds beside our estimate, with the gap: a check of sanity, not a fit.

Here: `PUBLISHED`, runs whose papers give the model, the degrees and the speed, and
`published`, the table of them. Our estimate lets GPUs compute at their peak, so it is a
floor of the time, and `gap` is what the floor leaves out: kernels that reach no peak,
work that is bound by memory, the optimizer, late and uneven ranks, and what the
libraries of that day did less well than a ring on idle links.

Two things make speeds hard to compare. Megatron-LM's FLOP/s in 2021 count what is
computed again, a third more than the model needs, so its 52 % of peak are 39 % MFU. And
what a paper does not say (`assumed`) is ours. `forecast` asks for more than the floor
does (kernels of attention, what is waited for); it is as in `truth`, whose `steps.csv`
says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from collectives_lab.basics.tables import Table, table
from collectives_lab.strategies import clusters, models
from collectives_lab.strategies.clusters import Cluster
from collectives_lab.strategies.models import gpt
from collectives_lab.strategies.settings import Precision
from collectives_lab.strategies.strategy import Strategy
from collectives_lab.strategies.timing import StepTime, step_time


@dataclass(frozen=True)
class Published:
    """A run: its strategy, and the FLOP/s a GPU that its paper says.

    again: whether those count what the backward pass computes again. source: paper and
    table. assumed: what the paper does not say.
    """

    strategy: Strategy
    cluster: Cluster
    flop_rate: float
    again: bool
    source: str
    assumed: str = ""

    @property
    def seconds(self) -> float:
        """Of a step, as the published FLOP/s have it."""
        s = self.strategy
        flops = s.model.flops(s.sequence)
        if self.again:
            block = s.model.block_flops + s.model.attention_flops(s.sequence)
            flops += s.model.layers * block
        return flops * s.batch * s.sequence / (self.flop_rate * s.world_size)

    @property
    def mfu(self) -> float:
        """Of the published speed, without what is computed again."""
        return self.estimate.mfu * self.estimate.seconds / self.seconds

    @property
    def estimate(self) -> StepTime:
        """Ours, with GPUs at their peak."""
        return step_time(self.strategy, self.cluster)

    @property
    def gap(self) -> float:
        """How many times longer a published step takes than ours."""
        return self.seconds / self.estimate.seconds


_MEGATRON = (
    "Narayanan et al., Efficient large-scale language model training on GPU clusters "
    "using Megatron-LM, SC 2021, arXiv:2104.04473, "
)
_LLAMA = (
    "Grattafiori et al., The Llama 3 herd of models, 2024, arXiv:2407.21783, "
    "section 3.3.2, table 4"
)


_SCRIPT = "by the authors' script, Megatron-LM@de7dc40f88, examples/sc21/"


def _megatron(
    shape: tuple[int, int, int],
    ways: tuple[int, int, int],
    batch: int,
    rate: float,
    micro: int,
    pieces: int = 1,
) -> Published:
    """Return a row of table 1: layers, hidden, heads; tensor, pipeline, data."""
    tensor, pipeline, data = ways
    alone = pipeline == 1  # then torch's DDP sums buckets beside the backward pass
    strategy = Strategy(
        model=gpt(*shape),
        batch=batch,
        sequence=2048,
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        micro_batches=micro,
        interleave=pieces,
        recompute="full",
        attention="scores",
        unit=25 * 2**20 if alone else "model",
        waits=("pipeline",) if alone else ("pipeline", "data"),
    )
    source = _MEGATRON + "section 5.1, table 1"
    assumed = f"micro-batches, pieces and buckets {_SCRIPT}run_table_1.sh"
    return Published(strategy, clusters.dgx_a100, rate, True, source, assumed)


def _gpt3(data: int, rate: float, **ways: Any) -> Published:
    """Return a row of table 2: GPT-3 in batches of 1536."""
    strategy = Strategy(
        model=gpt(96, 12_288, 96, "GPT-3 175B"),
        batch=1536,
        sequence=2048,
        data=data,
        recompute="full",
        attention="scores",
        **ways,
    )
    assumed = f"four pieces {_SCRIPT}run_figure_12.sh, which has this model"
    if strategy.zero:
        assumed = "each weight gathered by itself, as DeepSpeed did in April 2021"
    source = _MEGATRON + "section 5.2, table 2"
    return Published(strategy, clusters.dgx_a100, rate, True, source, assumed)


_THREE_D: dict[str, Any] = {
    "tensor": 8,
    "pipeline": 12,
    "interleave": 4,
    "unit": "model",
    "waits": ("pipeline", "data"),
}
_DEEPSPEED: dict[str, Any] = {
    "zero": 3,
    "unit": 3 * 12_288**2,
    "waits": ("data",),
    "lists": True,
}


def _llama(data: int, rate: float, interleave: int) -> Published:
    """Return a row of table 4 with 8192 tokens an example: 2048 examples, TP 8, PP
    16.
    """
    strategy = Strategy(
        model=models.llama3_405b,
        batch=2048,
        sequence=8192,
        data=data,
        zero=1,
        tensor=8,
        sequence_parallel=True,
        regather=True,
        pipeline=16,
        micro_batches=2048 // data,
        interleave=interleave,
        prefetch=True,
        precision=Precision(gradient=4),
    )
    assumed = f"{interleave} pieces a stage, one example a micro-batch, ZeRO-1"
    return Published(strategy, clusters.dgx_h100, rate, False, _LLAMA, assumed)


PUBLISHED: tuple[Published, ...] = (
    _megatron((24, 2304, 24), (1, 1, 32), 512, 137e12, micro=1),
    _megatron((40, 6144, 48), (8, 1, 32), 1024, 135e12, micro=4),
    _megatron((80, 12_288, 96), (8, 8, 24), 2304, 148e12, micro=48, pieces=2),
    _megatron((128, 25_600, 160), (8, 64, 6), 3072, 163e12, micro=512),
    _gpt3(4, 153e12, micro_batches=384, **_THREE_D),
    _gpt3(16, 141e12, micro_batches=96, **_THREE_D),
    _gpt3(384, 144e12, **_DEEPSPEED),
    _gpt3(1536, 44e12, **_DEEPSPEED),
    _llama(64, 430e12, 1),
    _llama(64, 430e12, 8),
    _llama(128, 400e12, 1),
    _llama(128, 400e12, 8),
)
"""Runs that say enough to be computed. Llama 3 twice each: with the fewest and with the
most pieces a stage, since the paper does not say how many."""


def published() -> Table:
    """Return a row a run: model FLOPs utilisation as published, at most by us, and the
    gap.
    """
    rows = [
        [
            run.strategy.model.name,
            run.strategy.says(),
            run.strategy.world_size,
            f"{run.mfu:.0%}",
            f"{run.estimate.mfu:.0%}",
            f"{run.gap:.2f}",
        ]
        for run in PUBLISHED
    ]
    head = ["model", "strategy", "GPUs", "MFU published", "MFU at most", "gap"]
    return table(head, *rows)

"""The cluster of a strategy: a fabric of any number of nodes, and a GPU's rates.

Here: `dgx_a100`, `dgx_h100`, `dgx_h200`, `mosaic_a100_40`, `grand_teton_500w`,
`Cluster` for your own, and `call_seconds`, the least that a call of a sentence takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from collectives_lab import fabrics
from collectives_lab.fabrics import Fabric, Link
from collectives_lab.strategies.compiler import Sentence
from collectives_lab.strategies.strategy import Strategy


@dataclass(frozen=True)
class Cluster:
    """nodes: makes the fabric of so many nodes. peak: operations a second of a GPU, in
    the precision of the matrices. memory: bytes of a GPU.

    What only `forecast` asks for: gpu, the class whose constants it takes; bandwidth of
    the memory in bytes a second; processors that compute side by side; peak8, the peak
    in float8; flash, the share of `peak` that attention's kernel attains.
    """

    name: str
    nodes: Callable[[int], Fabric]
    peak: float
    memory: float
    gpu: str = ""
    bandwidth: float = 0.0
    processors: int = 0
    peak8: float = 0.0
    flash: float = 0.0

    def fabric(self, world_size: int) -> Fabric:
        """Return as many nodes as these ranks need; they fill node after node."""
        return _fabric(self.nodes, world_size)


@lru_cache(maxsize=32)
def _fabric(nodes: Callable[[int], Fabric], world_size: int) -> Fabric:
    return nodes(-(-world_size // nodes(1).world_size))


_A100: dict[str, Any] = {"gpu": "A100", "processors": 108, "flash": 0.55}
_H100: dict[str, Any] = {"gpu": "H100", "processors": 132, "flash": 0.35}
# What FlashAttention-2 attains with a causal mask and heads of 128, both ways: some 170
# TFLOP/s on A100 and 340 on H100. Dao 2023, section 4.1.

dgx_a100 = Cluster(
    "DGX A100", fabrics.dgx_a100, 312e12, 80e9, bandwidth=2039e9, **_A100
)
"""312 TFLOP/s in bfloat16 without sparsity, 80 GB at 2039 GB/s, 108 processors. NVIDIA
A100 80GB datasheet."""
dgx_h100 = Cluster(
    "DGX H100",
    fabrics.dgx_h100,
    989e12,
    80e9,
    bandwidth=3350e9,
    peak8=1979e12,
    **_H100,
)
"""989 TFLOP/s in bfloat16 without sparsity, 1979 in float8, 80 GB at 3350 GB/s, 132
processors. NVIDIA H100 SXM datasheet."""
dgx_h200 = replace(
    dgx_h100,
    name="DGX H200",
    nodes=fabrics.dgx_h200,
    memory=141e9,
    bandwidth=4800e9,
)
"""As `dgx_h100`, with 141 GB at 4800 GB/s. NVIDIA H200 datasheet."""
mosaic_a100_40 = replace(
    dgx_a100,
    name="8 A100 40GB, 8x200 Gb/s RoCE",
    memory=40e9,
    bandwidth=1555e9,
    flash=0.30,
)
"""As `dgx_a100`, with 40 GB at 1555 GB/s. NVIDIA A100 40GB datasheet; the network by
llm-foundry, scripts/train/benchmarking, whose attention of May 2023 was Triton's
(submit_benchmarks.py@300cc5c58): FlashAttention-2 is 1.3 to 2.5 times as fast (Dao
2023, section 1), so 1.8 times, the middle, is taken."""
CLOCK_500W = (500 / 700) ** (1 / 3)
"""Share of its clock that a GPU of 700 W keeps at 500 W, if power goes as the clock
times the voltage squared and the voltage as the clock: an assumption."""
grand_teton_500w = replace(
    dgx_h100,
    name="Grand Teton, H100 at 500 W",
    peak=989e12 * CLOCK_500W,
    peak8=1979e12 * CLOCK_500W,
    memory=96e9,
    bandwidth=2400e9,
)
"""H100 with 96 GB of HBM2e at 2400 GB/s, held at 500 W: torchtitan,
benchmarks/llama3_h100_202412_torchtitan.md. At that power its peak is 884 TFLOP/s."""


@dataclass(frozen=True)
class Levels:
    """The layout of a group: `nodes` of `each` ranks, a link inside and one across."""

    each: int
    nodes: int
    inside: Link
    across: Link


def levels(strategy: Strategy, group: str, fabric: Fabric) -> Levels:
    """Return where the ranks of a group stand, by the group that rank 0 is in.

    All groups along a dimension call at the same time, so ranks that share a NIC or a
    spine share its bandwidth. A group that has unlike many ranks on its nodes counts as
    if each had one. Raises ValueError for a fabric without room for all ranks.
    """
    if fabric.world_size < strategy.world_size:
        raise ValueError(
            f"{fabric!r} has room for {fabric.world_size} ranks; the strategy has "
            f"{strategy.world_size}"
        )
    stride, ranks = strategy.stride(group), strategy.ranks(group)
    return _levels(fabric, strategy.world_size, stride, ranks)


@lru_cache(maxsize=4096)
def _levels(fabric: Fabric, world_size: int, stride: int, ranks: int) -> Levels:
    members = stride * np.arange(ranks)
    _, counts = np.unique(fabric.node[fabric.place[members]], return_counts=True)
    each = int(counts[0]) if (counts == counts[0]).all() else 1
    across = _across(fabric, world_size)
    return Levels(each, ranks // each, fabric.inside, across)


def _across(fabric: Fabric, world_size: int) -> Link:
    """Return the link between nodes when all ranks use it at once."""
    busy = fabric.nic[fabric.place[:world_size]]
    sharing = int(np.bincount(busy).max())
    spine = (fabric.spine or 0.0) * world_size
    return Link(fabric.across.alpha, max(fabric.across.beta * sharing, spine))


TIMES = {"all_gather": 1, "reduce_scatter": 1, "all_to_all": 1, "all_reduce": 2}
"""How often a verb takes the time of its bytes: an all_reduce is both halves."""


def call_seconds(
    sentence: Sentence, strategy: Strategy, fabric: Fabric, rings: bool = False
) -> float:
    """Return the least seconds of one call, all groups of its kind calling at once.

    A GPU drives NVLink and its network card at the same time, so the times of the two
    are not added. In a group of P ranks, with `each` on every one of n nodes, a call of
    S bytes takes one latency and the longer of

        into a node   (n-1)/n S, over the cards of the group's ranks there
        into a rank   (P-1)/P S, over its NVLink and its card together

    No schedule is faster. An all_gather brings a node, and a rank, all bytes that are
    not there yet. A reduce_scatter takes as many out, and an all_reduce does both, if
    ranks add and no switch does (Patarasuk and Yuan 2009; nodes stand for ranks). In
    an all_to_all (n-1)/n S is what each card takes. On one node NVLink carries all.

    rings: count the latencies of rings, n-1 across or `each` - 1 inside, as NCCL has
    rings for all_gather and reduce_scatter. Trees have fewer, so this is no bound. A
    recv costs nothing: its time is the send's.
    """
    at = levels(strategy, sentence.group, fabric)
    return _seconds(sentence.verb, float(sentence.nbytes), at, rings)


@lru_cache(maxsize=4096)
def _seconds(verb: str, nbytes: float, at: Levels, rings: bool) -> float:
    if verb == "recv":
        return 0.0
    inside, across, far = at.inside, at.across, at.nodes > 1
    if verb == "send":
        return (across if far else inside).time(nbytes)
    if verb not in TIMES:
        raise ValueError(f"{verb!r} has no bound here; need a verb of `sentences`")
    ranks = at.each * at.nodes
    if ranks == 1:
        return 0.0
    by_card = nbytes if verb == "all_to_all" else nbytes / at.each
    into_node = (at.nodes - 1) / at.nodes * by_card * across.beta
    beta = _together(inside.beta, across.beta) if far else inside.beta
    into_rank = (ranks - 1) / ranks * nbytes * beta
    if rings:
        into_node += (at.nodes - 1) * across.alpha
        into_rank += (at.each - 1) * inside.alpha
        return TIMES[verb] * max(into_node, into_rank)
    alpha = (across if far else inside).alpha
    return alpha + TIMES[verb] * max(into_node, into_rank)


def _together(*betas: float) -> float:
    """Return the beta of links that carry parts of the same bytes side by side."""
    return 1 / sum(1 / beta for beta in betas) if all(betas) else 0.0

"""A strategy in a few lines: which model, which batch, and how many ranks each way.

Here you can write a `Strategy`, which says at once what does not fit, and ask what is
on the ranks of a stage (`layers`, `shards`) and who talks to whom (`ranks`, `stride`).
A rank has a place along each dimension of a mesh:

    tensor    ranks that share each layer                  innermost: neighbours
    data      ranks that share the batch
    context   the first so many neighbours along data, who share an example's tokens
    shard     the first so many along data, who share what ZeRO cuts: data / copies
    copy      those along data that keep the same of it, as in hybrid sharding (HSDP)
    expert    the first so many neighbours along data, who share the experts
    replica   those along data that have the same experts: data / expert of them
    pipeline  stages, which share the layers               outermost

The degrees multiply to the world size; `context`, `copies` and `expert` are parts of
`data`. Sources: Narayanan et al., SC 2021, section 3, for the order; Lepikhin et al.,
GShard, 2021, for experts; Zhao et al., PyTorch FSDP, VLDB 2023, section 3.2.2, for
hybrid sharding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from collectives_lab.strategies import rules
from collectives_lab.strategies.model import Tensor
from collectives_lab.strategies.settings import Settings


class Shard(NamedTuple):
    """Of a tensor, what one rank has: `numel` numbers, with copies along a group."""

    name: str
    numel: int
    group: str
    cut: bool


@dataclass(frozen=True, kw_only=True)
class Strategy(Settings):
    """A training strategy: the model, the batch, and the ranks each way.

    batch: examples a step on all ranks together, each of `sequence` tokens.
    data: ranks that share the batch. zero: 0 all_reduces gradients, 1 to 3 as ZeRO.
    tensor: ranks that share each layer; sequence_parallel: between the pairs of layers
    they share the tokens too; regather: of what a pair takes in they keep their own
    part and gather it again in the backward pass.
    pipeline: stages. micro_batches: pieces of a rank's share of the batch, in turn.
    schedule: "1f1b" or "gpipe". interleave: pieces of the model that a stage has.
    expert: ranks along data that share the experts; context: those that share an
    example's tokens; copies: how often what ZeRO cuts is kept, as in hybrid sharding.
    reshard: ZeRO-3 forgets parameters after the forward pass; False keeps them for the
    step. prefetch: ZeRO-1 and 2 gather updated parameters beside the next forward pass.
    waits: groups whose calls could be hidden, for which computing waits all the same.
    async_tensor: sums of the backward pass along tensor go beside the product that
    gives the parameters' gradient, as in Megatron-LM since August 2021.
    fused_accumulation: that product adds to the gradients kept; else a pass does.
    lists: calls along data take a tensor for each rank, each copied by itself.
    recompute: what the backward pass computes again: "none"; "selective", attention's
    scores, as FlashAttention does; "alternate", every second matrix and all that is
    no matrix, as torchtitan does; "full", blocks, of which only the inputs are kept.
    attention: "flash", in one kernel that skips what is masked, or "scores", which
    writes them to memory. fused: what lies between matrices is one kernel where it can
    be, as torch.compile makes it; False: one for each operation.
    unit: what goes together along data: "parameter", "layer", "model", or a bucket's
    bytes. precision: bytes of a number. order: of the mesh, innermost first.
    Raises ValueError for what does not fit.
    """

    def __post_init__(self) -> None:
        for broken in rules.broken(self):
            raise ValueError(broken)

    def but(self, **changes: Any) -> Strategy:
        """Return the strategy with something changed: `strategy.but(zero=3)`."""
        return replace(self, **changes)

    # -- the mesh ------------------------------------------------------------------

    @property
    def world_size(self) -> int:
        return self.data * self.tensor * self.pipeline

    def ranks(self, group: str) -> int:
        """Return the number of ranks in a group along this dimension."""
        sizes = {
            "tensor": self.tensor,
            "data": self.data,
            "expert": self.expert,
            "replica": self.data // self.expert,
            "context": self.context,
            "shard": self.data // self.copies,
            "copy": self.copies,
            "pipeline": self.pipeline,
            "ends": min(self.pipeline, 2),
        }
        if group not in sizes:
            raise ValueError(f"{group!r} is no group; need one of {', '.join(sizes)}")
        return sizes[group]

    def stride(self, group: str) -> int:
        """Return how far apart in the world the neighbours in a group are."""
        if group == "replica":
            return self.stride("data") * self.expert
        if group == "ends":
            return self.stride("pipeline") * (self.pipeline - 1)
        if group == "copy":
            return self.stride("data") * self.ranks("shard")
        part = group in ("expert", "context", "shard")
        inner = self.order[: self.order.index("data" if part else group)]
        return math.prod(self.ranks(name) for name in inner)

    def stage(self, rank: int) -> int:
        """Return the stage of the pipeline that a rank is in."""
        return rank // self.stride("pipeline") % self.pipeline

    def members(self, group: str, rank: int) -> tuple[int, ...]:
        """Return the ranks of the group along this dimension that a rank is in."""
        stride, ranks = self.stride(group), self.ranks(group)
        if group == "ends":
            first = rank - self.stage(rank) * self.stride("pipeline")
        else:
            first = rank - rank // stride % ranks * stride
        return tuple(first + i * stride for i in range(ranks))

    # -- the batch -----------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch, on each rank that sees it."""
        examples = self.batch // (self.data // self.context) // self.micro_batches
        return examples * self.sequence // self.context

    @property
    def x_bytes(self) -> int:
        """Bytes of x, what blocks hand on, for a micro-batch: S of most calls."""
        return self.tokens * self.model.hidden * self.precision.activation

    # -- what a stage has ----------------------------------------------------------

    def blocks(self, stage: int) -> int:
        """Count the blocks of a stage; the embedding and the head are no blocks.

        Stages, or their `interleave` pieces, have as many each; where that cannot be,
        the embedding and the head count for a block (as in Llama 3 405B).
        """
        pieces, layers = self.pipeline * self.interleave, self.model.layers
        if layers % pieces == 0:
            return layers // self.pipeline
        own_layers = (layers + 2) // self.pipeline
        return own_layers - (stage == 0) - (stage == self.pipeline - 1)

    def layers(self, stage: int) -> list[tuple[Tensor, ...]]:
        """Return what a stage has of embedding, blocks and head, in order."""
        if not 0 <= stage < self.pipeline:
            raise ValueError(
                f"stage {stage} of {self.pipeline}; need 0 <= stage < pipeline"
            )
        model = self.model
        first = [model.embedding] if stage == 0 else []
        last = [model.head] if stage == self.pipeline - 1 else []
        if last and model.tied and self.pipeline > 1:
            last = [(*model.head, model.embedding[0])]
        return first + [model.block] * self.blocks(stage) + last

    def unlike(self) -> list[int]:
        """Return one stage of each kind: the first, an inner one, the last."""
        return sorted({0, min(1, self.pipeline - 1), self.pipeline - 1})

    def shards(self, stage: int) -> list[list[Shard]]:
        """Return the shards of one rank of a stage, layer by layer."""
        layers = self.layers(stage)
        cut = {  # of blocks, which are alike, once
            layer: [shard for tensor in layer for shard in self._shards(tensor)]
            for layer in set(layers)
        }
        return [cut[layer] for layer in layers]

    def _shards(self, tensor: Tensor) -> list[Shard]:
        numel = tensor.numel // (self.tensor if tensor.cut else 1)
        cut = bool(tensor.cut) and self.tensor > 1
        if tensor.cut != "expert":
            return [Shard(tensor.name, numel, "data", cut)]
        group = "replica" if self.expert > 1 else "data"
        return [Shard(tensor.name, numel, group, cut)] * (tensor.alike // self.expert)

    def __repr__(self) -> str:
        return f"Strategy({self.model.name}: {self.says()})"

    def says(self) -> str:
        """Return the degrees in words: `"DP 64, TP 8, PP 16 x 2, ZeRO-1, SP"`.

        Of a pipeline: its stages, times the pieces of each.
        """
        words = {"DP": self.data, "TP": self.tensor, "PP": self.pipeline}
        degrees = [f"{word} {degree}" for word, degree in words.items() if degree > 1]
        if self.interleave > 1:
            degrees[-1] += f" x {self.interleave}"
        degrees += [f"EP {self.expert}"] if self.expert > 1 else []
        degrees += [f"CP {self.context}"] if self.context > 1 else []
        degrees += [f"HSDP {self.copies}"] if self.copies > 1 else []
        degrees += [f"ZeRO-{self.zero}"] if self.zero else []
        degrees += ["SP"] if self.sequence_parallel else []
        return ", ".join(degrees) or "one rank"

"""The memory of a rank: parameters, gradients, optimizer state, activations.

Here: `memory`, by part, in bytes, and `fullest`, that of the fullest stage. With N
parameters on a rank, P ranks along data and b bytes of each kind, of which hybrid
sharding has its copies (P is then `shard`)

               parameters   gradients   optimizer
    ZeRO-0     b N          b N         b N
    ZeRO-1     b N          b N         b N / P
    ZeRO-2     b N          b N / P     b N / P
    ZeRO-3     b N / P      b N / P     b N / P      parameters b N without `reshard`

where ZeRO counts what fills up the last part of a unit. While a unit is whole that
nobody keeps whole, it is `working`; so is, where blocks are computed again, one block.

Activations, in numbers a token of a block, of h hidden, q and k the width of queries
and keys, f hidden units of an MLP: 4 h for what norms and pairs take in, 2 q + 2 k for
attention, 2 f for an MLP and 3 f for a gated one, which computes a fourth again; for
k experts, k times 2 h and their f. Along tensor q, k and f are shared, with sequence
parallelism the norms' inputs too, and with `regather` all of it. Less than h numbers a
token is not counted, nor are dropout's masks. Sources: Rajbhandari et al., ZeRO, SC
2020, sections 3 and 5; Korthikanti et al., Reducing activation recomputation, 2022,
section 4 (with two masks, 34 bytes for our 32). Held against the allocator of an H200,
`data/h200_memory.json`: blocks within 0.2 %, where plain PyTorch keeps the fourth f.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_bytes
from collectives_lab.strategies.compiler import units
from collectives_lab.strategies.strategy import Strategy


@dataclass(frozen=True, repr=False)
class Memory:
    """Bytes of one rank, by part."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    working: int

    @property
    def total(self) -> int:
        return sum(self._parts().values())

    def _parts(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def table(self) -> Table:
        """Return a table with a row for each part, and the sum."""
        parts = {**self._parts(), "total": self.total}
        rows = [[name, format_bytes(nbytes)] for name, nbytes in parts.items()]
        return table(["kept by a rank", "bytes"], *rows)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def memory(strategy: Strategy, stage: int = 0) -> Memory:
    """Return the bytes that one rank of this stage keeps, at most."""
    owned = [
        (unit, strategy.ranks(owners))
        for group, owners in (("data", "shard"), ("replica", "replica"))
        for unit in units(strategy, stage, group)
    ]
    whole = sum(unit.numel for unit, _ in owned)
    padded = sum(unit.padded for unit, _ in owned)
    part = sum(unit.padded // ranks for unit, ranks in owned)
    largest = max(unit.padded for unit, _ in owned)
    zero, each = strategy.zero, strategy.precision
    forgets = zero == 3 and strategy.reshard
    gathered = each.parameter * forgets + each.gradient * (zero >= 2)
    return Memory(
        each.parameter * (whole, padded, padded, part if forgets else padded)[zero],
        each.gradient * (whole, whole, part, part)[zero],
        each.optimizer * (whole, part, part, part)[zero],
        activations(strategy, stage),
        largest * gathered + _computed_again(strategy),
    )


def fullest(strategy: Strategy) -> Memory:
    """Return the bytes that a rank of the fullest stage keeps."""
    stages = (memory(strategy, stage) for stage in strategy.unlike())
    return max(stages, key=lambda kept: kept.total)


def activations(strategy: Strategy, stage: int = 0) -> int:
    """Return the bytes kept for the backward pass of all micro-batches under way."""
    head = stage == strategy.pipeline - 1
    kept = {"full": _input, "alternate": _alternate}
    block = kept.get(strategy.recompute, _block)(strategy)
    # Of a piece of the model that has 1/interleave of the stage's blocks.
    pieces = _pieces_on_their_way(strategy, stage)
    numbers = strategy.blocks(stage) * block * pieces / strategy.interleave
    if head:
        numbers += _head(strategy)
    return round(numbers * strategy.tokens * strategy.precision.activation)


def _pieces_on_their_way(s: Strategy, stage: int) -> int:
    """Count micro-batches times pieces between their forward and backward passes.

    1F1B: a stage is ahead of the last one by as many micro-batches as stages. With
    interleaving twice that, and P for each piece but the last: Megatron-LM's warm-up.
    """
    everything = s.micro_batches * s.interleave
    if s.schedule == "gpipe" or s.pipeline == 1:
        return everything if s.schedule == "gpipe" else 1
    behind = s.pipeline - 1 - stage
    if s.interleave == 1:
        return min(behind + 1, everything)
    return min(2 * behind + (s.interleave - 1) * s.pipeline + 1, everything)


def _input(s: Strategy) -> float:
    """Return the numbers a token of a block's x, which is all that is kept of it."""
    return s.model.hidden / (s.tensor if s.sequence_parallel else 1)


def _alternate(s: Strategy) -> float:
    """Return the numbers a token of x, attention, and every second matrix's result."""
    model = s.model
    results = 2 * model.query_width + model.key_width
    results += max(model.top_k, 1) * model.ffn + (model.hidden if model.gated else 0)
    return _input(s) + results / s.tensor


def _block(s: Strategy) -> float:
    """Return the numbers a token that a block keeps on one rank."""
    model, t = s.model, s.tensor
    width = model.ffn * (3 if model.gated else 2)
    inner = 2 * model.query_width + 2 * model.key_width
    routed = 0
    if model.experts:
        routed = 2 * model.top_k * model.hidden
        inner += model.top_k * width
    else:
        inner += width
    if s.recompute == "none":
        inner += model.heads * s.sequence
    return inner / t + _entered(s, 2) + routed


def _entered(s: Strategy, pairs: int) -> float:
    """Return the numbers a token of the inputs of norms and of their pairs."""
    norm = pair = float(pairs * s.model.hidden)
    if s.sequence_parallel:
        norm /= s.tensor
        pair /= s.tensor if s.regather else 1
    return norm + pair


def _head(s: Strategy) -> float:
    """Return the head's numbers a token: inputs of norm and logits, and the softmax."""
    return _entered(s, 1) + s.model.vocabulary / s.tensor


def _computed_again(s: Strategy) -> int:
    if s.recompute != "full":
        return 0
    return round(_block(s) * s.tokens * s.precision.activation)

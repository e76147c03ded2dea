"""The compiler: a strategy in, the collective calls of a training step out.

Here: `sentences`, all that a rank of a stage says in a step; each `Sentence` has a
verb, a tensor, a group, S bytes, how often and why; and `units`, the parameters that
travel together along data. The `parallel` modules say the same when they run: a test
compares them call by call.

    x, its gradient    all_reduce, or all_gather and reduce_scatter     along tensor
    keys and values    all_gather, their gradients reduce_scatter       along context
    tokens             all_to_all to their experts and back             along expert
    x, its gradient    send and recv between stages                     along pipeline
    gradients          all_reduce, or reduce_scatter to their owners    along data
    parameters         all_gather from their owners                     along data
    owners' gradients  all_reduce                                       along copy

What is said for each micro-batch counts `micro_batches` times. ZeRO-2 and 3 keep no
whole gradient from one micro-batch to the next, and ZeRO-3 no whole parameter, so they
say theirs each time; without `reshard` the parameters only once. With hybrid sharding
owners are found along shard. Ranks along tensor have the same tokens and each sends
them all to the experts' parts, so experts go badly with tensor. A group of one rank
says nothing.
Not counted: what is smaller than one number a token, such as the norm of a gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_bytes
from collectives_lab.strategies.strategy import Shard, Strategy
from collectives_lab.trace import bound

COUNT_BYTES = 8
"""Of a number of tokens, int64."""

AGAIN = "computed again"


@dataclass(frozen=True)
class Sentence:
    """Calls of one verb that are alike.

    phase: "forward", "backward" or "update". what: the tensor. group: along which
    dimension of the mesh, of so many ranks. nbytes: S of one call, as in `Event`.
    times: calls a step. beside: the computing that it can run in the shadow of:
    "forward" or "backward" of its micro-batch, "first forward" or "last backward" of
    the first or the last micro-batch alone, "micro-batches" for that of others, ""
    where ranks wait for it.
    """

    phase: str
    verb: str
    what: str
    group: str
    ranks: int
    nbytes: int
    times: int
    why: str
    beside: str = ""

    def bytes_sent(self) -> float:
        """Return bytes that a rank sends a step: payloads of sends, else the verb's
        bound.
        """
        if self.verb in ("send", "recv"):
            return float(self.nbytes * self.times * (self.verb == "send"))
        sent, _ = bound(self.verb, self.nbytes, 0, None, range(self.ranks))
        return sent * self.times


class Sentences(tuple[Sentence, ...]):
    """All sentences of a step, shown as a table."""

    def bytes_sent(self, group: str | None = None) -> float:
        """Return bytes that a rank sends a step, in all or along one group."""
        return sum(s.bytes_sent() for s in self if group in (None, s.group))

    def table(self, why: bool = False) -> Table:
        """Return a row a sentence; why: with the reasons."""
        head = ["phase", "verb", "what", "along", "ranks", "S", "times", "sent"]
        rows = [
            [s.phase, s.verb, s.what, s.group, s.ranks, format_bytes(s.nbytes)]
            + [s.times, format_bytes(s.bytes_sent())]
            + ([s.why] if why else [])
            for s in self
        ]
        return table(head + (["why"] if why else []), *rows)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def sentences(strategy: Strategy, stage: int = 0) -> Sentences:
    """Return what a rank of this stage of the pipeline says in a step, phase by
    phase.
    """
    strategy.layers(stage)  # raises for a stage that is not there
    bill = [
        *_tensor(strategy, stage),
        *_context(strategy, stage),
        *_experts(strategy, stage),
        *_pipeline(strategy, stage),
        *_data(strategy, stage),
        *_ends(strategy, stage),
    ]
    phases = ("forward", "backward", "update")
    bill = [s for s in bill if s.ranks > 1 and s.times and s.nbytes]
    return Sentences(sorted(bill, key=lambda s: phases.index(s.phase)))


def _ends_of(strategy: Strategy, stage: int) -> tuple[bool, bool]:
    """Return whether the stage has the embedding, and whether it has the head."""
    return stage == 0, stage == strategy.pipeline - 1


# -- along tensor ----------------------------------------------------------------------


def _tensor(s: Strategy, stage: int) -> Iterator[Sentence]:
    """Yield tensor parallelism's calls: two pairs of layers a block, and the ends."""
    embedding, head = _ends_of(s, stage)
    pairs = 2 * s.blocks(stage)
    again = pairs if s.recompute == "full" else 0
    enters, leaves = pairs + head, pairs + embedding
    if s.sequence_parallel:
        yield from _by_sequence(s, stage, enters, leaves, again)
    else:
        yield _x(s, "forward", "all_reduce", leaves, "what the ranks' parts give")
        yield _x(s, "backward", "all_reduce", again, AGAIN)
        why = "what the ranks' parts took"
        yield _x(s, "backward", "all_reduce", enters, why, _beside_gradients(s))
    if head:
        along, times = ("tensor", s.tensor), s.micro_batches
        number = s.tokens * s.precision.activation
        why = "the loss over a vocabulary in parts"
        for what, nbytes in (("largest logits", number), ("sums", 2 * number)):
            yield Sentence("forward", "all_reduce", what, *along, nbytes, times, why)


def _by_sequence(
    s: Strategy, stage: int, enters: int, leaves: int, again: int
) -> Iterator[Sentence]:
    """Yield each all_reduce in its two halves.

    Then the gradients of what nobody shares.
    """
    yield _x(s, "forward", "all_gather", enters, "a pair wants all tokens")
    yield _x(s, "forward", "reduce_scatter", leaves, "the parts' sum, own tokens")
    yield _x(s, "backward", "all_gather", again, AGAIN)
    yield _x(s, "backward", "reduce_scatter", again, AGAIN)
    yield _x(s, "backward", "all_gather", leaves, "a pair wants all tokens' gradient")
    if s.regather:
        why = "what the pair took, for its parameters' gradient"
        yield _x(s, "backward", "all_gather", enters, why, "backward")
    why = "the sum, own tokens"
    yield _x(s, "backward", "reduce_scatter", enters, why, _beside_gradients(s))
    whole = sum(p.numel for layer in s.shards(stage) for p in layer if not p.cut)
    routers = sum(
        t.numel for layer in s.layers(stage) for t in layer if t.name == "router"
    )
    what, nbytes = "norms' gradients", (whole - routers) * s.precision.gradient
    why = "each rank has the term of its own tokens"
    along = "tensor", s.tensor
    yield Sentence("backward", "all_reduce", what, *along, nbytes, 1, why)


def _beside_gradients(s: Strategy) -> str:
    return "backward" if s.async_tensor else ""


def _x(
    s: Strategy, phase: str, verb: str, calls: int, why: str, beside: str = ""
) -> Sentence:
    is_input = verb == "all_gather" and bool(beside)
    is_x = phase == "forward" or why == AGAIN or is_input
    what, times = "x" if is_x else "gradient of x", calls * s.micro_batches
    along = "tensor", s.tensor
    return Sentence(phase, verb, what, *along, s.x_bytes, times, why, beside)


# -- along context ---------------------------------------------------------------------


def _context(s: Strategy, stage: int) -> Iterator[Sentence]:
    """Yield the keys and values of an example to all that have a part of its tokens.

    As Llama 3 does it, ranks wait for them: Grattafiori et al., 2024, section 3.3.2.
    Only a rank's own are kept, so the backward pass gathers them again, as NVIDIA's
    Transformer Engine does; a block that is computed again shares this call.
    """
    along, times = ("context", s.context), s.blocks(stage) * s.micro_batches
    numbers = 2 * s.model.key_width // s.tensor * s.tokens * s.context
    nbytes = numbers * s.precision.activation
    keys, why = "keys and values", "each token attends to all before it"
    yield Sentence("forward", "all_gather", keys, *along, nbytes, times, why)
    again = "only own ones were kept"
    yield Sentence("backward", "all_gather", keys, *along, nbytes, times, again)
    what, why = f"gradient of {keys}", "the sum, own tokens"
    yield Sentence("backward", "reduce_scatter", what, *along, nbytes, times, why)


# -- along expert ----------------------------------------------------------------------


def _experts(s: Strategy, stage: int) -> Iterator[Sentence]:
    """Yield the all_to_alls of tokens that are spread evenly over the experts."""
    along, times = ("expert", s.expert), s.blocks(stage) * s.micro_batches
    copies = s.model.top_k * s.x_bytes
    counts = s.model.experts * COUNT_BYTES
    forward = [
        ("how many tokens", counts, "so that ranks know what comes"),
        ("tokens", copies, "dispatch: to their experts"),
        ("results", copies, "combine: back to their ranks"),
    ]
    backward = [
        ("gradient of results", copies, "the combine, the other way"),
        ("gradient of tokens", copies, "the dispatch, the other way"),
    ]
    again = forward if s.recompute == "full" else []
    for phase, calls in (("forward", forward), ("backward", again + backward)):
        for what, nbytes, why in calls:
            yield Sentence(phase, "all_to_all", what, *along, nbytes, times, why)


# -- along pipeline --------------------------------------------------------------------


def _pipeline(s: Strategy, stage: int) -> Iterator[Sentence]:
    """Yield x to the next piece of the model, and its gradient on the way back."""
    along = "pipeline", s.pipeline
    first, last = _ends_of(s, stage)
    nbytes = s.x_bytes // (s.tensor if s.sequence_parallel else 1)
    ahead, behind = s.interleave - last, s.interleave - first
    for phase, verb, what, borders, why in (
        ("forward", "recv", "x", behind, "from the piece before"),
        ("forward", "send", "x", ahead, "to the next piece"),
        ("backward", "recv", "gradient of x", ahead, "from the next piece"),
        ("backward", "send", "gradient of x", behind, "to the piece before"),
    ):
        times = borders * s.micro_batches
        yield Sentence(phase, verb, what, *along, nbytes, times, why, "micro-batches")


def _ends(s: Strategy, stage: int) -> Iterator[Sentence]:
    """Yield the tied table's bytes: the first and the last stage have it twice."""
    if s.model.tied and any(_ends_of(s, stage)):
        along, what = ("ends", s.ranks("ends")), "table's gradient"
        nbytes = s.model.embedding[0].numel // s.tensor * s.precision.gradient
        why = "the embedding's table and the logits' are one"
        yield Sentence("backward", "all_reduce", what, *along, nbytes, 1, why)


# -- along data ------------------------------------------------------------------------


def _data(s: Strategy, stage: int) -> Iterator[Sentence]:
    """Yield gradients to all or to their owners, parameters from their owners.

    ZeRO-2's gradients and all of ZeRO-3's calls come with every micro-batch.
    """
    for group, call in product(("data", "replica"), _calls_of_a_unit(s)):
        phase, verb, what, each, why = call
        every_time = _with_every_micro_batch(s, phase)
        beside = phase if every_time else "last backward"
        if phase != "backward" and not every_time:
            beside = "first forward" if phase == "forward" or s.prefetch else ""
        along = ("shard" if s.copies > 1 else group), s.ranks(group) // s.copies
        what = f"experts' {what}" if group == "replica" else what
        sizes = Counter(
            (unit.padded if s.zero else unit.numel) * each
            for unit in units(s, stage, group)
        )
        for nbytes, count in sizes.items():
            times = count * (s.micro_batches if every_time else 1)
            yield Sentence(phase, verb, what, *along, nbytes, times, why, beside)
            if phase == "backward" and verb == "reduce_scatter":
                copy = ("copy", s.copies, nbytes // along[1], times)
                why_copy = "owners of the same part in other copies"
                what_copy = f"owners' {what}"
                yield Sentence(phase, "all_reduce", what_copy, *copy, why_copy, beside)


def _with_every_micro_batch(s: Strategy, phase: str) -> bool:
    if phase == "backward":
        return s.zero >= 2
    return s.zero == 3 and s.reshard


def _calls_of_a_unit(s: Strategy) -> Iterator[tuple[str, str, str, int, str]]:
    """Yield phase, verb, what, bytes a number and why."""
    gradient, parameter = s.precision.gradient, s.precision.parameter
    if s.zero == 0:
        why = "everybody updates with the sum"
        yield "backward", "all_reduce", "gradients", gradient, why
        return
    why = "the owner of a part wants its sum"
    yield "backward", "reduce_scatter", "gradients", gradient, why
    phases = {"update": "owners have updated their parts"}
    if s.zero == 3:
        phases = dict.fromkeys(("forward", "backward"), "forgotten after each use")
        if not s.reshard:
            phases = {"forward": "kept for the step"}
    for phase, why in phases.items():
        yield phase, "all_gather", "parameters", parameter, why
    in_parts = s.unit not in ("layer", "model")
    if s.zero == 3 and s.reshard and s.recompute == "full" and in_parts:
        yield "backward", "all_gather", "parameters", parameter, AGAIN


class Unit(NamedTuple):
    """Parameters sent together: `numel`, or `padded` to equal parts of all ranks."""

    numel: int
    padded: int


def units(strategy: Strategy, stage: int, group: str) -> list[Unit]:
    """Return the units of a rank of a stage whose copies lie along this group.

    A unit is a parameter, a layer, all of them, or a bucket that ends once it holds so
    many bytes, filled from the last layer on, where the backward pass begins.
    """
    layers = [
        [shard for shard in layer if shard.group == group]
        for layer in strategy.shards(stage)
    ]
    ranks = strategy.ranks("shard" if group == "data" else group)
    counts = (
        sum(shard.numel for shard in shards)
        for shards in _tensors_by_unit(layers, strategy)
    )
    return [Unit(numel, -(-numel // ranks) * ranks) for numel in counts if numel]


def _tensors_by_unit(
    layers: list[list[Shard]], strategy: Strategy
) -> list[list[Shard]]:
    if strategy.unit == "layer":
        return layers
    shards = [shard for layer in layers for shard in layer]
    if strategy.unit == "model":
        return [shards]
    if strategy.unit == "parameter":
        return [[shard] for shard in shards]
    assert isinstance(strategy.unit, int)
    return list(_buckets(shards[::-1], strategy.unit, strategy.precision.gradient))


def _buckets(shards: list[Shard], nbytes: int, each: int) -> Iterator[list[Shard]]:
    bucket: list[Shard] = []
    for shard in shards:
        bucket.append(shard)
        if sum(s.numel for s in bucket) * each >= nbytes:
            yield bucket
            bucket = []
    yield bucket

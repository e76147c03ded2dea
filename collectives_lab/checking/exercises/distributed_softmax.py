"""distributed_softmax(x) -> Tensor: this rank's slice of the softmax of all shards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from collectives_lab.checking import causes, least, shards, tensors
from collectives_lab.checking.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.wire import Outcome

INF, NAN = math.inf, math.nan
BEYOND = "exp of logits like these is inf or 0, unless the largest of all is taken off"
DIGITS = {torch.float32: 9, torch.float64: 17}
"""By dtype, as many as tell any two numbers of it apart."""

LARGE: Sequence[Sequence[list[float]]] = (
    [[1e4, 9999], [9998.5, 1e4]],
    [[-1e4, -9999], [-9998, -1e4], [-1e4]],
    [[1e4, 0], [-1e4, 3], [7], [9999.5]],
)
INFINITIES: Sequence[Sequence[list[float]]] = (
    [[1, -INF], [-INF, 2, 0.5]],
    [[-INF, -INF], [1, 2], [-INF]],
    [[0], [-INF], [3], [-INF, 4]],
    [[-INF], [-INF, -INF]],
    [[1, INF], [2], [0, 1]],
    [[1], [2, NAN], [3]],
)


def _cases(inputs: Inputs) -> Iterator[Case]:
    random = inputs.random
    for p in (1, 2, 3, 4, 5, 8):
        yield _case(shards.drawn(random, [5] * p), "result input_kept")
    yield _case(shards.drawn(random, [5] * 3, torch.float64), "result input_kept")
    for lengths in shards.LENGTHS:
        yield _case(shards.drawn(random, lengths), "uneven")
    for name, special in (("large", LARGE), ("infinities", INFINITIES)):
        for given in special:
            yield _case([torch.tensor(x, dtype=torch.float32) for x in given], name)
    for p in (2, 4, 8):
        yield _case(shards.drawn(random, [shards.LONG] * p), "traffic")


def _case(given: Sequence[torch.Tensor], tests: str) -> Case:
    return shards.case([3 * x for x in given], tests)


def _result(case: Case, outcome: Outcome) -> Judgement:
    given: Sequence[torch.Tensor] = case.data["shards"]
    whole = torch.cat(list(given)).double().softmax(0).split([len(x) for x in given])
    for rank, (found, own) in enumerate(zip(outcome.results, given, strict=True)):
        if tensors.kind_of(found) != tensors.kind_of(own):
            kinds = f"{tensors.kind_of(found)}, not {tensors.kind_of(own)}"
            return bad(f"rank {rank} returns {kinds}")
    for rank, (found, right) in enumerate(zip(outcome.results, whole, strict=True)):
        near = torch.isclose(found.double(), right, *_rounding(given), equal_nan=True)
        if not near.all():
            at = int(near.int().argmin())
            digits = DIGITS[found.dtype]
            numbers = f"{found[at]:.{digits}g}, not {right[at]:.{digits}g}"
            said = f"rank {rank}: [{at}] is {numbers}"
            return bad(f"{said}: {_why(outcome.results, whole, given, rank)}")
    return GOOD


def _rounding(given: Sequence[torch.Tensor]) -> tuple[float, float]:
    """How near a slice must be, relative and absolute: sums and large logits round."""
    limits, logits = torch.finfo(given[0].dtype), torch.cat(list(given)).double()
    largest = logits.abs().masked_fill(~logits.isfinite(), 0).max().item()
    return limits.eps * (100 + 4 * largest), limits.tiny


def _why(
    slices: Sequence[torch.Tensor],
    whole: Sequence[torch.Tensor],
    given: Sequence[torch.Tensor],
    rank: int,
) -> str:
    """What gives such a slice."""
    found, right = slices[rank].double(), whole[rank]
    if right.isnan().any():
        return "torch.softmax of all shards put together is NaN here"
    fits = [
        why
        for every, why in _mistakes(given, whole)
        if _are(slices, every) and not _are(whole, every)
    ]
    if why := causes.either(fits):
        return why
    if found.isnan().any():
        said = "inf/inf, 0/0 and inf - inf are NaN; which of them is it?"
        largest = max(x.abs().max().item() for x in given if x.numel())
        is_large = math.log(torch.finfo(given[0].dtype).max) < largest < INF
        return said + is_large * f" {BEYOND}"
    total = sum(part.double().sum().item() for part in slices)
    if not math.isclose(total, 1, rel_tol=1e-3):
        return f"the slices of all ranks add up to {total:.3g}, not to 1"
    if not torch.allclose(found, right, 1e-3):
        return "is the same number subtracted from the logits of all ranks?"
    return "that is near, but not to the precision of its dtype"


def _are(slices: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Whether the slices of all ranks are these, as far as a mistake can be told."""
    return all(
        torch.allclose(a.double(), b.double(), 1e-5, 0)
        for a, b in zip(slices, others, strict=True)
    )


def _mistakes(
    given: Sequence[torch.Tensor], whole: Sequence[torch.Tensor]
) -> Iterator[tuple[list[torch.Tensor], str]]:
    """The slices of all ranks after a known mistake, and which it is."""
    p, logits = len(given), [x.double() for x in given]
    alone = [x.softmax(0) for x in logits]
    yield alone, "that is the softmax of this rank's logits alone"
    yield [x / p for x in alone], "that is this rank's own softmax over the world size"
    filled = [x for x in logits if x.numel()]
    largest = torch.cat(filled).max()
    off = [(x - largest).exp() for x in logits]
    yield off, "that is not divided by the sum over all ranks"
    exps = [x.exp() for x in logits]
    yield exps, "that is exp of the logits, not divided by the sum over all ranks"
    yield [x / p for x in whole], "that is the softmax over the world size once more"
    yield [x.log() for x in whole], "that is the logarithm of the softmax"
    if len(filled) == p:
        own = [(x - x.max()).exp() for x in logits]
        total = sum(x.sum() for x in own)
        yield (
            [x / total for x in own],
            "each rank has taken off its own maximum; take off that of all ranks",
        )


def _least(case: Case) -> tuple[least.Bytes, least.Bytes]:
    """As `shards.least_told`, but that an empty slice asks for nothing."""
    sent, received = shards.least_told(case)
    given = case.data["shards"]
    asks = [n if len(x) else 0 for n, x in zip(received, given, strict=True)]
    return sent, asks


def _input_kept(case: Case, outcome: Outcome) -> Judgement:
    for rank, (given, after) in enumerate(
        zip(case.data["shards"], outcome.after, strict=True)
    ):
        x = after[0] if after else None
        if not isinstance(x, torch.Tensor) or not tensors.same_bits(given, x):
            return bad(f"rank {rank}: x has changed; work on a tensor of your own")
    return GOOD


EXERCISE = Exercise(
    "distributed_softmax",
    "Distributed softmax",
    "medium",
    40,
    [
        Property(
            "result", 3, "the slice, for 1, 2, 3, 4, 5 and 8 ranks, in the dtype of x"
        ),
        Property("uneven", 2, "shards of different lengths, some of them empty"),
        Property("large", 2, "logits of 10 000 and −10 000"),
        Property(
            "infinities",
            2,
            "logits of −inf, on some ranks all of them; NaN where torch says NaN",
        ),
        Property("input_kept", 1, "x unchanged"),
        Property("traffic", 2, "at most 64 times an all_gather of two numbers a rank"),
    ],
    _cases,
    least.over_the_wire(_result, _least),
    {"input_kept": _input_kept, "traffic": shards.few_bytes},
)

"""distributed_softmax(x) -> Tensor: this rank's slice of the softmax of all shards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from collectives_lab.checking import causes, lower_bounds, shards, tensors
from collectives_lab.checking.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.checking.untouched import untouched
from collectives_lab.wire import Outcome

INF, NAN = math.inf, math.nan
BEYOND = "exp of logits like these is inf or 0, unless the largest of all is taken off"
DIGITS = {torch.float32: 9, torch.float64: 17}
"""By dtype, the digits that tell any two of its numbers apart."""

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
        yield _case(shards.random_shards(random, [5] * p), "result input_kept")
    yield _case(
        shards.random_shards(random, [5] * 3, torch.float64), "result input_kept"
    )
    for lengths in shards.LENGTHS:
        yield _case(shards.random_shards(random, lengths), "uneven")
    for name, special in (("large", LARGE), ("infinities", INFINITIES)):
        for rank_numbers in special:
            yield _case(
                [torch.tensor(x, dtype=torch.float32) for x in rank_numbers], name
            )
    for p in (2, 4, 8):
        yield _case(shards.random_shards(random, [shards.LONG] * p), "traffic")


def _case(rank_logits: Sequence[torch.Tensor], tests: str) -> Case:
    return shards.case([3 * x for x in rank_logits], tests)


def _result(case: Case, outcome: Outcome) -> Judgement:
    rank_logits: Sequence[torch.Tensor] = case.data["shards"]
    probabilities = torch.cat(list(rank_logits)).double().softmax(0)
    expected = probabilities.split([len(x) for x in rank_logits])
    pairs = list(zip(outcome.results, rank_logits, strict=True))
    for rank, (actual, own) in enumerate(pairs):
        if tensors.kind_of(actual) != tensors.kind_of(own):
            kinds = f"{tensors.kind_of(actual)}, not {tensors.kind_of(own)}"
            return bad(f"rank {rank} returns {kinds}")
    for rank, (actual, right) in enumerate(zip(outcome.results, expected, strict=True)):
        tolerances = _tolerances(rank_logits)
        near = torch.isclose(actual.double(), right, *tolerances, equal_nan=True)
        if not near.all():
            at = int(near.int().argmin())
            digits = DIGITS[actual.dtype]
            numbers = f"{actual[at]:.{digits}g}, not {right[at]:.{digits}g}"
            prefix = f"rank {rank}: [{at}] is {numbers}"
            why = _why(outcome.results, expected, rank_logits, rank)
            return bad(f"{prefix}: {why}")
    return GOOD


def _tolerances(rank_logits: Sequence[torch.Tensor]) -> tuple[float, float]:
    """Return the relative and the absolute tolerance: sums and large logits round."""
    limits = torch.finfo(rank_logits[0].dtype)
    logits = torch.cat(list(rank_logits)).double()
    largest = logits.abs().masked_fill(~logits.isfinite(), 0).max().item()
    return limits.eps * (100 + 4 * largest), limits.tiny


def _why(
    slices: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    rank_logits: Sequence[torch.Tensor],
    rank: int,
) -> str:
    """Explain a wrong slice of the softmax."""
    actual, right = slices[rank].double(), expected[rank]
    if right.isnan().any():
        return "torch.softmax of all shards put together is NaN here"
    fits = [
        why
        for every, why in _mistakes(rank_logits, expected)
        if _are_close(slices, every) and not _are_close(expected, every)
    ]
    if why := causes.either(fits):
        return why
    if actual.isnan().any():
        hint = "inf/inf, 0/0 and inf - inf are NaN; which of them is it?"
        largest = max(x.abs().max().item() for x in rank_logits if x.numel())
        is_large = math.log(torch.finfo(rank_logits[0].dtype).max) < largest < INF
        return hint + is_large * f" {BEYOND}"
    total = sum(each.double().sum().item() for each in slices)
    if not math.isclose(total, 1, rel_tol=1e-3):
        return f"the slices of all ranks add up to {total:.3g}, not to 1"
    if not torch.allclose(actual, right, 1e-3):
        return "is the same number subtracted from the logits of all ranks?"
    return "that is near, but not to the precision of its dtype"


def _are_close(
    slices: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> bool:
    """Return whether the slices of all ranks are near the expected ones."""
    return all(
        torch.allclose(a.double(), b.double(), 1e-5, 0)
        for a, b in zip(slices, expected, strict=True)
    )


def _mistakes(
    rank_logits: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> Iterator[tuple[list[torch.Tensor], str]]:
    """Yield the slices of all ranks after each known mistake, and its explanation."""
    p, logits = len(rank_logits), [x.double() for x in rank_logits]
    alone = [x.softmax(0) for x in logits]
    yield alone, "that is the softmax of this rank's logits alone"
    yield [x / p for x in alone], "that is this rank's own softmax over the world size"
    filled = [x for x in logits if x.numel()]
    largest = torch.cat(filled).max()
    off = [(x - largest).exp() for x in logits]
    yield off, "that is not divided by the sum over all ranks"
    exps = [x.exp() for x in logits]
    yield exps, "that is exp of the logits, not divided by the sum over all ranks"
    yield [x / p for x in expected], "that is the softmax over the world size once more"
    yield [x.log() for x in expected], "that is the logarithm of the softmax"
    if len(filled) == p:
        own = [(x - x.max()).exp() for x in logits]
        total = sum(x.sum() for x in own)
        yield (
            [x / total for x in own],
            "each rank has taken off its own maximum; take off that of all ranks",
        )


def _lower_bound(case: Case) -> tuple[lower_bounds.Bytes, lower_bounds.Bytes]:
    """Return the bounds of `shards.lower_bound`; an empty slice needs no bytes."""
    sent, received = shards.lower_bound(case)
    rank_logits = case.data["shards"]
    needed = [n if len(x) else 0 for n, x in zip(received, rank_logits, strict=True)]
    return sent, needed


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
    lower_bounds.over_the_wire(_result, _lower_bound),
    {
        "input_kept": untouched({0: "x has changed; work on a tensor of your own"}),
        "traffic": shards.within_allowance,
    },
)

"""distributed_argmax(x) -> (float, int): the maximum of all ranks, and its rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

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
from collectives_lab.wire import Outcome

INF, NAN = math.inf, math.nan
TIES: Sequence[Sequence[list[float]]] = (
    [[5, 7], [7, 1]],
    [[1], [8, 2], [6], [3, 8]],
    [[-9], [4], [4, 4], [4]],
    [[-3]] * 5,
)
NANS: Sequence[Sequence[list[float]]] = (
    [[1, 2], [3, NAN]],
    [[NAN, 1], [9, INF]],
    [[5], [6], [2, NAN, 8], [INF, NAN]],
    [[-INF], [NAN], [NAN, NAN], [1]],
)
INFINITIES: Sequence[Sequence[list[float]]] = (
    [[2, 3], [INF, 1], [INF]],
    [[-INF, -5], [-INF], [-9]],
    [[], [-INF, -INF], [-INF]],
    [[], [], [-INF]],
)


def _cases(inputs: Inputs) -> Iterator[Case]:
    for p in (1, 2, 3, 4, 5, 8):
        yield shards.case(_negative(inputs, [6] * p), "result")
    yield shards.case(
        [x.view(3, 2) for x in _negative(inputs, [6] * 4)], "result", "2-D"
    )
    close = [torch.tensor([1 + r * 2.0**-40], dtype=torch.float64) for r in (1, 2, 3)]
    yield shards.case(close, "result", "alike in float32")
    for lengths in shards.LENGTHS:
        yield shards.case(_negative(inputs, lengths), "uneven")
    # On numbers of ranks of which some pairings never reach the last one.
    for lengths in ((4, 0, 2), (2, 7, 0, 30, 1)):
        rank_shards = _negative(inputs, lengths)
        rank_shards[-1][0] = -0.5
        yield shards.case(rank_shards, "uneven", "the last rank has the maximum")
    for name, special in (("ties", TIES), ("nan", NANS), ("infinities", INFINITIES)):
        for rank_numbers in special:
            yield shards.case(
                [torch.tensor(x, dtype=torch.float32) for x in rank_numbers], name
            )
    for p in (2, 4, 8):
        yield shards.case(_negative(inputs, [shards.LONG] * p), "traffic")


def _negative(inputs: Inputs, lengths: Sequence[int]) -> list[torch.Tensor]:
    """Draw shards of numbers below 0, so that a 0 for an empty shard would win."""
    return [-1 - x.abs() for x in shards.random_shards(inputs.random, lengths)]


def truth(rank_shards: Sequence[torch.Tensor]) -> tuple[float, int]:
    """Return the maximum and the lowest rank that has it; a NaN beats all numbers."""
    maxima = [(x.max().item(), rank) for rank, x in enumerate(rank_shards) if x.numel()]
    return max(
        maxima, key=lambda top: (math.isnan(top[0]), top[0])
    )  # the first of equals


def _result(case: Case, outcome: Outcome) -> Judgement:
    rank_shards = case.data["shards"]
    value, owner = truth(rank_shards)
    for rank, answer in enumerate(outcome.results):
        if wrong := _why_no_pair(answer):
            return bad(f"rank {rank} returns {wrong}")
        if not _is_equal(answer[0], value):
            prefix = (
                f"rank {rank} returns {answer[0]:.15g}, not the maximum {value:.15g}"
            )
            return bad(f"{prefix}: {_why_value(outcome.results, rank_shards, rank)}")
        if answer[1] != owner:
            prefix = (
                f"rank {rank} says that rank {answer[1]} has the maximum {value:.8g}"
            )
            return bad(
                f"{prefix}; it is rank {owner}: "
                f"{_why_rank(answer[1], rank_shards, owner)}"
            )
    return GOOD


def _why_no_pair(answer: Any) -> str:
    """Explain why an answer is not a pair (float, int); empty if it is."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return f"{tensors.kind_of(answer)}, not a pair (value, rank)"
    if wrong := shards.why_no_float(answer[0], "as the value "):
        return wrong
    if type(answer[1]) is not int:
        kind = tensors.kind_of(answer[1])
        return f"as the rank {kind}, not an int; `int(...)` makes one"
    return ""


def _is_equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _why_value(
    results: Sequence[Any], rank_shards: Sequence[torch.Tensor], rank: int
) -> str:
    """Explain the values of all ranks that are not the maximum."""
    if any(shard.isnan().any() for shard in rank_shards):
        return "a NaN is larger than everything, though no comparison with it says so"
    maximum, _ = truth(rank_shards)
    wrong = {
        r: x[0]
        for r, x in enumerate(results)
        if not _why_no_pair(x) and x[0] != maximum
    }
    fits = [
        why
        for every, why in _mistakes(rank_shards)
        if all(every[r] == value for r, value in wrong.items())
    ]
    if why := causes.either(fits):
        return why
    if any((shard == results[rank][0]).any() for shard in rank_shards):
        return "another element is larger"
    return (
        "nobody holds that. Does it stand for an empty shard, or has it been rounded?"
    )


def _mistakes(rank_shards: Sequence[torch.Tensor]) -> Iterator[tuple[list[float], str]]:
    """Yield what all ranks return after each known mistake, and its explanation."""
    every = torch.cat([shard.flatten() for shard in rank_shards])
    value, p = every.max(), len(rank_shards)
    casts = {x: value.to(x).item() for x in causes.NARROWER[value.dtype]}
    for cast in dict.fromkeys(casts.values()):
        narrow = next(x for x in casts if casts[x] == cast)  # the widest that gives it
        name = tensors.name_of(narrow)
        yield [cast] * p, f"it was rounded to {name}; keep the dtype"
    yield [every.min().item()] * p, "it is the minimum"
    yield (
        [every.abs().max().item()] * p,
        "it is the largest magnitude, without its sign",
    )
    first = rank_shards[0]
    if first.numel():
        yield [first.max().item()] * p, "it is the maximum of rank 0 alone"
    if all(shard.numel() for shard in rank_shards):
        own = [shard.max().item() for shard in rank_shards]
        yield own, "it is the maximum of this rank alone"
        yield [math.fsum(own)] * p, "it is the sum of the ranks' maxima"
        yield [math.fsum(own) / p] * p, "it is the mean of the ranks' maxima"


def _why_rank(claimed: int, rank_shards: Sequence[torch.Tensor], owner: int) -> str:
    """Explain why the claimed rank is not the one with the maximum."""
    value, place = rank_shards[owner].max().item(), int(rank_shards[owner].argmax())
    if not 0 <= claimed < len(rank_shards):
        return f"there is no rank {claimed}. Is that an index into a shard?"
    if not rank_shards[claimed].numel():
        return f"the shard of rank {claimed} is empty"
    if any(_is_equal(value, x) for x in rank_shards[claimed].flatten().tolist()):
        return f"rank {claimed} has one too, but the lowest rank wins"
    if claimed == place:
        return f"rank {claimed} has none, and {claimed} is its index in that shard"
    return f"rank {claimed} has none"


EXERCISE = Exercise(
    "distributed_argmax",
    "Distributed argmax",
    "medium",
    30,
    [
        Property(
            "result", 3, "the maximum and its rank, for 1, 2, 3, 4, 5 and 8 ranks"
        ),
        Property("uneven", 2, "shards of different lengths, some of them empty"),
        Property("ties", 2, "the lowest rank of those that hold the maximum"),
        Property("nan", 2, "a NaN wins, on the lowest rank with one"),
        Property("infinities", 1, "maxima of inf and of −inf, beside empty shards too"),
        Property("traffic", 2, "at most 64 times an all_gather of two numbers a rank"),
    ],
    _cases,
    lower_bounds.over_the_wire(_result, shards.lower_bound),
    {"traffic": shards.within_allowance},
)

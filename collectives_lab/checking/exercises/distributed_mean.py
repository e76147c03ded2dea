"""distributed_mean(x) -> float: the mean of all elements on all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from collectives_lab.checking import causes, lower_bounds, shards
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

CLOSE, CLOSER = 1e-6, 1e-12
"""Errors relative to the mean magnitude: of float32 arithmetic, and of float64."""


def _integer_shards(inputs: Inputs, lengths: Iterable[int]) -> list[torch.Tensor]:
    """Draw shards of small whole numbers above 0, which float32 sums exactly."""
    return [
        torch.tensor([float(inputs.random.randrange(1, 100)) for _ in range(n)])
        for n in lengths
    ]


def _cases(inputs: Inputs) -> Iterator[Case]:
    for p in (1, 2, 3, 4, 5, 8):
        yield shards.case(_integer_shards(inputs, [6] * p), "result")
    yield shards.case(
        [x.view(2, 3) for x in _integer_shards(inputs, [6] * 3)], "result", "2-D"
    )
    for lengths in shards.LENGTHS:
        yield shards.case(_integer_shards(inputs, lengths), "uneven")
    for dtype in (torch.float32, torch.float64):
        yield shards.case(
            shards.random_shards(inputs.random, [60] * 2, dtype), "dtypes"
        )
    yield shards.case([x.long() for x in _integer_shards(inputs, [6] * 3)], "dtypes")
    large = [[inputs.random.randrange(2**52) for _ in range(6)] for _ in range(2)]
    yield shards.case([torch.tensor(numbers) for numbers in large], "dtypes")
    for p in (3, 4, 5):
        # Added to 1 in turn, 2**-53 vanishes each time; added up first, it does not.
        numbers = [1.0, *[2.0**-53] * (p - 1)]
        rank_shards = [torch.tensor([x], dtype=torch.float64) for x in numbers]
        yield shards.case(rank_shards, "identical")
        rank_shards = shards.random_shards(inputs.random, [20] * p, torch.float64)
        yield shards.case(rank_shards, "identical")
    for p in (2, 4, 8):
        yield shards.case(_integer_shards(inputs, [shards.LONG] * p), "traffic")


def _result(case: Case, outcome: Outcome) -> Judgement:
    rank_numbers = [x.double().flatten().tolist() for x in case.data["shards"]]
    everything = [number for numbers in rank_numbers for number in numbers]
    mean = math.fsum(everything) / len(everything)
    size = math.fsum(map(abs, everything)) / len(everything)
    tolerance = size * (CLOSER if "dtypes" in case.tests else CLOSE)
    for rank, answer in enumerate(outcome.results):
        if wrong := shards.why_no_float(answer, f"rank {rank} returns "):
            return bad(wrong)
        if not abs(answer - mean) <= tolerance:
            prefix = f"rank {rank} returns {answer:.12g}, not {mean:.12g}"
            why = _why(outcome.results, rank_numbers, rank, mean, tolerance)
            near = abs(answer - mean) <= size * CLOSE
            return bad(f"{prefix}: {FEW_DIGITS if near else why}")
    return GOOD


FEW_DIGITS = "that is near, but right to the digits of float32 only; add up in float64"


def _why(
    answers: Sequence[Any],
    rank_numbers: list[list[float]],
    rank: int,
    mean: float,
    tolerance: float,
) -> str:
    """Name the known mistake that explains the wrong answers of all ranks."""
    wrong = [
        r
        for r, x in enumerate(answers)
        if type(x) is float and abs(x - mean) > tolerance
    ]
    explanations = [
        {
            why
            for x, why in _mistakes(rank_numbers, r)
            if abs(answers[r] - x) <= tolerance
        }
        for r in wrong
    ]
    if explanations and (why := causes.either(sorted(set.intersection(*explanations)))):
        return why
    if math.isnan(answers[rank]):
        return "an empty shard has no mean, and 0/0 is NaN"
    if rank:
        return "rank 0 has it right, and every rank needs it"
    return "add up the elements and count them, on all ranks, in float64"


def _mistakes(
    rank_numbers: list[list[float]], rank: int
) -> Iterator[tuple[float, str]]:
    """Yield what a rank returns after each known mistake, and its explanation."""
    world_size, own = len(rank_numbers), rank_numbers[rank]
    means = [math.fsum(numbers) / len(numbers) for numbers in rank_numbers if numbers]
    mean, total = math.fsum(means) / len(means), math.fsum(map(math.fsum, rank_numbers))
    zeros, count = mean * len(means) / world_size, sum(map(len, rank_numbers))
    yield math.floor(total / count), "that is the mean rounded down; `/` keeps the rest"
    if all(number.is_integer() for numbers in rank_numbers for number in numbers):
        wrapped = (int(total) + 2**31) % 2**32 - 2**31
        yield wrapped / count, "the sum has wrapped around in int32; add up in float64"
    yield (
        math.fsum(means),
        "that is the sum of the ranks' means; weight each by its count",
    )
    if own:
        yield total / len(own), "that is the sum over the count of this rank's shard"
        wide = total / len(own) / world_size
        yield wide, "that is the sum over the world size times this rank's own count"
        yield (
            math.fsum(own) / count,
            "that is the sum of this rank alone over the count",
        )
    yield mean, "that is the mean of the ranks' means; a long shard must count for more"
    if len(means) < world_size:
        yield zeros, "that is the mean of the ranks' means, with 0 for an empty shard"
    if own:
        yield math.fsum(own) / len(own), "that is the mean of this rank's own shard"
    yield total, "that is the sum; divide it by the number of elements"
    yield total / world_size, "that is the sum over the world size, not over the count"


EXERCISE = Exercise(
    "distributed_mean",
    "Distributed mean",
    "easy",
    20,
    [
        Property(
            "result",
            3,
            "the mean, for 1, 2, 3, 4, 5 and 8 ranks with shards of one length",
        ),
        Property("uneven", 3, "shards of different lengths, some of them empty"),
        Property("dtypes", 1, "float64 arithmetic for float32 and int64 as well"),
        Property("identical", 1, "the same bits on every rank"),
        Property("traffic", 2, "at most 64 times an all_gather of two numbers a rank"),
    ],
    _cases,
    lower_bounds.over_the_wire(_result, shards.lower_bound),
    {"identical": shards.same_bits, "traffic": shards.within_allowance},
)

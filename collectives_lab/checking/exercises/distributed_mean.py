"""distributed_mean(x) -> float: the mean of all elements on all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from collectives_lab.checking import causes, least, shards
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
"""Of the mean magnitude: so near comes float32 arithmetic, and only float64."""


def _whole(inputs: Inputs, lengths: Iterable[int]) -> list[torch.Tensor]:
    """Shards of small whole numbers above 0, which float32 adds up exactly."""
    return [
        torch.tensor([float(inputs.random.randrange(1, 100)) for _ in range(n)])
        for n in lengths
    ]


def _cases(inputs: Inputs) -> Iterator[Case]:
    for p in (1, 2, 3, 4, 5, 8):
        yield shards.case(_whole(inputs, [6] * p), "result")
    yield shards.case([x.view(2, 3) for x in _whole(inputs, [6] * 3)], "result", "2-D")
    for lengths in shards.LENGTHS:
        yield shards.case(_whole(inputs, lengths), "uneven")
    for dtype in (torch.float32, torch.float64):
        yield shards.case(shards.drawn(inputs.random, [60] * 2, dtype), "dtypes")
    yield shards.case([x.long() for x in _whole(inputs, [6] * 3)], "dtypes")
    large = [[inputs.random.randrange(2**52) for _ in range(6)] for _ in range(2)]
    yield shards.case([torch.tensor(numbers) for numbers in large], "dtypes")
    for p in (3, 4, 5):
        # Added to 1 in turn, 2**-53 vanishes each time; added up first, it does not.
        numbers = [1.0, *[2.0**-53] * (p - 1)]
        given = [torch.tensor([x], dtype=torch.float64) for x in numbers]
        yield shards.case(given, "identical")
        given = shards.drawn(inputs.random, [20] * p, torch.float64)
        yield shards.case(given, "identical")
    for p in (2, 4, 8):
        yield shards.case(_whole(inputs, [shards.LONG] * p), "traffic")


def _result(case: Case, outcome: Outcome) -> Judgement:
    given = [x.double().flatten().tolist() for x in case.data["shards"]]
    everything = [number for numbers in given for number in numbers]
    mean = math.fsum(everything) / len(everything)
    size = math.fsum(map(abs, everything)) / len(everything)
    tolerance = size * (CLOSER if "dtypes" in case.tests else CLOSE)
    for rank, found in enumerate(outcome.results):
        if wrong := shards.no_float(found, f"rank {rank} returns "):
            return bad(wrong)
        if not abs(found - mean) <= tolerance:
            said = f"rank {rank} returns {found:.12g}, not {mean:.12g}"
            why = _why(outcome.results, given, rank, mean, tolerance)
            near = abs(found - mean) <= size * CLOSE
            return bad(f"{said}: {FEW_DIGITS if near else why}")
    return GOOD


FEW_DIGITS = "that is near, but right to the digits of float32 only; add up in float64"


def _why(
    found: Sequence[Any],
    given: list[list[float]],
    rank: int,
    mean: float,
    tolerance: float,
) -> str:
    """Which known mistake gives this number, and those of all ranks that are wrong."""
    wrong = [
        r for r, x in enumerate(found) if type(x) is float and abs(x - mean) > tolerance
    ]
    known = [
        {why for x, why in _mistakes(given, r) if abs(found[r] - x) <= tolerance}
        for r in wrong
    ]
    if known and (why := causes.either(sorted(set.intersection(*known)))):
        return why
    if math.isnan(found[rank]):
        return "an empty shard has no mean, and 0/0 is NaN"
    if rank:
        return "rank 0 has it right, and every rank needs it"
    return "add up the elements and count them, on all ranks, in float64"


def _mistakes(given: list[list[float]], rank: int) -> Iterator[tuple[float, str]]:
    """What a rank returns after a known mistake, and which it is."""
    world_size, own = len(given), given[rank]
    means = [math.fsum(numbers) / len(numbers) for numbers in given if numbers]
    mean, total = math.fsum(means) / len(means), math.fsum(map(math.fsum, given))
    zeros, count = mean * len(means) / world_size, sum(map(len, given))
    yield math.floor(total / count), "that is the mean rounded down; `/` keeps the rest"
    if all(number.is_integer() for numbers in given for number in numbers):
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
    least.over_the_wire(_result, shards.least_told),
    {"identical": shards.same_bits, "traffic": shards.few_bytes},
)

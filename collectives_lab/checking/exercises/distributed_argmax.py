"""distributed_argmax(x) -> (float, int): the maximum on all ranks, and whose it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

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
    for lengths in ((4, 0, 2), (2, 7, 0, 30, 1)):  # whom some pairings never hear
        drawn = _negative(inputs, lengths)
        drawn[-1][0] = -0.5
        yield shards.case(drawn, "uneven", "the last rank has the maximum")
    for name, special in (("ties", TIES), ("nan", NANS), ("infinities", INFINITIES)):
        for given in special:
            yield shards.case(
                [torch.tensor(x, dtype=torch.float32) for x in given], name
            )
    for p in (2, 4, 8):
        yield shards.case(_negative(inputs, [shards.LONG] * p), "traffic")


def _negative(inputs: Inputs, lengths: Sequence[int]) -> list[torch.Tensor]:
    """Below 0, so that a 0 which stands for nothing would win."""
    return [-1 - x.abs() for x in shards.drawn(inputs.random, lengths)]


def truth(given: Sequence[torch.Tensor]) -> tuple[float, int]:
    """The maximum and the lowest rank that has it; a NaN is above everything."""
    tops = [(x.max().item(), rank) for rank, x in enumerate(given) if x.numel()]
    return max(
        tops, key=lambda top: (math.isnan(top[0]), top[0])
    )  # the first of equals


def _result(case: Case, outcome: Outcome) -> Judgement:
    given = case.data["shards"]
    value, owner = truth(given)
    for rank, found in enumerate(outcome.results):
        if wrong := _no_pair(found):
            return bad(f"rank {rank} returns {wrong}")
        if not _alike(found[0], value):
            said = f"rank {rank} returns {found[0]:.15g}, not the maximum {value:.15g}"
            return bad(f"{said}: {_why_value(outcome.results, given, rank)}")
        if found[1] != owner:
            said = f"rank {rank} says that rank {found[1]} has the maximum {value:.8g}"
            return bad(
                f"{said}; it is rank {owner}: {_why_rank(found[1], given, owner)}"
            )
    return GOOD


def _no_pair(found: Any) -> str:
    """Why something is not (float, int), or a list of them; empty if it is."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        return f"{tensors.kind_of(found)}, not a pair (value, rank)"
    if wrong := shards.no_float(found[0], "as the value "):
        return wrong
    if type(found[1]) is not int:
        return (
            f"as the rank {tensors.kind_of(found[1])}, not an int; `int(...)` makes one"
        )
    return ""


def _alike(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


def _why_value(results: Sequence[Any], given: Sequence[torch.Tensor], rank: int) -> str:
    """What the values of all ranks are that are not the maximum."""
    if any(shard.isnan().any() for shard in given):
        return "a NaN is larger than everything, though no comparison with it says so"
    value, _ = truth(given)
    wrong = {
        r: x[0] for r, x in enumerate(results) if not _no_pair(x) and x[0] != value
    }
    fits = [
        why
        for every, why in _mistakes(given)
        if all(every[r] == found for r, found in wrong.items())
    ]
    if why := causes.either(fits):
        return why
    if any((shard == results[rank][0]).any() for shard in given):
        return "another element is larger"
    return (
        "nobody holds that. Does it stand for an empty shard, or has it been rounded?"
    )


def _mistakes(given: Sequence[torch.Tensor]) -> Iterator[tuple[list[float], str]]:
    """What all ranks return after a known mistake, and which it is."""
    every = torch.cat([shard.flatten() for shard in given])
    value, p = every.max(), len(given)
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
    first = given[0]
    if first.numel():
        yield [first.max().item()] * p, "it is the maximum of rank 0 alone"
    if all(shard.numel() for shard in given):
        own = [shard.max().item() for shard in given]
        yield own, "it is the maximum of this rank alone"
        yield [math.fsum(own)] * p, "it is the sum of the ranks' maxima"
        yield [math.fsum(own) / p] * p, "it is the mean of the ranks' maxima"


def _why_rank(found: int, given: Sequence[torch.Tensor], owner: int) -> str:
    """What is wrong with the rank that is said to have the maximum."""
    value, place = given[owner].max().item(), int(given[owner].argmax())
    if not 0 <= found < len(given):
        return f"there is no rank {found}. Is that an index into a shard?"
    if not given[found].numel():
        return f"the shard of rank {found} is empty"
    if any(_alike(value, x) for x in given[found].flatten().tolist()):
        return f"rank {found} has one too, but the lowest rank wins"
    if found == place:
        return f"rank {found} has none, and {found} is its index in that shard"
    return f"rank {found} has none"


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
    least.over_the_wire(_result, shards.least_told),
    {"traffic": shards.few_bytes},
)

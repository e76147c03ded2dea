"""reduce_scatter(output, input) -> None: the first half of the ring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod

import torch

from collectives_lab import plans
from collectives_lab.checking import causes, lower_bounds, sums, tensors
from collectives_lab.checking.spec import (
    GOOD,
    SCHEDULES,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.checking.untouched import untouched
from collectives_lab.trace import Trace
from collectives_lab.wire import POINT_TO_POINT, Outcome, Schedule


def _case(
    part: str,
    inputs: Inputs,
    world_size: int,
    shape: Sequence[int],
    tests: str,
    dtype: torch.dtype = torch.float32,
    schedule: Schedule | None = None,
) -> Case:
    """Make a case; part: the argument of this shape, 1/P of the other one."""
    full = [shape[0] * world_size, *shape[1:]]
    shapes = {"input": full, "output": full} | {part: shape}
    rank_inputs = [
        tensors.integers(inputs.random, shapes["input"], dtype)
        for _ in range(world_size)
    ]
    args = [
        (tensors.integers(inputs.random, shapes["output"], dtype), x.clone())
        for x in rank_inputs
    ]
    label = f"{part} {tensors.describe(shape, dtype)}"
    nbytes = prod(full) * dtype.itemsize
    data = {"inputs": rank_inputs, "nbytes": nbytes, "itemsize": dtype.itemsize}
    return Case(args, tests.split(), label, data, schedule or Schedule())


def half_ring(part: str, inputs: Inputs) -> Iterable[Case]:
    """Yield the cases of a verb whose `part`, input or output, is 1/P of the other."""
    make = partial(_case, part)
    yield make(inputs, 2, [1], "result neighbours input_kept")
    yield make(inputs, 4, [3], "result neighbours input_kept")
    for p in (1, 3, 5, 8):
        more = " neighbours input_kept" * (p > 1)
        yield make(inputs, p, [2], f"world_sizes{more}")
    yield make(inputs, 3, [2, 3], "world_sizes")
    for dtype in (torch.float64, torch.int64):
        yield make(inputs, 3, [4], "dtypes input_kept", dtype)
    for p in (2, 4, 8):
        yield make(inputs, p, [1024], "traffic neighbours")
    for p, n in ((3, 1030), (4, 3)):
        for schedule in inputs.schedules(2):
            yield make(inputs, p, [n], "schedules", schedule=schedule)


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every rank's output is its chunk of the sum."""
    inputs, p = case.data["inputs"], case.world_size
    expected = torch.stack(inputs).sum(0).chunk(p)
    for rank in range(p):
        actual = outcome.after[rank][0]  # type: ignore[index]
        text, at = tensors.compare(actual, expected[rank], f"rank {rank}: output")
        if not text:
            continue
        why = "" if at is None else _why(case, outcome, rank, expected)
        return bad(f"{text}: {why}" if why else text)
    return GOOD


def _why(
    case: Case, outcome: Outcome, rank: int, expected: Sequence[torch.Tensor]
) -> str:
    """Explain the first wrong output; empty where the cause is not clear."""
    p = case.world_size
    actual, after = outcome.after[rank]  # type: ignore[misc]
    if tensors.same_bits(actual, case.args[rank][0]):  # type: ignore[index]
        message, right = "output is as it was before", expected[rank]
        if not tensors.same_bits(after, case.data["inputs"][rank]):
            message += "; the sum is in input" * tensors.contains(after, right)
        return message
    owners = [r for r in range(p) if tensors.same_bits(actual, expected[r])]
    if owners:
        return f"it is the part of rank {owners[0]}"
    if tensors.same_bits(actual, case.args[rank][0] + expected[rank]):  # type: ignore[index]
        return "it was added to what output held before"
    chunks = [[x.chunk(p)[r] for x in case.data["inputs"]] for r in range(p)]
    outputs = [after[0] for after in outcome.after]  # type: ignore[index]
    sums = [
        causes.Sum(output, right, terms)
        for output, right, terms in zip(outputs, expected, chunks, strict=True)
        if tensors.kind_of(output) == tensors.kind_of(right)
    ]
    return causes.explain_sums(sums) or causes.miscounts(chunks[rank], actual)


def _lower_bound(case: Case) -> tuple[lower_bounds.Bytes, lower_bounds.Bytes]:
    """Return the bounds: a rank sends all other chunks and receives its own."""
    p, chunk = case.world_size, case.data["nbytes"] // case.world_size
    return [(p - 1) * chunk] * p, [chunk] * p


def _budget(case: Case) -> Trace:
    return plans.ring_reduce_scatter(case.world_size, case.data["nbytes"])


INPUT_KEPT = untouched({1: "input was written to; sum in a buffer of your own"})


def properties(result: str, most_sent: str) -> list[Property]:
    """Return the properties that reduce_scatter and all_gather share."""
    return [
        Property("result", 2, f"{result} on 2 and 4 ranks"),
        Property("world_sizes", 2, "on 1, 3, 5 and 8 ranks, 1-D and 2-D"),
        Property("dtypes", 1, "float64 and int64, exact beyond what float32 can hold"),
        Property("input_kept", 1, "input is as it was before"),
        Property("neighbours", 1, "messages between neighbours in the ring only"),
        Property("traffic", 2, f"no rank sends more than {most_sent}"),
        SCHEDULES,
    ]


EXERCISE = Exercise(
    "reduce_scatter",
    "Reduce-scatter, the ring's first half",
    "medium",
    30,
    properties("each rank's part of the sum", "(P-1)/P of the input"),
    partial(half_ring, "output"),
    lower_bounds.over_the_wire(_result, _lower_bound),
    {
        "input_kept": INPUT_KEPT,
        "neighbours": sums.only_neighbours,
        "traffic": sums.within_budget(_budget, lambda case: 0.0, "the ring's bound"),
    },
    POINT_TO_POINT,
)

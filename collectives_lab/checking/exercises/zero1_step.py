"""zero1_step(weights, gradient, momentum, lr) -> None: a sharded optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
from collectives_lab.wire import Outcome, Schedule

DECAY = 0.9
"""The share of the momentum that remains after a step."""

CLOSE = {torch.float32: 1e-5, torch.float64: 1e-12}
"""Relative tolerances, since the gradients may be summed in any order."""


def _case(
    inputs: Inputs,
    world_size: int,
    length: int,
    tests: str,
    dtype: torch.dtype = torch.float32,
    schedule: Schedule | None = None,
) -> Case:
    """Make a case of one step; length: of the weights."""
    draw, shard = inputs.random, -(-length // world_size)
    gradients = [tensors.normals(draw, [length], dtype) for _ in range(world_size)]
    weights, momentum = (tensors.normals(draw, [length], dtype) for _ in range(2))
    padded = torch.cat([momentum, momentum.new_zeros(world_size * shard - length)])
    lr = draw.uniform(0.1, 0.5)
    args = [
        (weights.clone(), gradients[rank].clone(), own.clone(), lr)
        for rank, own in enumerate(padded.view(world_size, shard))
    ]
    data = {
        "weights": weights,
        "gradients": gradients,
        "momentum": padded,
        "lr": lr,
        "nbytes": padded.nbytes,
    }
    label = f"{length} weight{'s' * (length != 1)} in {tensors.name_of(dtype)}"
    return Case(args, tests.split(), label, data, schedule or Schedule())


def _cases(inputs: Inputs) -> Iterator[Case]:
    yield _case(inputs, 2, 6, "result state gradient_kept")
    yield _case(inputs, 4, 8, "result state gradient_kept")
    for p, n in ((1, 5), (2, 7), (3, 1), (3, 10), (4, 2), (5, 13), (8, 3), (8, 21)):
        yield _case(inputs, p, n, "lengths state gradient_kept")
    for p, n in ((2, 6), (3, 5)):
        yield _case(inputs, p, n, "dtypes", torch.float64)
    for p in (3, 4):
        yield _case(inputs, p, 1000, "identical")
    for p, n in ((2, 1024), (4, 1024), (4, 1001), (8, 1024)):
        yield _case(inputs, p, n, "traffic")
    for p, n in ((3, 3072), (4, 8)):
        for schedule in inputs.schedules(2):
            yield _case(inputs, p, n, "schedules", schedule=schedule)


def _stepped(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights and the padded momentum of one process, in float64."""
    mean = torch.stack([g.double() for g in case.data["gradients"]]).mean(0)
    momentum = DECAY * case.data["momentum"].double()
    momentum[: len(mean)] += mean
    weights = case.data["weights"].double()
    return weights - case.data["lr"] * momentum[: len(mean)], momentum


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every rank holds the weights that one process would hold."""
    before = case.data["weights"]
    expected = _stepped(case)[0].to(before.dtype)
    for rank in range(case.world_size):
        actual = outcome.after[rank][0]  # type: ignore[index]
        name, close = f"rank {rank}: weights", CLOSE[before.dtype]
        text, at = tensors.compare(actual, expected, name, close)
        if not text:
            continue
        if at is not None and tensors.same_bits(actual, before):
            return bad(
                f"rank {rank}: weights are as they were before; the new ones must be "
                "in the tensor that was given, not in another one"
            )
        why = "" if at is None else _why(case, rank, actual, expected)
        return bad(f"{text}: {why}" if why else text)
    return GOOD


def _why(case: Case, rank: int, actual: torch.Tensor, expected: torch.Tensor) -> str:
    """Name the known mistake that explains all wrong weights; empty if none does."""
    close = CLOSE[actual.dtype]
    off = (actual.double() - expected.double()).abs() / expected.abs().clamp(min=1)
    wrong = (~(off <= close)).nonzero().flatten().tolist()
    explanations: list[set[str]] = []
    for i in wrong[:MUST_EXPLAIN]:
        number = actual[i].item()
        mistakes = _mistakes(case, rank, i)
        explanations.append(
            {why for x, why in mistakes if abs(number - x) <= close * max(1, abs(x))}
        )
    if fits := set.intersection(*explanations):
        return causes.either(sorted(fits))
    if off.max() <= CLOSE[torch.float32] and len(wrong) > 1:
        return "that is right to the digits of float32 only"
    return ""


MUST_EXPLAIN = 64
"""Number of wrong weights that a mistake must explain."""


def _mistakes(case: Case, rank: int, i: int) -> Iterator[tuple[float, str]]:
    """Yield weight i of a rank after each known mistake, and its explanation."""
    gradients = [g[i].item() for g in case.data["gradients"]]
    weight, momentum = (case.data[name][i].item() for name in ("weights", "momentum"))
    lr, total = case.data["lr"], sum(gradients)
    mean = total / len(gradients)
    yield weight, "it is as it was before; are the parts of all owners gathered?"
    yield (
        weight - lr * (DECAY * momentum + total),
        "it took the sum of the gradients, not their mean",
    )
    owner = i * len(gradients) // len(case.data["momentum"])
    yield (
        weight - lr * (DECAY * momentum + gradients[owner]),
        "its owner took its own gradient alone",
    )
    yield (
        weight - lr * (DECAY * momentum + gradients[rank]),
        "it took this rank's own gradient alone",
    )
    yield weight - lr * mean, "it took the mean gradient, and no momentum"
    yield (
        weight - lr * momentum,
        "it went by the momentum of before; that changes first, and then the weights",
    )
    yield weight - lr * (momentum + mean), f"the momentum was not multiplied by {DECAY}"
    yield (
        weight - DECAY * momentum - lr * mean,
        "lr belongs in front of the new momentum, not of the gradient in it",
    )
    yield weight + lr * (DECAY * momentum + mean), "it went uphill: subtract"


def _lower_bound(case: Case) -> tuple[lower_bounds.Bytes, lower_bounds.Bytes]:
    """Return the bounds: a rank sends all other shards of the gradient.

    It receives as many new weights.
    """
    weights = case.data["weights"]
    shard = -(-len(weights) // case.world_size)
    shards = [len(piece) for piece in weights.split(max(shard, 1))]
    shards += [0] * (case.world_size - len(shards))
    every = [(len(weights) - own) * weights.itemsize for own in shards]
    return every, every


def _identical(case: Case, outcome: Outcome) -> Judgement:
    remedy = "the owner of a weight must update it, and all others copy what it has"
    return sums.same_everywhere(case, outcome, remedy)


def _state(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every rank keeps its shard of the momentum, padded with zeros."""
    length, dtype = len(case.data["weights"]), case.data["weights"].dtype
    shards = _stepped(case)[1].to(dtype).view(case.world_size, -1)
    for rank, shard in enumerate(shards):
        actual: Any = outcome.after[rank][2]  # type: ignore[index]
        text, at = tensors.compare(
            actual, shard, f"rank {rank}: momentum", CLOSE[dtype]
        )
        if text and at is not None and rank * len(shard) + at[0] >= length:
            return bad(f"{text}: no weight belongs to it, so it stays 0")
        if text and at is not None and tensors.same_bits(actual, case.args[rank][2]):  # type: ignore[index]
            return bad(f"rank {rank}: momentum is as it was; it changes in place")
        if text:
            return bad(text)
    return GOOD


def _budget(case: Case) -> Trace:
    """Plan a reduce-scatter and an all-gather: together, a ring's all-reduce."""
    return plans.ring_all_reduce(case.world_size, case.data["nbytes"])


EXERCISE = Exercise(
    "zero1_step",
    "An optimizer in parts",
    "medium",
    40,
    [
        Property("result", 2, "the weights of one process, on 2 and 4 ranks"),
        Property("lengths", 3, "any number of weights on 1, 2, 3, 4, 5 and 8 ranks"),
        Property("state", 2, "momentum is this rank's part of it, zeros at the end"),
        Property("gradient_kept", 1, "gradient is as it was before"),
        Property("dtypes", 1, "float64 as well, to its own precision"),
        Property("identical", 2, "all ranks end with the same bits"),
        Property("traffic", 3, "no rank sends more than an all_reduce would"),
        SCHEDULES,
    ],
    _cases,
    lower_bounds.over_the_wire(_result, _lower_bound),
    {
        "state": _state,
        "gradient_kept": untouched({1: "gradient was written to; it is only read"}),
        "identical": _identical,
        "traffic": sums.within_budget(
            _budget, lambda case: 0.0, "an all_reduce's bound"
        ),
    },
)

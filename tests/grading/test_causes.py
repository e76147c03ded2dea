"""What a wrong result is told to be: what its values prove, and nothing else.

No rank runs here: the judges look at values that a mistake would leave behind.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest
import torch

from collectives_lab.checking import EXERCISES, causes, tensors
from collectives_lab.checking.spec import Case, Inputs, Judgement
from collectives_lab.trace import Trace
from collectives_lab.wire import Outcome

Tensors = list[torch.Tensor]


def judged(
    name: str,
    label: str,
    after: Callable[[Case], Sequence[tuple]] | None = None,
    returned: Callable[[Case], Sequence[Any]] | None = None,
) -> Judgement:
    """The verdict on what ranks hold and return in the first case called so."""
    exercise = EXERCISES[name]
    case = next(c for c in exercise.cases(Inputs("1")) if label in str(c))
    held = after(case) if after else [tuple(args or ()) for args in case.args]
    results = returned(case) if returned else [None] * case.world_size
    trace = Trace.from_events([], case.world_size)
    return exercise.result(case, Outcome(case.world_size, results, held, trace))


# -- sums in place ---------------------------------------------------------------------


def sums(make: Callable[[Tensors], Tensors]) -> Callable[[Case], list[tuple]]:
    """What ranks hold, made of what they gave."""
    return lambda case: [(x,) for x in make(list(case.data["inputs"]))]


def everywhere(make: Callable[[torch.Tensor], torch.Tensor]):
    """All ranks hold the same, made of the rows of what they gave."""
    return sums(lambda given: [make(torch.stack(given))] * len(given))


def narrow(dtype: torch.dtype):
    return everywhere(lambda x: x.to(dtype).sum(0).to(x.dtype))


def sent_as_float32(given: Tensors) -> Tensors:
    """Each rank adds what came as float32 to its own number, which stays as it is."""
    total = sum(x.float().double() for x in given)
    return [total - x.float().double() + x for x in given]


def gathered_as_float32(given: Tensors) -> Tensors:
    """Each rank has its own chunk's sum, and those of others as they came."""
    out = [sum(given).float().double() for _ in given]
    for rank, x in enumerate(out):
        x.tensor_split(len(out))[rank].copy_(sum(given).tensor_split(len(out))[rank])
    return out


def drop_tail(given: Tensors) -> Tensors:
    p, n = len(given), len(given[0])
    total, out = sum(given), [x.clone() for x in given]
    for x in out:
        x[: n // p * p] = total[: n // p * p]
    return out


def own_chunk(given: Tensors) -> Tensors:
    out = [x.clone() for x in given]
    for rank, x in enumerate(out):
        x.tensor_split(len(out))[rank].copy_(sum(given).tensor_split(len(out))[rank])
    return out


SUMS = {
    "mean": ("2 ranks, 1 of", everywhere(lambda x: x.sum(0) / 2), "it is the mean of"),
    "mean of 3": (
        "3 ranks, 7 of",
        everywhere(lambda x: x.mean(0)),
        "it is the mean of",
    ),
    "divided first": (
        "5 ranks, 13 of",
        everywhere(lambda x: (x / 5).sum(0)),
        "it is the mean of",
    ),
    "divided twice": (
        "3 ranks, 7 of",
        everywhere(lambda x: x.sum(0) / 9),
        "the sum divided by 9",
    ),
    "whole numbers": (
        "3 ranks, 7 of int64",
        everywhere(lambda x: x.sum(0) // 3),
        "it is the mean of",
    ),
    "three times": (
        "3 ranks, 6 of",
        everywhere(lambda x: x.sum(0) + 2 * x[0]),
        ": it counts rank 0 3 times$",
    ),
    "P times": (
        "3 ranks, 6 of",
        everywhere(lambda x: 3 * x.sum(0)),
        ": it counts every rank 3 times$",
    ),
    "subtracted": (
        "3 ranks, 6 of",
        everywhere(lambda x: x.sum(0) - 2 * x[1]),
        ": it subtracts rank 1$",
    ),
    "lacking": (
        "5 ranks, 13 of",
        everywhere(lambda x: x.sum(0) - x[4]),
        ": it lacks rank 4$",
    ),
    "nothing": ("3 ranks, 6 of", everywhere(lambda x: 0 * x[0]), "no rank's number"),
    "tail": (
        "3 ranks, 7 of float32",
        sums(drop_tail),
        r"the last one is left out: 3 chunks of 7 // 3 elements do not hold all 7",
    ),
    "tail of nothing": (
        "3 ranks, 1 of float32",
        sums(drop_tail),
        r"as it was before; .*, and chunks of 1 // 3 = 0 elements would leave all",
    ),
    "own chunk": ("4 ranks, 6 of", sums(own_chunk), "the sum of one chunk only"),
    "next chunk": (
        "4 ranks, 8 of",
        everywhere(lambda x: x.sum(0).roll(2)),
        "where the chunk next to it belongs",
    ),
    "reversed": (
        "4 ranks, 8 of",
        everywhere(lambda x: x.sum(0).flip(0)),
        "in reversed order",
    ),
    "mixed up": (
        "3 ranks, 3 x 5 of",
        everywhere(lambda x: x.sum(0).T.reshape(3, 5)),
        "not in their places",
    ),
    "float32": ("3 ranks, 7 of float64", narrow(torch.float32), "through float32"),
    "float32 of int": ("3 ranks, 7 of int64", narrow(torch.float32), "through float32"),
    "float64 of int": ("3 ranks, 7 of int64", narrow(torch.float64), "through float64"),
    "int32": ("3 ranks, 7 of int64", narrow(torch.int32), "int32 on its way, which wr"),
    "bfloat16": ("3 ranks, 7 of", narrow(torch.bfloat16), "went through bfloat16"),
    "float16": ("3 ranks, 7 of float64", narrow(torch.float16), ""),
    "owners keep all bits": (
        "3 ranks, 7 of float64",
        sums(gathered_as_float32),
        "through float32",
    ),
    "sent as float32": (
        "3 ranks, 7 of float64",
        sums(sent_as_float32),
        "through float32",
    ),
    "maximum": (
        "3 ranks, 6 of",
        everywhere(lambda x: x.amax(0)),
        ": it is the maximum of the ranks' numbers$",
    ),
    "minimum": (
        "3 ranks, 6 of",
        everywhere(lambda x: x.amin(0)),
        ": it is the minimum of the ranks' numbers$",
    ),
    "broadcast": (
        "3 ranks, 6 of",
        everywhere(lambda x: x[2]),
        ": it is what rank 2 gave, alone$",
    ),
}
"""A case, what ranks hold in it after a mistake, and what is said of it."""


def matches(pattern: str, judgement: Judgement) -> bool:
    return not judgement.holds and bool(re.search(pattern, judgement.message))


@pytest.mark.parametrize("name", SUMS)
def test_a_wrong_sum_is_reported_by_its_values(name: str) -> None:
    """What was divided, lacks a rank, is rounded, stands elsewhere or was left out."""
    label, after, message = SUMS[name]
    judgement = judged("ring_all_reduce", label, after)
    assert matches(message, judgement), judgement.message


def test_the_maximum_of_one_number_may_be_a_broadcast() -> None:
    """Two causes that fit are both said."""
    message = judged(
        "ring_all_reduce", "2 ranks, 1 of", everywhere(lambda x: x.amax(0))
    ).message
    assert "it is the maximum of the ranks' numbers, or it is what rank" in message


def test_a_rank_that_was_left_out_is_as_it_was() -> None:
    """Its number is the largest, but a rank that has the sum took no maximum."""
    judgement = judged(
        "ring_all_reduce", "2 ranks, 1 of", sums(lambda x: [x[0] + x[1], x[1]])
    )
    assert (
        "as it was before" in judgement.message and "maximum" not in judgement.message
    )


def test_a_new_tensor_is_one_that_was_returned() -> None:
    """It is said to be there only where the sum is in it."""
    explained = []
    for factor in (1, 2):
        judgement = judged(
            "ring_all_reduce",
            "2 ranks, 2 of",
            sums(list),
            lambda case, f=factor: [f * case.data["expected"]] * 2,
        )
        explained.append("not in a new one" in judgement.message)
    assert explained == [True, False]


@pytest.mark.parametrize("off", [1.0, 3.0, 1e6 + 1, math.pi])
@pytest.mark.parametrize("label", ["2 ranks, 8 of", "3 ranks, 7 of float64", "8 ranks"])
def test_what_nothing_explains_is_not_guessed(label: str, off: float) -> None:
    """Numbers that are off by something else get no cause."""
    judgement = judged("ring_all_reduce", label, everywhere(lambda x: x.sum(0) + off))
    assert not judgement.holds and judgement.message.count(":") == 1, judgement.message


@pytest.mark.slow
def test_random_numbers_have_no_cause() -> None:
    """Garbage is not taken for a way of counting, in 200 tries on up to 8 ranks."""
    drawn = random.Random(5)
    for k in range(200):
        p, n = (2, 3, 5, 8)[k % 4], 4
        *given, total = (tensors.integers(drawn, [n]) for _ in range(p + 1))
        sums = [causes.Sum(total, torch.stack(given).sum(0), given)]
        assert not causes.explain_sums(sums, by_chunks=True)
        assert not causes.miscounts(given, total)


def test_counts_must_explain_the_neighbours_too() -> None:
    """One element that fits by chance is not enough where the next does not fit."""
    given = [torch.tensor([a, b]) for a, b in ((1013.0, 5077.0), (20011.0, 31.0))]
    total = torch.tensor([3039.0 + 20011.0, 77.5])
    assert not causes.miscounts(given, total)
    assert causes.miscounts(given, torch.tensor([23050.0, 5108.0]))


@pytest.mark.parametrize(
    "counts, message",
    [
        ([1, 0, 1], "it lacks rank 1"),
        ([2, 1, 1], "it counts rank 0 twice"),
        ([0, 1, 3], "it lacks rank 0 and it counts rank 2 3 times"),
        ([5, 5, 5], "it counts every rank 5 times"),
        ([-1, 1, 1], "it subtracts rank 0"),
        ([50, 1, 1], ""),
    ],
)
def test_a_wrong_sum_names_what_it_lacks(counts: list[int], message: str) -> None:
    """From the numbers alone, where they can only mean one thing."""
    given = [torch.tensor([float(n)]) for n in (1013, 20011, 700001)]
    total = sum(c * x for c, x in zip(counts, given, strict=True))
    assert causes.miscounts(given, total) == message


# -- other exercises -------------------------------------------------------------------


def parts(make: Callable[[torch.Tensor, int], torch.Tensor]):
    """What reduce_scatter's ranks hold: their part, made of all inputs."""

    def held(case: Case) -> list[tuple]:
        rows = torch.stack(case.data["inputs"])
        return [(make(rows, r), args[1]) for r, args in enumerate(case.args)]

    return held


def part(x: torch.Tensor, rank: int) -> torch.Tensor:
    return x.chunk(x.shape[0], 1)[rank]


def sum_in_input(case: Case) -> list[tuple]:
    total = torch.stack(case.data["inputs"]).sum(0)
    return [(output, total) for output, _ in case.args]


def in_order(*order: int):
    """What all_gather's ranks hold: the inputs in some order."""

    def held(case: Case) -> list[tuple]:
        row = torch.cat([case.data["inputs"][rank] for rank in order])
        return [(row, args[1]) for args in case.args]

    return held


HELD = {
    "reduce_scatter": {
        "mean": (
            "4 ranks",
            parts(lambda x, r: part(x, r).sum(0) / 4),
            "it is the mean of",
        ),
        "input": ("4 ranks", sum_in_input, "as it was before; the sum is in input"),
        "next": (
            "4 ranks",
            parts(lambda x, r: part(x, r - 1).sum(0)),
            "part of rank 3",
        ),
        "own": ("4 ranks", parts(lambda x, r: part(x, r)[r]), "it lacks ranks 1-3"),
        "float32": (
            "float64",
            parts(lambda x, r: part(x, r).float().sum(0).double()),
            "went through float32",
        ),
        "reversed": (
            "4 ranks",
            parts(lambda x, r: part(x, r).sum(0).flip(0)),
            "in reversed order",
        ),
    },
    "all_gather": {
        "order": (
            "4 ranks",
            in_order(3, 2, 1, 0),
            "input of rank 0 belongs there, not that of rank 3$",
        ),
        "float32": (
            "float64",
            lambda case: [
                (torch.cat(case.data["inputs"]).float().double(), args[1])
                for args in case.args
            ],
            "rank 0 belongs there; it went through float32",
        ),
        "sum": (
            "4 ranks",
            lambda case: [
                (torch.stack(case.data["inputs"]).sum(0).repeat(4), args[1])
                for args in case.args
            ],
            "belongs there, and not the sum",
        ),
    },
    "tree_broadcast": {
        "unchanged": (
            "2 ranks",
            lambda case: [(x,) for x, _ in case.args],
            "root 0 had: it is as it was before",
        ),
        "added": (
            "2 ranks",
            lambda case: [
                (case.data["inputs"][0],),
                (case.data["inputs"][0] + case.data["inputs"][1],),
            ],
            "it was added to what this rank had",
        ),
        "float32": (
            "2 x 2 of float64",
            lambda case: [(case.data["inputs"][1].float().double(),)] * 3,
            "went through float32",
        ),
        "another": (
            "4 ranks",
            lambda case: [(case.data["inputs"][r],) for r in (0, 0, 1, 0)],
            "root 0 had: it is what rank 1 had",
        ),
    },
    "hierarchical_all_reduce": {
        "mean": (
            "4 ranks",
            everywhere(lambda x: x.mean(0)),
            "it is the mean of the ranks' numbers",
        ),
        "node": (
            "4 ranks",
            sums(lambda x: [x[0] + x[1]] * 2 + [x[2] + x[3]] * 2),
            "it lacks ranks 2 and 3",
        ),
    },
}
"""By exercise and mistake: the case, what ranks hold after it, and what is said."""


@pytest.mark.parametrize(
    "exercise, name", [(e, name) for e, known in HELD.items() for name in known]
)
def test_a_wrong_tensor_is_reported_by_its_values(exercise: str, name: str) -> None:
    """In every exercise that writes tensors."""
    label, after, message = HELD[exercise][name]
    judgement = judged(exercise, label, after)
    assert matches(message, judgement), judgement.message


def numbers(case: Case) -> list[list[float]]:
    return [x.double().flatten().tolist() for x in case.data["shards"]]


def everyone(make: Callable[[list[float]], Any]):
    """All ranks return the same, made of all elements."""
    return lambda case: [make(list(chain(*numbers(case))))] * case.world_size


def each(make: Callable[[torch.Tensor], Any]):
    """Every rank returns something made of its shard."""
    return lambda case: [make(x) for x in case.data["shards"]]


def local_maxima(case: Case) -> Tensors:
    own = [(x - x.max()).exp() for x in case.data["shards"]]
    return [x / torch.cat(own).sum() for x in own]


def whole(case: Case) -> Tensors:
    shards = case.data["shards"]
    return list(torch.cat(shards).softmax(0).split([len(x) for x in shards]))


def naive(case: Case) -> Tensors:
    exps = [x.exp() for x in case.data["shards"]]
    return [x / torch.cat(exps).sum() for x in exps]


RETURNED = {
    "distributed_mean": {
        "sum": ("2 ranks", everyone(sum), "that is the sum; divide it"),
        "over P": ("3 ranks", everyone(lambda x: sum(x) / 3), "over the world size"),
        "own": ("2 ranks", each(lambda x: x.mean().item()), "this rank's own shard"),
        "means": (
            "2 ranks, shards of 3, 1",
            lambda case: [sum(sum(x) / len(x) for x in numbers(case)) / 2] * 2,
            "mean of the ranks' means; a long shard must count for more",
        ),
        "floor": (
            "int64",
            everyone(lambda x: float(sum(x) // len(x))),
            "that is the mean rounded down",
        ),
        "float32": (
            "60 float32",
            everyone(lambda x: torch.tensor(x).sum().item() / len(x)),
            "the digits of float32 only",
        ),
        "garbage": ("2 ranks", everyone(lambda x: 1e9), "add up the elements"),
    },
    "distributed_argmax": {
        "float32": (
            "alike in float32",
            lambda case: [(1.0, 0)] * 3,
            "rounded to float32; keep the dtype|maximum of rank 0 alone",
        ),
        "own": (
            "3 ranks",
            lambda case: [
                (x.max().item(), r) for r, x in enumerate(case.data["shards"])
            ],
            "maximum of this rank alone",
        ),
        "minimum": ("2 ranks", everyone(lambda x: (min(x), 0)), "it is the minimum$"),
        "magnitude": (
            "3 ranks",
            everyone(lambda x: (max(map(abs, x)), 0)),
            "the largest magnitude",
        ),
    },
    "distributed_softmax": {
        "own": ("2 ranks", each(lambda x: x.softmax(0)), "this rank's logits alone"),
        "naive": (
            "2 ranks, shards of 2, 2 float32",
            naive,
            "unless the largest of all is taken off",
        ),
        "not divided": (
            "3 ranks",
            each(torch.exp),
            "exp of the logits, not divided by",
        ),
        "own maxima": ("3 ranks", local_maxima, "has taken off its own maximum"),
        "log": (
            "3 ranks",
            lambda case: [x.log() for x in whole(case)],
            "the logarithm of the softmax",
        ),
        "over P": (
            "3 ranks",
            lambda case: [x / 3 for x in whole(case)],
            "over the world size once more",
        ),
    },
}


@pytest.mark.parametrize(
    "exercise, name", [(e, name) for e, known in RETURNED.items() for name in known]
)
def test_a_wrong_return_is_reported_by_its_values(exercise: str, name: str) -> None:
    """In every exercise that returns numbers, by what all ranks have returned."""
    label, returned, message = RETURNED[exercise][name]
    judgement = judged(exercise, label, returned=returned)
    assert matches(message, judgement), judgement.message


def test_a_float32_maximum_is_not_taken_for_a_local_one() -> None:
    """One rank's own maximum may be the rounded one: all ranks decide."""
    judgement = judged(
        "distributed_argmax", "alike in float32", returned=lambda case: [(1.0, 0)] * 3
    )
    assert "rounded to float32" in judgement.message
    assert "of this rank alone" not in judgement.message


def stepped(change: Callable[[Case, torch.Tensor, torch.Tensor], torch.Tensor]):
    """What zero1_step's ranks hold: weights made of the gradients and the momentum."""

    def held(case: Case) -> list[tuple]:
        gradients = torch.stack(case.data["gradients"])
        weights, length = case.data["weights"], len(case.data["weights"])
        momentum = case.data["momentum"][:length]
        updated = weights - case.data["lr"] * change(case, gradients, momentum)
        return [(updated, *args[1:3]) for args in case.args]

    return held


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda case, g, m: 0.9 * m + g.sum(0), "the sum of the gradients, not their"),
        (lambda case, g, m: g.mean(0), "it took the mean gradient, and no momentum"),
        (lambda case, g, m: m + g.mean(0), "the momentum was not multiplied by 0.9"),
        (lambda case, g, m: -0.9 * m - g.mean(0), "uphill"),
        (
            lambda case, g, m: 0.9 * m + torch.cat([g[0, :3], g[1, 3:]]),
            ": its owner took its own gradient alone$",
        ),
    ],
)
def test_a_wrong_step_is_reported_by_all_its_weights(change, message: str) -> None:
    """As one known mistake makes them; not by the first alone."""
    judgement = judged("zero1_step", "2 ranks, 6 weights", stepped(change))
    assert matches(message, judgement), judgement.message

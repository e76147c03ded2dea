"""all_gather(output, input) -> None: the second half of the ring."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from collectives_lab import plans
from collectives_lab.checking import causes, least, sums, tensors
from collectives_lab.checking.exercises.reduce_scatter import (
    half_ring,
    input_kept,
    properties,
)
from collectives_lab.checking.spec import GOOD, Case, Exercise, Inputs, Judgement, bad
from collectives_lab.trace import Trace
from collectives_lab.wire import POINT_TO_POINT, Outcome, Schedule


def _case(
    inputs: Inputs,
    world_size: int,
    shape: Sequence[int],
    tests: str,
    dtype: torch.dtype = torch.float32,
    schedule: Schedule | None = None,
) -> Case:
    """One all-gather; shape: of the input. The output is P times as long."""
    whole = [shape[0] * world_size, *shape[1:]]
    given = [tensors.integers(inputs.random, shape, dtype) for _ in range(world_size)]
    args = [(tensors.integers(inputs.random, whole, dtype), x.clone()) for x in given]
    label = f"input {tensors.described(shape, dtype)}"
    data = {"inputs": given, "nbytes": args[0][0].nbytes, "itemsize": dtype.itemsize}
    return Case(args, tests.split(), label, data, schedule or Schedule())


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Whether every rank's output is all inputs, in the order of the ranks."""
    inputs = case.data["inputs"]
    expected = torch.cat(inputs)
    for rank in range(case.world_size):
        found = outcome.after[rank][0]  # type: ignore[index]
        text, at = tensors.compared(found, expected, f"rank {rank}: output")
        if not text:
            continue
        if at is not None:
            before = case.args[rank][0]  # type: ignore[index]
            if tensors.same_bits(found, before):
                text += ": output is as it was before"
            else:
                owner = at[0] // len(inputs[0])
                text += f": the input of rank {owner} belongs there"
                text += _instead(inputs, found, before, owner)
        return bad(text)
    return GOOD


def _instead(
    inputs: Sequence[torch.Tensor],
    found: torch.Tensor,
    before: torch.Tensor,
    owner: int,
) -> str:
    """What is in the part of a rank instead; empty where that is not clear."""
    p = len(inputs)
    part, old = found.chunk(p)[owner], before.chunk(p)[owner]
    known = [(x, f", not that of rank {rank}") for rank, x in enumerate(inputs)]
    known += [(old, "; this part is as it was before")]
    known += [(torch.stack(list(inputs)).sum(0), ", and not the sum")]
    rows = inputs[owner][None]
    rounded = causes.rounded(part, inputs[owner], rows)
    fits = [text for x, text in known if tensors.same_bits(part, x)]
    return fits[0] if len(fits) == 1 else rounded and f"; {rounded}"


def _least(case: Case) -> tuple[least.Bytes, least.Bytes]:
    """This rank's part goes out, and those of all others come in."""
    p, part = case.world_size, case.data["nbytes"] // case.world_size
    return [part] * p, [(p - 1) * part] * p


def _budget(case: Case) -> Trace:
    return plans.ring_all_gather(case.world_size, case.data["nbytes"])


EXERCISE = Exercise(
    "all_gather",
    "All-gather, the ring's second half",
    "medium",
    20,
    properties("all inputs in the order of the ranks", "(P-1)/P of the output"),
    partial(half_ring, _case),
    least.over_the_wire(_result, _least),
    {
        "input_kept": input_kept,
        "neighbours": sums.only_neighbours,
        "traffic": sums.within_budget(_budget, lambda case: 0.0, "the ring's bound"),
    },
    POINT_TO_POINT,
)

"""all_gather(output, input) -> None: the second half of the ring."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from collectives_lab import plans
from collectives_lab.checking import causes, lower_bounds, sums, tensors
from collectives_lab.checking.exercises.reduce_scatter import (
    INPUT_KEPT,
    half_ring,
    properties,
)
from collectives_lab.checking.spec import GOOD, Case, Exercise, Judgement, bad
from collectives_lab.trace import Trace
from collectives_lab.wire import POINT_TO_POINT, Outcome


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every output is all inputs, in the order of the ranks."""
    inputs = case.data["inputs"]
    expected = torch.cat(inputs)
    for rank in range(case.world_size):
        actual = outcome.after[rank][0]  # type: ignore[index]
        text, at = tensors.compare(actual, expected, f"rank {rank}: output")
        if not text:
            continue
        if at is not None:
            before = case.args[rank][0]  # type: ignore[index]
            if tensors.same_bits(actual, before):
                text += ": output is as it was before"
            else:
                owner = at[0] // len(inputs[0])
                text += f": the input of rank {owner} belongs there"
                text += _why_chunk(inputs, actual, before, owner)
        return bad(text)
    return GOOD


def _why_chunk(
    inputs: Sequence[torch.Tensor],
    actual: torch.Tensor,
    before: torch.Tensor,
    owner: int,
) -> str:
    """Explain a wrong chunk of the output; empty where the cause is not clear."""
    p = len(inputs)
    chunk, old = actual.chunk(p)[owner], before.chunk(p)[owner]
    candidates = [(x, f", not that of rank {rank}") for rank, x in enumerate(inputs)]
    candidates += [(old, "; this part is as it was before")]
    candidates += [(torch.stack(list(inputs)).sum(0), ", and not the sum")]
    rows = inputs[owner][None]
    rounded = causes.rounded(chunk, inputs[owner], rows)
    fits = [text for x, text in candidates if tensors.same_bits(chunk, x)]
    return fits[0] if len(fits) == 1 else rounded and f"; {rounded}"


def _lower_bound(case: Case) -> tuple[lower_bounds.Bytes, lower_bounds.Bytes]:
    """Return the bounds: a rank sends its own chunk and receives all others."""
    p, chunk = case.world_size, case.data["nbytes"] // case.world_size
    return [chunk] * p, [(p - 1) * chunk] * p


def _budget(case: Case) -> Trace:
    return plans.ring_all_gather(case.world_size, case.data["nbytes"])


EXERCISE = Exercise(
    "all_gather",
    "All-gather, the ring's second half",
    "medium",
    20,
    properties("all inputs in the order of the ranks", "(P-1)/P of the output"),
    partial(half_ring, "input"),
    lower_bounds.over_the_wire(_result, _lower_bound),
    {
        "input_kept": INPUT_KEPT,
        "neighbours": sums.only_neighbours,
        "traffic": sums.within_budget(_budget, lambda case: 0.0, "the ring's bound"),
    },
    POINT_TO_POINT,
)

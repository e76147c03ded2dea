"""ring_all_reduce(tensor) -> None: the sum in place, by messages around a ring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import torch

from collectives_lab import plans
from collectives_lab.checking import lower_bounds, sums, tensors
from collectives_lab.checking.spec import SCHEDULES, Case, Exercise, Inputs, Property
from collectives_lab.trace import Trace
from collectives_lab.wire import POINT_TO_POINT, Schedule

WORLD_SIZES = (1, 3, 4, 5, 8)
LAYOUTS = ("transposed", "columns", "rows")
FULL = 4096
"""Elements where traffic is counted: so many that one more a chunk is little."""


def _case(
    inputs: Inputs,
    world_size: int,
    shape: Sequence[int],
    tests: str,
    dtype: torch.dtype = torch.float32,
    layout: str = "",
    schedule: Schedule | None = None,
    exact: bool = True,
) -> Case:
    """Make a case of one all-reduce; tests: the properties it is for."""
    make = tensors.integers if exact else tensors.normals
    rank_inputs = [make(inputs.random, shape, dtype) for _ in range(world_size)]
    args = [(tensors.as_argument(layout, x),) for x in rank_inputs]
    label = tensors.describe(shape, dtype, layout)
    data = sums.sum_case_data(rank_inputs, exact)
    data |= {
        "nbytes": rank_inputs[0].nbytes,
        "count": prod(shape),
        "itemsize": dtype.itemsize,
    }
    return Case(args, tests.split(), label, data, schedule or Schedule())


def _cases(inputs: Inputs) -> Iterable[Case]:
    for n in (1, 2, 8):
        yield _case(inputs, 2, [n], "two_ranks" + " neighbours" * (n == 8))
    for p in WORLD_SIZES:
        yield _case(inputs, p, [2 * p], "world_sizes" + " neighbours" * (p > 1))
    for p, n in ((2, 3), (3, 7), (3, 1), (4, 6), (4, 3), (5, 13), (8, 5), (3, 0)):
        yield _case(inputs, p, [n], "lengths")
    for dtype in (torch.float64, torch.int64):
        for p in (2, 3):
            yield _case(inputs, p, [7], "dtypes", dtype)
    for shape in ([3, 5], [2, 3, 4], []):
        yield _case(inputs, 3, shape, "layouts")
    for layout in LAYOUTS:
        yield _case(inputs, 4, [3, 5], "layouts", layout=layout)
    for p, dtype in ((3, torch.float32), (4, torch.float32), (3, torch.float64)):
        yield _case(inputs, p, [1000], "identical", dtype, exact=False)
    for p, n in ((2, FULL), (3, FULL), (4, FULL), (8, FULL + 3)):
        yield _case(inputs, p, [n], "traffic neighbours")
    for p, n in ((2, 7), (3, FULL + 1), (4, 13)):
        for schedule in inputs.schedules(3):
            yield _case(inputs, p, [n], "schedules", schedule=schedule)


def _budget(case: Case) -> Trace:
    """Return the planned ring of the same tensor."""
    return plans.ring_all_reduce(case.world_size, case.data["nbytes"])


def one_element_a_chunk(case: Case) -> float:
    """Return the spare bytes: each of 2(P-1) chunks may have one element more."""
    return 2 * (case.world_size - 1) * case.data["itemsize"]


EXERCISE = Exercise(
    "ring_all_reduce",
    "All-reduce around a ring",
    "hard",
    60,
    [
        Property("two_ranks", 2, "the sum on 2 ranks"),
        Property("world_sizes", 3, "the sum on 1, 3, 4, 5 and 8 ranks"),
        Property(
            "lengths", 2, "lengths that the world size does not divide, down to 0"
        ),
        Property("dtypes", 2, "float64 and int64, exact beyond what float32 can hold"),
        Property(
            "layouts", 2, "any shape; views, with the memory beside them untouched"
        ),
        Property("identical", 1, "all ranks end with the same bits"),
        Property("neighbours", 2, "messages between neighbours in the ring only"),
        Property("traffic", 5, "no rank sends more than 2(P-1)/P of the tensor"),
        SCHEDULES,
    ],
    _cases,
    lower_bounds.over_the_wire(sums.sum_in_place, lower_bounds.full_tensor),
    {
        "identical": sums.same_everywhere,
        "neighbours": sums.only_neighbours,
        "traffic": sums.within_budget(_budget, one_element_a_chunk, "the ring's bound"),
    },
    POINT_TO_POINT,
)

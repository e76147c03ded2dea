"""hierarchical_all_reduce(tensor, ranks_per_node) -> None: few bytes between nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from collectives_lab import fabrics, plans
from collectives_lab.basics.units import format_seconds
from collectives_lab.checking import lower_bounds, sums, tensors
from collectives_lab.checking.spec import (
    SCHEDULES,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.trace import Trace
from collectives_lab.wire import POINT_TO_POINT, Outcome, Schedule

INSIDE = fabrics.Link(alpha=1e-6, beta=1 / 200e9)
ACROSS = fabrics.Link(alpha=5e-6, beta=1 / 5e9)
"""The cluster that time is graded on: nodes of fast links, one slow NIC a rank."""

SLOWER = 1.5
"""How many times the planned time is allowed."""

FULL = 1 << 16
"""Elements where bytes and time are counted."""


def _case(
    inputs: Inputs,
    world_size: int,
    ranks_per_node: int,
    shape: Sequence[int],
    tests: str,
    layout: str = "",
    schedule: Schedule | None = None,
    dtype: torch.dtype = torch.float32,
    exact: bool = True,
) -> Case:
    make = tensors.integers if exact else tensors.normals
    rank_inputs = [make(inputs.random, shape, dtype) for _ in range(world_size)]
    args = [(tensors.as_argument(layout, x), ranks_per_node) for x in rank_inputs]
    label = f"{ranks_per_node} a node, {tensors.describe(shape, dtype, layout)}"
    data = sums.sum_case_data(rank_inputs, exact)
    data |= {
        "nbytes": rank_inputs[0].nbytes,
        "itemsize": dtype.itemsize,
        "node": ranks_per_node,
    }
    return Case(args, tests.split(), label, data, schedule or Schedule())


def _cases(inputs: Inputs) -> Iterable[Case]:
    yield _case(inputs, 4, 2, [8], "result")
    for p, node in ((1, 1), (2, 1), (2, 2), (3, 1), (6, 2), (6, 3), (8, 4), (8, 2)):
        yield _case(inputs, p, node, [2 * p], "world_sizes")
    for p, node, n in ((4, 2, 1), (4, 2, 7), (6, 3, 4), (8, 4, 13), (4, 2, 0)):
        yield _case(inputs, p, node, [n], "lengths")
    for layout in ("transposed", "columns"):
        yield _case(inputs, 4, 2, [3, 5], "layouts", layout)
    for dtype in (torch.float64, torch.int64):
        yield _case(inputs, 4, 2, [2, 3], "layouts", dtype=dtype)
    yield _case(inputs, 4, 2, [1000], "identical", exact=False)
    for node in (2, 3):
        yield _case(inputs, 6, node, [1000], "identical", exact=False)
    for p, node in ((4, 2), (8, 4)):
        yield _case(inputs, p, node, [FULL], "crossing time")
    yield _case(inputs, 6, 2, [FULL + 5], "crossing")
    # A ring of two ranks has no later message that could overtake, so three of each.
    for p, node, n in ((4, 2, 8), (6, 3, 9000), (6, 2, 9000)):
        for schedule in inputs.schedules(2):
            yield _case(inputs, p, node, [n], "schedules", schedule=schedule)


def _plan(case: Case) -> Trace:
    p, node = case.world_size, case.data["node"]
    return plans.hierarchical_all_reduce(p, case.data["nbytes"], ranks_per_node=node)


def crossing(trace: Trace, ranks_per_node: int) -> list[float]:
    """Return the bytes of the sends that leave each node."""
    by_node = [0.0] * (trace.world_size // ranks_per_node)
    for event in trace.events:
        if event.op == "send" and event.peer is not None:
            src, dst = event.rank // ranks_per_node, event.peer // ranks_per_node
            by_node[src] += event.nbytes * (src != dst)
    return by_node


def _crossing(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether the bytes that leave a node are within the plan's.

    Each chunk may have one more element. At least a tensor's bytes must leave, because
    all other nodes need the sum of this one.
    """
    node, full = case.data["node"], case.data["nbytes"]
    planned = max(crossing(_plan(case), node))
    # Each chunk of the 2 (M-1) that each rank of a node sends may be an element longer.
    spare = 2 * case.world_size * case.data["itemsize"]
    by_node = crossing(outcome.trace, node)
    most = max(by_node)
    summary = (
        f"{sums.in_sizes(most, full)} leave a node; {sums.in_sizes(planned, full)} are "
        f"enough for {case.world_size // node} nodes of {node} ranks"
    )
    if most > planned + spare:
        return bad(f"right, but {summary}")
    if min(by_node) < full:
        fewest = sums.in_sizes(min(by_node), full)
        return bad(
            f"right, but only {fewest} leave node {by_node.index(min(by_node))}: "
            "the other nodes need its sum, a tensor of S"
        )
    return Judgement(True, summary)


def _time(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether the run is near the plan's time on a cluster of slow NICs."""
    p, node = case.world_size, case.data["node"]
    cluster = fabrics.hierarchical(p // node, node, INSIDE, ACROSS, node)
    planned = _plan(case).replay(cluster).elapsed
    took = outcome.trace.replay(cluster).elapsed
    summary = (
        f"{format_seconds(took)} on {p // node} nodes of {node} ranks with 5 GB/s each "
        f"between nodes; the plan takes {format_seconds(planned)}"
    )
    if took > SLOWER * planned:
        return bad(
            f"right, but it takes {summary}. Does every rank use "
            "its own NIC, and send while it receives?"
        )
    return Judgement(True, summary)


EXERCISE = Exercise(
    "hierarchical_all_reduce",
    "All-reduce in two levels",
    "hard",
    60,
    [
        Property("result", 2, "the sum on two nodes of 2 ranks"),
        Property("world_sizes", 2, "any nodes, also of one rank, and a single node"),
        Property("lengths", 2, "lengths that nothing divides, down to 0"),
        Property(
            "layouts", 2, "any dtype, shape and stride, the memory beside untouched"
        ),
        Property("identical", 1, "all ranks end with the same bits"),
        Property("crossing", 3, "no more than 2(M-1)/M of the tensor leaves a node"),
        Property("time", 3, "within 1.5 times the plan on a cluster with slow NICs"),
        SCHEDULES,
    ],
    _cases,
    lower_bounds.over_the_wire(sums.sum_in_place, lower_bounds.full_tensor),
    {"identical": sums.same_everywhere, "crossing": _crossing, "time": _time},
    POINT_TO_POINT,
)

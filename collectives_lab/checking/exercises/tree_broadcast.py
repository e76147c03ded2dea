"""tree_broadcast(tensor, root) -> None: in ceil(log2 P) rounds of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from collectives_lab import fabrics, plans
from collectives_lab.checking import causes, lower_bounds, tensors
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
from collectives_lab.wire import POINT_TO_POINT, Outcome, Schedule


def _case(
    inputs: Inputs,
    world_size: int,
    root: int,
    shape: Sequence[int],
    tests: str,
    dtype: torch.dtype = torch.float32,
    layout: str = "",
    schedule: Schedule | None = None,
) -> Case:
    rank_inputs = [
        tensors.integers(inputs.random, shape, dtype) for _ in range(world_size)
    ]
    args = [(tensors.as_argument(layout, x), root) for x in rank_inputs]
    label = f"root {root}, {tensors.describe(shape, dtype, layout)}"
    data = {"inputs": rank_inputs, "nbytes": rank_inputs[root].nbytes, "root": root}
    return Case(args, tests.split(), label, data, schedule or Schedule())


def _cases(inputs: Inputs) -> Iterable[Case]:
    for p in (2, 4):
        yield _case(inputs, p, 0, [3], "result messages rounds")
    for p in (1, 3, 4, 5, 8):
        yield _case(inputs, p, 0, [5], "world_sizes messages rounds")
    for p in (2, 3, 5):
        for root in range(1, p):
            yield _case(inputs, p, root, [5], "roots")
    for root in (3, 7):
        yield _case(inputs, 8, root, [5], "roots messages rounds")
    for layout in ("transposed", "columns"):
        yield _case(inputs, 3, 1, [3, 5], "layouts", layout=layout)
    for dtype in (torch.float64, torch.int64):
        yield _case(inputs, 3, 1, [2, 2], "layouts", dtype)
    yield _case(inputs, 3, 0, [0], "layouts")
    for p, n in ((4, 3), (5, 1030)):
        for schedule in inputs.schedules(2):
            yield _case(inputs, p, 0, [n], "schedules", schedule=schedule)


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every rank has the root's tensor."""
    for rank in range(case.world_size):
        actual, complaint = tensors.returned(case.args[rank][0], outcome.after[rank][0])  # type: ignore[index]
        if actual is None:
            return bad(f"rank {rank}: {complaint}")
        rank_inputs, root = case.data["inputs"], case.data["root"]
        text, at = tensors.compare(actual, rank_inputs[root], f"rank {rank}: tensor")
        if text:
            why = "" if at is None else _why(rank_inputs, actual, rank, root)
            return bad(f"{text}, which is what root {root} had{why and f': {why}'}")
    return GOOD


def _why(
    rank_inputs: Sequence[torch.Tensor], actual: torch.Tensor, rank: int, root: int
) -> str:
    """Explain the wrong tensor of a rank; empty where the cause is not clear."""
    if tensors.same_bits(actual, rank_inputs[rank]):
        return "it is as it was before"
    for owner, own in enumerate(rank_inputs):
        if tensors.same_bits(actual, own):
            return f"it is what rank {owner} had"
    if tensors.same_bits(actual, rank_inputs[root] + rank_inputs[rank]):
        return "it was added to what this rank had; copy it"
    return causes.rounded(actual, rank_inputs[root], rank_inputs[root][None])


def _lower_bound(case: Case) -> tuple[lower_bounds.Bytes, lower_bounds.Bytes]:
    """Return the bounds: the root sends the tensor, and all others receive it."""
    ranks, root, nbytes = range(case.world_size), case.data["root"], case.data["nbytes"]
    sent = [nbytes * (rank == root) for rank in ranks]
    return sent, [nbytes - own for own in sent]


def _messages(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every rank but the root receives the tensor once."""
    received = outcome.trace.bytes_received()
    for rank, nbytes in enumerate(received):
        most = 0 if rank == case.data["root"] else case.data["nbytes"]
        if nbytes > most:
            receiver = "the root receives" if not most else f"rank {rank} receives"
            return bad(f"right, but {receiver} {nbytes:g} bytes; {most} are enough")
    return Judgement(True, f"{case.world_size - 1} times the tensor in all")


def _rounds(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether it takes as many rounds as the planned tree, one a message."""
    p = case.world_size
    rounds = fabrics.uniform(p, alpha=1.0, beta=0.0)
    planned = plans.binomial_broadcast(p, case.data["nbytes"], root=case.data["root"])
    most = planned.replay(rounds).elapsed
    took = outcome.trace.replay(rounds).elapsed
    if took > most + 0.5:
        messages = len(outcome.trace.messages)
        why = "in each round every rank that has the tensor must pass it on"
        if messages >= p:
            why = (
                f"each of {messages} messages takes one, and {p - 1} of the whole "
                "tensor would do"
            )
        return bad(
            f"right, but the last rank has it after {took:g} rounds of messages; on "
            f"{p} ranks a tree takes {most:g}: {why}"
        )
    return Judgement(True, f"{most:g} rounds on {p} ranks")


EXERCISE = Exercise(
    "tree_broadcast",
    "Broadcast down a tree",
    "medium",
    30,
    [
        Property("result", 2, "the root's tensor on 2 and 4 ranks"),
        Property("world_sizes", 2, "on 1, 3, 4, 5 and 8 ranks"),
        Property("roots", 2, "from any root"),
        Property(
            "layouts", 1, "any dtype, shape and stride, the memory beside untouched"
        ),
        Property("messages", 2, "every rank but the root receives the tensor once"),
        Property("rounds", 2, "ceil(log2 P) rounds of messages"),
        SCHEDULES,
    ],
    _cases,
    lower_bounds.over_the_wire(_result, _lower_bound),
    {"messages": _messages, "rounds": _rounds},
    POINT_TO_POINT,
)

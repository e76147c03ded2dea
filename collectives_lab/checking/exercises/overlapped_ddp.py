"""overlapped_ddp(layers, bucket_bytes) -> None: means of gradients while computing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, prod
from typing import Any

import torch

from collectives_lab import fabrics
from collectives_lab.basics.units import format_bytes, format_seconds
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
from collectives_lab.trace import Event, Trace
from collectives_lab.wire import Outcome, Schedule

ALPHA, BETA = 20e-6, 1 / 1e9
"""The network that overlap is graded on."""

SLOWER = 1.25
"""How many times the planned exposed communication is allowed."""

SECONDS = 1e-4
"""Computing time of a third of the layers; others take two and three times that."""

LAYER = 16_384
"""Elements of a layer where time is counted: 64 KiB of float32."""

PRELUDE = '''
import collectives_lab as lab

class _LayerOfTheCheck:
    """A layer whose backward pass takes a declared time and gives a gradient."""

    def __init__(self, gradient, seconds):
        self._gradient, self._seconds = gradient, seconds
        self.gradient = None

    def backward(self):
        lab.compute(self._seconds)
        self.gradient = self._gradient

def _step_of_the_check(gradients, seconds, bucket_bytes, Layer=_LayerOfTheCheck):
    layers = [Layer(*each) for each in zip(gradients, seconds)]
    overlapped_ddp(layers, bucket_bytes)
    return [layer.gradient for layer in layers]
'''


def _case(
    inputs: Inputs,
    world_size: int,
    shapes: Sequence[Sequence[int]],
    bucket_bytes: int,
    tests: str,
    dtype: torch.dtype = torch.float32,
    schedule: Schedule | None = None,
    exact: bool = True,
) -> Case:
    """Make a case of one step; shapes: of the gradients, the first layer's first."""
    make = tensors.integers if exact else tensors.normals
    times = 24 if exact else 1  # so that every world size here divides the sum
    rank_gradients = [
        [make(inputs.random, shape, dtype) * times for shape in shapes]
        for _ in range(world_size)
    ]
    seconds = [SECONDS * (1 + k % 3) for k in range(len(shapes))]
    args = [
        ([g.clone() for g in gradients], seconds, bucket_bytes)
        for gradients in rank_gradients
    ]
    sizes = [prod(shape) * dtype.itemsize for shape in shapes]
    label = f"{len(shapes)} layers, buckets of {format_bytes(bucket_bytes)}"
    label += ", float64" * (dtype == torch.float64)
    data = {
        "inputs": rank_gradients,
        "sizes": sizes,
        "seconds": seconds,
        "bucket": bucket_bytes,
    }
    entry = "_step_of_the_check"
    return Case(args, tests.split(), label, data, schedule or Schedule(), entry)


def _cases(inputs: Inputs) -> Iterable[Case]:
    yield _case(inputs, 2, [[2], [3]], 1024, "result")
    yield _case(inputs, 4, [[5]] * 6, 40, "result buckets")
    for p, dtype in ((1, torch.float32), (3, torch.float64), (2, torch.float64)):
        shapes = [[7], [2, 3], [], [1, 50], [4]]
        yield _case(inputs, p, shapes, 64, "shapes", dtype)
    yield _case(inputs, 2, [[64]], 16, "shapes")
    yield _case(inputs, 2, [[0], [3], [0]], 16, "shapes")
    yield _case(inputs, 3, [[5], [8]], 16, "shapes", exact=False)
    for bucket in (4, 100, 10**6):
        yield _case(inputs, 2, [[5], [7], [1], [9], [3]], bucket, "buckets")
    yield _case(inputs, 2, [[5]] * 8, 80, "buckets", torch.float64)
    for schedule in inputs.schedules(4):
        yield _case(inputs, 3, [[5]] * 8, 40, "schedules", schedule=schedule)
    size = 4 * LAYER
    for layers, together in ((12, 4), (8, 2)):
        shapes = [[LAYER]] * layers
        bucket = together * size
        yield _case(inputs, 4, shapes, bucket, "overlap buckets")


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every layer's gradient is the mean, computed once by each rank."""
    inputs, p = case.data["inputs"], case.world_size
    for rank, gradients in enumerate(outcome.results):
        if not isinstance(gradients, list) or len(gradients) != len(inputs[0]):
            return bad(f"rank {rank}: the layers were changed, not their gradients")
        if wrong := _wrong_order(rank, case, outcome.trace):
            return bad(wrong)
        for layer, gradient in enumerate(gradients):
            by_rank = [each[layer] for each in inputs]
            mean = torch.stack(by_rank).sum(0) / p
            name = f"rank {rank}: layers[{layer}].gradient"
            text, at = tensors.compare(gradient, mean, name, _tolerance(mean))
            if text:
                return bad(text + _why(by_rank, gradient, at, p))
    return GOOD


def _lower_bound(case: Case) -> tuple[lower_bounds.Bytes, lower_bounds.Bytes]:
    """Return the bounds: a rank sends its gradients and receives as many means."""
    every = [sum(case.data["sizes"])] * case.world_size
    return every, every


def _tolerance(mean: torch.Tensor) -> float:
    """Return the relative tolerance, as multiplying by 1/P rounds unlike dividing."""
    return 1e-6 if mean.dtype == torch.float32 else 1e-14


def _wrong_order(rank: int, case: Case, trace: Trace) -> str:
    """Explain backward passes out of order, repeated, or later than their messages."""
    seconds, sizes = case.data["seconds"][::-1], case.data["sizes"][::-1]
    done, sent = 0, 0
    for event in trace.events:
        if event.rank == rank and event.op == "all_reduce":
            sent += event.nbytes
        elif event.rank == rank and event.op == "compute":
            expected = seconds[done] if done < len(seconds) else None
            if expected is None or round(expected * 1e9) / 1e9 != event.seconds:
                return f"rank {rank}: {_ORDER}; the call number {done + 1} is not so"
            done += 1
        if sent > sum(sizes[:done]):
            return (
                f"rank {rank}: after {done} backward() it has sent {sent} bytes, and "
                f"computed {sum(sizes[:done])}; a gradient is there after backward()"
            )
    if done == len(seconds):
        return ""
    return f"rank {rank}: {_ORDER}; {done} calls for {len(seconds)} layers"


_ORDER = "call backward() of each layer once, from the last to the first"


def _why(
    inputs: list[torch.Tensor], actual: Any, at: tuple[int, ...] | None, p: int
) -> str:
    if at is None:
        return ""
    total = torch.stack(inputs).sum(0)
    if torch.equal(actual, total):
        return ": it is the sum, not the mean"
    if torch.equal(actual * p * p, total):
        return f": it was divided by {p} twice"
    owners = [rank for rank, own in enumerate(inputs) if torch.equal(actual, own)]
    if len(owners) == 1:
        return f": it is what rank {owners[0]} has computed, alone"
    why = causes.rounded(actual * p, total, torch.stack(inputs))
    why = why or causes.miscounts(inputs, actual * p)
    return f": {why}" if why else ""


def _reduces(trace: Trace, rank: int) -> list[Event]:
    return [e for e in trace.events if e.op == "all_reduce" and e.rank == rank]


def _buckets(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether gradients share all-reduces of about the requested size."""
    bucket, sizes = case.data["bucket"], case.data["sizes"]
    reduces = _reduces(outcome.trace, 0)
    enough = min(2 * ceil(sum(sizes) / bucket) + 1, len(sizes))
    largest = max((e.nbytes for e in reduces), default=0)
    if largest > bucket + max(sizes):
        return bad(
            f"right, but an all_reduce has {format_bytes(largest)}; a bucket ends when "
            f"it holds {format_bytes(bucket)}"
        )
    if len(reduces) > enough:
        return bad(
            f"right, but in {len(reduces)} all_reduces; {enough} are enough for "
            f"{len(sizes)} layers of {format_bytes(sum(sizes))} in buckets of "
            f"{format_bytes(bucket)}"
        )
    return Judgement(True, f"{len(reduces)} all_reduces for {len(sizes)} layers")


def _plan(case: Case) -> Trace:
    """Plan buckets that are sent as soon as they are full, and awaited at the end."""
    return Trace.from_events(
        [e for rank in range(case.world_size) for e in _planned(case, rank)],
        case.world_size,
        meta={"clock": "steps"},
    )


def _planned(case: Case, rank: int) -> Iterator[Event]:
    sizes, bucket = case.data["sizes"], case.data["bucket"]
    pending, at, end = 0, 0.0, 2.0 * len(sizes)
    for layer in reversed(range(len(sizes))):
        yield Event(rank, "compute", issued=at, seconds=case.data["seconds"][layer])
        pending, at = pending + sizes[layer], at + 1
        if pending >= bucket or not layer:
            yield Event(rank, "all_reduce", pending, issued=at, waited=end)
            pending, at, end = 0, at + 1, end + 1


def _overlap(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether the exposed communication is near the plan's, on one network."""
    network = fabrics.uniform(case.world_size, ALPHA, BETA)
    planned = max(_plan(case).replay(network).exposed())
    exposed = max(outcome.trace.replay(network).exposed())
    summary = (
        f"{format_seconds(exposed)} of communication are exposed at 1 GB/s; "
        f"{format_seconds(planned)} need be"
    )
    if exposed > SLOWER * planned:
        return bad(
            f"right, but {summary}: start a bucket when it is full, wait when all are "
            "done"
        )
    return Judgement(True, summary)


EXERCISE = Exercise(
    "overlapped_ddp",
    "Gradients that travel while others are computed",
    "hard",
    45,
    [
        Property("result", 3, "the mean of every gradient on 2 and 4 ranks"),
        Property("shapes", 2, "any shapes, sizes and world sizes; float32 and float64"),
        Property("buckets", 2, "gradients share all-reduces of about bucket_bytes"),
        Property("overlap", 4, "little communication is exposed, by replay"),
        SCHEDULES,
    ],
    _cases,
    lower_bounds.over_the_wire(_result, _lower_bound),
    {"buckets": _buckets, "overlap": _overlap},
    ("all_reduce",),
    prelude=PRELUDE,
)

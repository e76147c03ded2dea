"""Data parallel training: its rows of the battery, its buckets, DDP beside it."""

import sys
from collections.abc import Callable
from functools import partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from parallel_battery import (
    BATCH,
    PARAMETERS,
    STEPS,
    S,
    System,
    Trained,
    broadcast_and_then,
    flat,
    new_model,
    replicated,
)
from torch import nn

import collectives_lab as lab
from collectives_lab import recorder
from collectives_lab.parallel import data, problem

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SIZES = {"an all_reduce each": None, "tiny": 1, "some": 30_000, "one": 10**8}


def summed(world_size: int) -> float:
    """Bytes that a rank sends in an all_reduce of S."""
    return 2 * S * (world_size - 1) / world_size


def by_hand(sync: Callable, loss: Callable, equal_start: bool = True):
    """A training loop whose parts can be wrong."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = new_model(seed=0 if equal_start else rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)
    wait, losses = sync(model), []
    for step in range(STEPS):
        optimizer.zero_grad()
        value = loss(model, problem.batch(step, BATCH).share(rank, world_size))
        value.backward()
        wait()
        optimizer.step()
        losses.append(value.item())
    return losses, flat(model)


def right_loss(model, share):
    return problem.loss(model, share, whole=BATCH)


def mean_of_means(model, share):
    return problem.loss(model, share) / dist.get_world_size()


def plain(model):
    return lambda: data.all_reduce_each(model)


class TooEarly(data.Buckets):
    """Sends a bucket at its first gradient."""

    def _arrived(self, parameter):
        self.missing[self.number[parameter]].clear()
        while self._next() < len(self.buckets) and not self.missing[self._next()]:
            self._send()


def too_early(model):
    return TooEarly(model, 30_000).wait


ON_SIZES = {
    f"data, {name}": System(
        partial(replicated, partial(data.train, bucket_bytes=bucket_bytes)),
        (1, 2, 3, 4, 6),
        lambda p: broadcast_and_then(summed(p), p),
    )
    for name, bucket_bytes in SIZES.items()
}
SYSTEMS = ON_SIZES | {
    "data, a loop by hand": System(
        partial(by_hand, plain, right_loss),
        (3,),
        lambda p: [STEPS * summed(p)] * p,
        wrong={
            "mean of means": partial(by_hand, plain, mean_of_means),
            "bucket too early": partial(by_hand, too_early, right_loss),
            "unequal start": partial(by_hand, plain, right_loss, equal_start=False),
            "nothing sent": partial(by_hand, lambda model: lambda: None, right_loss),
        },
    )
}


@pytest.mark.parametrize("bucket_bytes", SIZES.values(), ids=SIZES)
def test_calls_are_predicted(bucket_bytes: int | None) -> None:
    """After a broadcast a parameter, an all_reduce a step by parameter or bucket."""
    train = partial(data.train, bucket_bytes=bucket_bytes)
    calls = len(PARAMETERS)
    if bucket_bytes is not None:
        calls = len(data.in_buckets(PARAMETERS[::-1], bucket_bytes))
    trace = lab.run(partial(replicated, train), 2).trace
    for rank in range(2):
        events = trace.of_rank(rank)
        assert [e.root for e in events if e.op == "broadcast"] == [0] * len(PARAMETERS)
        sums = [e.nbytes for e in events if e.op == "all_reduce"]
        assert (len(sums), sum(sums)) == (STEPS * calls, STEPS * S)


def test_buckets_begin_with_the_last_layer() -> None:
    """Each ends when it holds its size, and none is empty."""
    buckets = data.in_buckets(PARAMETERS[::-1], 30_000)
    assert [p for bucket in buckets for p in bucket] == PARAMETERS[::-1]
    for bucket in buckets[:-1]:
        assert sum(p.nbytes for p in bucket) >= 30_000
        assert sum(p.nbytes for p in bucket[:-1]) < 30_000


def on_the_way() -> tuple[int, int]:
    """Buckets under way when the embedding's gradient comes, the last; and all."""
    model, seen = new_model(), []
    buckets = data.Buckets(model, 30_000)
    calls = recorder.current().records
    model[0].tokens.weight.register_hook(lambda _: seen.append(len(calls)))
    right_loss(model, problem.batch(0, BATCH)).backward()
    buckets.wait()
    return seen[0], len(buckets.buckets)


def test_buckets_travel_during_the_backward_pass() -> None:
    """All but the last have left when the first layer's gradient is computed."""
    for left, buckets in lab.run(on_the_way, 2).results:
        assert buckets > 4 and left >= buckets - 2


def unused_on_rank_0() -> list[float]:
    layers = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])
    for layer in layers:
        nn.init.ones_(layer.weight)
    buckets = data.Buckets(layers, 1)
    rank = dist.get_rank()
    x = torch.full((2,), rank + 1.0)
    used = layers if rank else [layers[0], layers[2]]
    sum(layer(x).sum() for layer in used).backward()
    buckets.wait()
    return [layer.weight.grad[0, 0].item() for layer in layers]


def test_a_rank_may_leave_a_parameter_unused() -> None:
    """It takes part with zeros, in the order of the others."""
    assert lab.run(unused_on_rank_0, 3, timeout=10).results == [[6, 5, 6]] * 3


def two_backwards() -> None:
    model = new_model()
    data.Buckets(model, 1)
    for _ in range(2):
        right_loss(model, problem.batch(0, 2)).backward()


def test_a_second_backward_is_named() -> None:
    """Gradients that are being added up must not change."""
    with pytest.raises(lab.RankError, match=r"call wait\(\) after each backward\(\)"):
        lab.run(two_backwards, 2)


def test_a_bucket_holds_something() -> None:
    """A size of 0 is no size."""
    with pytest.raises(ValueError, match="bucket_bytes is 0"):
        data.in_buckets([], 0)


# -- PyTorch's own ---------------------------------------------------------------------

CAP = 0.03  # MiB


def ddp() -> Trained:
    """DDP averages, so that the loss is multiplied by the number of averaged ones."""
    from torch.nn.parallel import DistributedDataParallel

    world_size = dist.get_world_size()
    model = new_model(seed=dist.get_rank())
    wrapped = DistributedDataParallel(model, bucket_cap_mb=CAP)
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)
    share = problem.loss_of_share(wrapped, BATCH)
    losses = problem.descend(optimizer, lambda step: share(step) * world_size, STEPS)
    return [loss / world_size for loss in losses], flat(model)


def test_ddp_does_the_same() -> None:
    """The same losses, bytes and buckets; its first step sends all in one bucket."""
    ours = partial(data.train, bucket_bytes=int(CAP * 2**20))
    theirs = lab.run(ddp, 3, timeout=60)
    by_us = lab.run(partial(replicated, ours), 3)
    assert SYSTEMS["data, some"].agrees(theirs.results)
    sizes = [
        [e.nbytes for e in run.trace.of_rank(1) if e.op == "all_reduce"]
        for run in (theirs, by_us)
    ]
    assert sum(sizes[0]) == sum(sizes[1]) == STEPS * S
    buckets = len(sizes[1]) // STEPS
    assert sizes[0] == [S, *(STEPS - 1) * sizes[0][1 : 1 + buckets]]
    assert buckets == 8

"""Data parallel training: equal to one process, its bytes, and DDP beside it."""

import sys
from collections.abc import Callable
from functools import cache, partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector

import collectives_lab as lab
from collectives_lab import recorder
from collectives_lab.parallel import data, problem

cloudpickle.register_pickle_by_value(sys.modules[__name__])

STEPS, BATCH = 3, 10  # 10 examples: uneven over 3, 4 and 6 ranks
SIZES = {"an all_reduce each": None, "tiny": 1, "some": 30_000, "one": 10**8}


def new_model(seed: int = 0) -> nn.Sequential:
    return problem.new_model(dtype=torch.float64, seed=seed)


S = sum(p.nbytes for p in new_model().parameters())


def ours(bucket_bytes: int | None) -> tuple[list[float], torch.Tensor]:
    """Train; the losses of this rank's shares and its parameters at the end."""
    model = new_model(seed=dist.get_rank())  # made equal at the start
    losses = data.train(STEPS, BATCH, bucket_bytes, model)
    return losses, parameters_to_vector(model.parameters()).detach()


@cache
def trained(bucket_bytes: int | None, world_size: int) -> lab.Run:
    return lab.run(ours, world_size, args=(bucket_bytes,))


def agrees(results: list[tuple[list[float], torch.Tensor]]) -> bool:
    """Whether a training on ranks has the losses and parameters of one process."""
    model = new_model()
    alone = problem.train(STEPS, BATCH, model)
    right = parameters_to_vector(model.parameters()).detach()
    losses = problem.added_up([shares for shares, _ in results])
    return (
        losses == pytest.approx(alone, rel=1e-12)
        and torch.allclose(results[0][1], right, rtol=0, atol=1e-10)
        and all(torch.equal(found, results[0][1]) for _, found in results)
    )


@pytest.mark.parametrize("bucket_bytes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    "world_size", [1, 2, 3, pytest.param(6, marks=pytest.mark.slow)]
)
def test_ranks_train_as_one_process(world_size: int, bucket_bytes: int | None) -> None:
    """Losses and parameters to rounding, and all ranks' parameters in every bit."""
    assert agrees(trained(bucket_bytes, world_size).results)


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
    return losses, parameters_to_vector(model.parameters()).detach()


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


def test_the_loop_by_hand_is_right() -> None:
    """What the wrong ones below change is right as it stands."""
    assert agrees(lab.run(by_hand, 3, args=(plain, right_loss)).results)


@pytest.mark.parametrize(
    "wrong",
    [
        partial(by_hand, plain, mean_of_means),
        partial(by_hand, too_early, right_loss),
        partial(by_hand, plain, right_loss, equal_start=False),
        partial(by_hand, lambda model: lambda: None, right_loss),
    ],
    ids=["mean of means", "bucket too early", "unequal start", "nothing sent"],
)
def test_a_wrong_training_is_found(wrong: Callable) -> None:
    """The test above fails where it should."""
    assert not agrees(lab.run(wrong, 3).results)


@pytest.mark.parametrize("bucket_bytes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_bytes_are_foretold(world_size: int, bucket_bytes: int | None) -> None:
    """After a broadcast of S, an all_reduce of S a step, by parameter or bucket."""
    run = trained(bucket_bytes, world_size)
    parameters = list(new_model().parameters())
    calls = len(parameters)
    if bucket_bytes is not None:
        calls = len(data.in_buckets(parameters[::-1], bucket_bytes))
    for rank in range(world_size):
        events = run.trace.of_rank(rank)
        assert [e.root for e in events if e.op == "broadcast"] == [0] * len(parameters)
        sums = [e.nbytes for e in events if e.op == "all_reduce"]
        assert (len(sums), sum(sums)) == (STEPS * calls, STEPS * S)
    start = (world_size - 1) * S
    step = 2 * (world_size - 1) * S
    assert sum(run.trace.bytes_sent()) == start + STEPS * step


def test_buckets_begin_with_the_last_layer() -> None:
    """Each ends when it holds its size, and none is empty."""
    parameters = list(new_model().parameters())
    buckets = data.in_buckets(parameters[::-1], 30_000)
    assert [p for bucket in buckets for p in bucket] == parameters[::-1]
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


def ddp() -> tuple[list[float], torch.Tensor]:
    """DDP averages, so that the loss is multiplied by the number of averaged ones."""
    from torch.nn.parallel import DistributedDataParallel

    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = new_model(seed=rank)
    wrapped = DistributedDataParallel(model, bucket_cap_mb=CAP)
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        share = problem.batch(step, BATCH).share(rank, world_size)
        value = problem.loss(wrapped, share, whole=BATCH)
        (value * world_size).backward()
        optimizer.step()
        losses.append(value.item())
    return losses, parameters_to_vector(model.parameters()).detach()


def test_ddp_does_the_same() -> None:
    """The same losses, bytes and buckets; its first step sends all in one bucket."""
    theirs, by_us = lab.run(ddp, 3, timeout=60), trained(int(CAP * 2**20), 3)
    assert agrees(theirs.results)
    sizes = [
        [e.nbytes for e in run.trace.of_rank(1) if e.op == "all_reduce"]
        for run in (theirs, by_us)
    ]
    assert sum(sizes[0]) == sum(sizes[1]) == STEPS * S
    buckets = len(sizes[1]) // STEPS
    assert sizes[0] == [S, *(STEPS - 1) * sizes[0][1 : 1 + buckets]]
    assert buckets == 8

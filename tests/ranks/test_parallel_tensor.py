"""Tensor and sequence parallelism: rows of the battery, their layers and verbs."""

import math
import sys
from collections.abc import Callable
from functools import cache, partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from parallel_battery import (
    BATCH,
    PARAMETERS,
    STEPS,
    System,
    Trained,
    new_model,
)
from torch import nn

import collectives_lab as lab
from collectives_lab.parallel import conjugates, problem, sequence, tensor, vocabulary
from collectives_lab.parallel.conjugates import Copy, Gather, Scatter, Sum
from collectives_lab.parallel.vocabulary import share

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Small integers in float64, the same on whoever asks, so that sums are exact."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=random).double()


# -- verbs and their conjugates --------------------------------------------------------

SHAPE = (6, 12, 2)


def passed(verb: Callable) -> tuple[torch.Tensor, torch.Tensor]:
    """What a verb gives for numbers of this rank, and for their gradient."""
    rank = dist.get_rank()
    x = numbers(*SHAPE, seed=rank).requires_grad_()
    y = verb(x)
    (gradient,) = torch.autograd.grad(y, x, numbers(*y.shape, seed=100 + rank))
    return y, gradient


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_copy_and_sum_are_conjugate(world_size: int) -> None:
    """One adds up backward, the other forward, and each hands on the other way."""
    xs = [numbers(*SHAPE, seed=r) for r in range(world_size)]
    ys = [numbers(*SHAPE, seed=100 + r) for r in range(world_size)]
    copies = lab.run(passed, world_size, args=(lambda x: Copy.apply(x, None),))
    sums = lab.run(passed, world_size, args=(lambda x: Sum.apply(x, None),))
    for rank in range(world_size):
        y, gradient = copies.results[rank]
        assert torch.equal(y, xs[rank]) and torch.equal(gradient, sum(ys))
        y, gradient = sums.results[rank]
        assert torch.equal(y, sum(xs)) and torch.equal(gradient, ys[rank])
    assert copies.trace.ops() == sums.trace.ops() == {"all_reduce": world_size}


@pytest.mark.parametrize("dim", [0, 1, -2])
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("Verb", [Gather, Scatter])
def test_gather_and_scatter_are_conjugate(Verb: type, world_size: int, dim: int):
    """They give what they should, and <A x, y> = <x, A' y> over all ranks."""
    xs = [numbers(*SHAPE, seed=r) for r in range(world_size)]
    run = lab.run(passed, world_size, args=(lambda x: Verb.apply(x, dim, None),))
    forward = backward = 0.0
    for rank, (y, gradient) in enumerate(run.results):
        right = torch.cat(xs, dim)
        if Verb is Scatter:
            right = sum(xs).chunk(world_size, dim)[rank]
        assert torch.equal(y, right)
        forward += (y * numbers(*y.shape, seed=100 + rank)).sum().item()
        backward += (xs[rank] * gradient).sum().item()
    assert forward == backward != 0
    assert run.trace.ops() == dict.fromkeys(
        ("all_gather", "reduce_scatter"), world_size
    )


def test_ranks_must_divide_what_is_scattered() -> None:
    """The error has the dim, the shape and the number of ranks."""
    with pytest.raises(lab.RankError, match=r"dim 1 .*\(6, 12, 2\).* by 5 ranks"):
        lab.run(passed, 5, args=(lambda x: Scatter.apply(x, 1, None),))


def test_shares_are_even_to_one() -> None:
    """All things are given out, in order, and nobody has nothing."""

    def own(count: int) -> slice:
        return share(count, "heads")

    shares = lab.run(own, 3, args=(8,)).results
    assert shares == [slice(0, 3), slice(3, 6), slice(6, 8)]
    with pytest.raises(lab.RankError, match="2 heads for 3 ranks; need at least one"):
        lab.run(own, 3, args=(2,))


# -- the loss over a vocabulary in parts -----------------------------------------------

LETTERS = 10
SPECIAL = {
    "small": numbers(2, 3, LETTERS, seed=1),
    "large": numbers(2, 3, LETTERS, seed=2) * 1e4,
    "minus infinity": numbers(2, 3, LETTERS, seed=3).where(
        torch.arange(LETTERS) % 4 < 2, -math.inf
    ),
}
TARGETS = torch.tensor([[0, 1, 9], [5, 8, 4]])


def loss_in_parts(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    part = share(LETTERS, "letters")
    own = logits[..., part].clone().requires_grad_()
    losses = vocabulary.cross_entropy(own, TARGETS, part.start)
    losses.backward(numbers(2, 3, seed=5))
    return losses, own.grad


@pytest.mark.parametrize("logits", SPECIAL.values(), ids=SPECIAL)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_the_loss_in_parts_is_the_loss(world_size: int, logits: torch.Tensor) -> None:
    """Values and gradients as torch's; uneven parts, large logits, and -inf."""
    whole = logits.clone().requires_grad_()
    right = F.cross_entropy(whole.flatten(0, 1), TARGETS.flatten(), reduction="none")
    right.backward(numbers(2, 3, seed=5).flatten())
    run = lab.run(loss_in_parts, world_size, args=(logits,))
    losses, gradients = zip(*run.results, strict=True)
    assert all(torch.equal(each, losses[0]) for each in losses)
    near = partial(torch.allclose, rtol=1e-12, atol=1e-12)
    assert near(losses[0].flatten(), right)
    assert near(torch.cat(gradients, -1), whole.grad)
    calls = [(e.op, e.reduce_op, e.nbytes) for e in run.trace.of_rank(0)]
    one = TARGETS.numel() * 8
    assert calls == [("all_reduce", "MAX", one), ("all_reduce", "SUM", 2 * one)]


# -- whole models ----------------------------------------------------------------------

SPLITS = {
    "tensor": tensor.tensor_parallel,
    "sequence": sequence.sequence_parallel,
}
X_BYTES = 8 * BATCH * problem.LENGTH * 32
"""Of the vectors between layers: width 32."""


def one_step(split: Callable, norms: bool = True) -> tuple[float, dict]:
    """The loss of a batch, and the gradient of everything this rank has."""
    own = split(new_model())
    loss = vocabulary.loss(own, problem.batch(0, BATCH))
    loss.backward()
    if norms and split is sequence.sequence_parallel:
        sequence.add_up_norms(own)
    gradients = {name: p.grad for name, p in own.named_parameters()}
    return loss.item(), gradients


@cache
def stepped(split: Callable, world_size: int) -> lab.Run:
    return lab.run(one_step, world_size, args=(split,))


def right_gradients(split: Callable) -> dict[str, torch.Tensor]:
    """One process's gradients, cut in parts as the parameters are."""
    model = new_model()
    problem.loss(model, problem.batch(0, BATCH)).backward()
    for parameter in model.parameters():
        parameter.data = parameter.grad
    return {name: p.detach() for name, p in split(model).named_parameters()}


def agrees(results: list, split: Callable) -> bool:
    model = new_model()
    loss = problem.loss(model, problem.batch(0, BATCH)).item()
    right = lab.run(right_gradients, len(results), args=(split,)).results
    near = partial(torch.allclose, rtol=1e-10, atol=1e-14)
    return all(
        actual[0] == pytest.approx(loss, rel=1e-13)
        and actual[1].keys() == gradients.keys()
        and all(near(actual[1][name], gradients[name]) for name in gradients)
        for actual, gradients in zip(results, right, strict=True)
    )


@pytest.mark.parametrize(
    "how, world_size",
    [*(("tensor", p) for p in (1, 2, 3, 4)), *(("sequence", p) for p in (1, 2, 4))],
)
def test_a_model_in_parts_is_the_model(how: str, world_size: int) -> None:
    """The loss on all ranks and every gradient; 3 ranks share 4 heads unevenly."""
    assert agrees(stepped(SPLITS[how], world_size).results, SPLITS[how])


def test_parts_are_parts() -> None:
    """Of all but the norms each of 4 ranks has a quarter."""
    norms = sum(p.numel() for p in PARAMETERS if p.dim() == 1)
    rest = sum(p.numel() for p in PARAMETERS) - norms
    for _, gradients in stepped(tensor.tensor_parallel, 4).results:
        assert sum(g.numel() for g in gradients.values()) == norms + rest / 4


def test_norms_need_a_sum_in_sequence_parallelism() -> None:
    """Without it a rank has the term of its own letters, and the test says so."""
    run = lab.run(one_step, 2, args=(sequence.sequence_parallel, False))
    assert not agrees(run.results, sequence.sequence_parallel)


def not_enough(*_, **__) -> nn.Sequential:
    """Tensor parallelism whose attention forgets to add up what heads give."""
    own = tensor.tensor_parallel(new_model())
    own[1].attention.leave = None
    return own


def test_a_wrong_model_is_found() -> None:
    """The test above fails where it should."""
    run = lab.run(one_step, 2, args=(not_enough,))
    assert not agrees(run.results, tensor.tensor_parallel)


def test_more_ranks_than_heads_is_named() -> None:
    """A head is whole."""
    with pytest.raises(lab.RankError, match="4 heads for 5 ranks"):
        lab.run(one_step, 5, args=(tensor.tensor_parallel,))


# -- their bytes -----------------------------------------------------------------------


def phases(split: Callable) -> list[tuple[int, int]]:
    """Calls when a block's forward and backward pass begin and end, in a batch."""
    from collectives_lab import recorder

    calls, seen = recorder.current().records, []
    block = split(new_model())[1]
    length = problem.LENGTH
    if split is sequence.sequence_parallel:
        length //= dist.get_world_size()
    x = torch.ones(BATCH, length, 32, dtype=torch.float64, requires_grad=True)
    y = block(x)
    seen.append(len(calls))
    y.sum().backward()
    seen.append(len(calls))
    return seen


@pytest.mark.parametrize("world_size", [2, 4])
def test_bytes_of_a_block(world_size: int) -> None:
    """Two all_reduces of x a direction, or as many all_gathers and reduce_scatters."""
    run = lab.run(phases, world_size, args=(tensor.tensor_parallel,))
    events = run.trace.of_rank(0)
    assert [e.op for e in events] == ["all_reduce"] * 4
    assert run.results[0] == [2, 4]
    halves = lab.run(phases, world_size, args=(sequence.sequence_parallel,))
    ops = [e.op for e in halves.trace.of_rank(0)]
    assert ops == ["all_gather", "reduce_scatter"] * 4
    assert halves.results[0] == [4, 8]
    assert {e.nbytes for e in [*events, *halves.trace.of_rank(0)]} == {X_BYTES}
    sent = 4 * 2 * X_BYTES * (world_size - 1) / world_size
    assert run.trace.bytes_sent() == halves.trace.bytes_sent() == [sent] * world_size


def sent(norms_too: bool, world_size: int) -> list[float]:
    """Of x: behind the embedding, four a block, before the logits; of the loss, 3 a
    letter; with sequence parallelism the norms, too."""
    words = 2 + 4 * 2
    letters = 8 * BATCH * problem.LENGTH
    norms = sum(p.nbytes for p in PARAMETERS if p.dim() == 1)
    summed = words * X_BYTES + 3 * letters + norms_too * norms
    return [STEPS * 2 * summed * (world_size - 1) / world_size] * world_size


def train(module) -> Trained:
    """All ranks have the losses of the whole batch, and a part of the parameters."""
    return module.train(STEPS, BATCH, new_model()), None


SYSTEMS = {
    "tensor": System(
        partial(train, tensor), (1, 2, 3, 4), partial(sent, False), curves=list
    ),
    "sequence": System(
        partial(train, sequence), (1, 2, 4), partial(sent, True), curves=list
    ),
}


def test_verbs_leave_their_input_alone() -> None:
    """What is added up is a copy: autograd may need x again."""

    def kept() -> bool:
        x = numbers(4, 4, seed=dist.get_rank())
        before = x.clone()
        conjugates.added_up(x, None), conjugates.scattered(x, 0, None)
        conjugates.gathered(x.t(), 0, None)
        return torch.equal(x, before)

    assert lab.run(kept, 2).results == [True, True]

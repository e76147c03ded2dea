"""Strategies on paper say what `parallel` says on real ranks, call by call."""

import sys
from collections.abc import Callable
from functools import cache, partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

import collectives_lab as lab
from collectives_lab.parallel import (
    data,
    experts,
    mesh,
    pipeline,
    problem,
    schedules,
    sequence,
    tensor,
    vocabulary,
    zero,
)
from collectives_lab.strategies import (
    FLOAT32,
    FLOAT64,
    Strategy,
    memory,
    models,
    predicted_calls,
    recorded_calls,
    sentences,
)
from collectives_lab.strategies.memory import _pieces_on_their_way, activations
from collectives_lab.trace import Trace

cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCH = 8
TINY = partial(
    Strategy,
    model=models.tiny(),
    batch=BATCH,
    sequence=problem.LENGTH,
    precision=FLOAT64,
    unit="parameter",
)


def new_model() -> nn.Sequential:
    return problem.new_model(dtype=torch.float64)


# -- what is said ----------------------------------------------------------------------


def says(run: lab.Run, strategy: Strategy) -> bool:
    """Whether all ranks say what the strategy says, and send as many bytes."""
    ranks = range(strategy.world_size)
    sent = [
        sentences(strategy, strategy.stage(rank)).bytes_sent()
        for rank in range(run.trace.world_size)
    ]
    return all(
        recorded_calls(run.trace, r) == predicted_calls(strategy, r) for r in ranks
    ) and (without_broadcasts(run.trace).bytes_sent() == pytest.approx(sent, rel=1e-12))


def without_broadcasts(trace: Trace) -> Trace:
    events = (event for event in trace.events if event.op != "broadcast")
    return Trace.from_events(events, trace.world_size, trace.groups)


@cache
def by_data(world_size: int, bucket_bytes: int | None = None) -> lab.Run:
    def step() -> None:
        data.train(1, BATCH, bucket_bytes, new_model())

    return lab.run(step, world_size)


@cache
def by_zero(world_size: int, stage: int, micro: int = 1) -> lab.Run:
    def step() -> tuple[int, ...]:
        trained = zero.STAGES[stage](new_model())
        share = problem.batch(0, BATCH).share(dist.get_rank(), world_size)
        for _ in range(2):  # steps, of which the second has the state of the first
            trained.zero_grad()
            for m in range(micro):
                part = share.share(m, micro)
                problem.loss(trained.model, part, whole=BATCH).backward()
            trained.step()
        return tuple(trained.held())

    return lab.run(step, world_size)


@cache
def by_tensor(world_size: int, by_sequence: bool) -> lab.Run:
    system = sequence if by_sequence else tensor
    return lab.run(lambda: system.train(1, BATCH, new_model()), world_size)


@cache
def by_grid(d: int, t: int, by_sequence: bool) -> lab.Run:
    return lab.run(lambda: mesh.train(d, t, by_sequence, 1, BATCH, new_model()), d * t)


@cache
def by_three(p: int, d: int, t: int, micro: int) -> lab.Run:
    def step() -> None:
        mesh.train_3d(p, d, t, micro, 1, BATCH, new_model())

    return lab.run(step, p * d * t)


@pytest.mark.parametrize("unit", ["parameter", 20_000, 100_000, 10**7])
@pytest.mark.parametrize("world_size", [2, 4])
def test_data_parallel(world_size: int, unit: str | int) -> None:
    """An all_reduce a parameter, or a bucket."""
    run = by_data(world_size, None if unit == "parameter" else unit)
    assert says(run, TINY(data=world_size, unit=unit))


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize(
    "world_size, micro",
    [(2, 1), (4, 1), pytest.param(8, 1, marks=pytest.mark.slow), (2, 2)],
)
def test_zero(world_size: int, micro: int, stage: int) -> None:
    """Of 2 steps; each micro-batch says what nobody keeps whole again."""
    unit = "model" if stage == 1 else "layer"
    there = TINY(data=world_size, zero=stage, micro_batches=micro, unit=unit)
    run = by_zero(world_size, stage, micro)
    for rank in range(world_size):
        twice = {
            call: 2 * times for call, times in predicted_calls(there, rank).items()
        }
        assert recorded_calls(run.trace, rank) == twice


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_fills_up_the_last_part(stage: int) -> None:
    """3 ranks do not divide the layers."""
    strategy = TINY(
        batch=9, data=3, zero=stage, unit="model" if stage == 1 else "layer"
    )
    run = by_zero(3, stage)
    twice = {call: 2 * times for call, times in predicted_calls(strategy, 0).items()}
    assert recorded_calls(run.trace, 0) == twice


@pytest.mark.parametrize("by_sequence", [False, True])
@pytest.mark.parametrize("world_size", [2, 4])
def test_tensor_and_sequence_parallel(world_size: int, by_sequence: bool) -> None:
    """Each all_reduce, or its two halves and the norms' gradients."""
    strategy = TINY(tensor=world_size, sequence_parallel=by_sequence)
    assert says(by_tensor(world_size, by_sequence), strategy)


@pytest.mark.parametrize("by_sequence", [False, True])
@pytest.mark.parametrize("d, t", [(2, 2), (2, 4), (4, 2)])
@pytest.mark.slow
def test_data_times_tensor(d: int, t: int, by_sequence: bool) -> None:
    """x of a share of the batch along tensor, gradients of a part along data."""
    strategy = TINY(data=d, tensor=t, sequence_parallel=by_sequence)
    assert says(by_grid(d, t, by_sequence), strategy)


def train_parts_by_zero(stage: int, d: int, t: int, by_sequence: bool) -> None:
    grid = mesh.grid(data=d, tensor=t)
    replicas, parts = grid.get_group("data"), grid.get_group("tensor")
    split = sequence.sequence_parallel if by_sequence else tensor.tensor_parallel
    trained = zero.STAGES[stage](split(new_model(), parts), group=replicas)
    share = problem.batch(0, BATCH).share(grid.get_local_rank("data"), d)
    loss = vocabulary.loss(trained.model, share, whole=BATCH, group=parts)
    loss.backward()
    if by_sequence:
        sequence.add_up_norms(trained.model, parts)
    trained.step()


@pytest.mark.parametrize("stage, by_sequence", [(1, False), (1, True), (2, 0), (3, 0)])
def test_zero_times_tensor(stage: int, by_sequence: bool) -> None:
    """Owners of parts of parts."""
    unit = "model" if stage == 1 else "layer"
    ways = {"data": 2, "tensor": 2, "zero": stage, "unit": unit}
    strategy = TINY(sequence_parallel=bool(by_sequence), **ways)
    run = lab.run(train_parts_by_zero, 4, args=(stage, 2, 2, bool(by_sequence)))
    assert says(run, strategy)


@pytest.mark.parametrize("micro", [2, 4])
@pytest.mark.parametrize("p, d, t", [(2, 1, 1), (4, 1, 1), (2, 1, 2), (2, 2, 2)])
@pytest.mark.slow
def test_three_dimensions(p: int, d: int, t: int, micro: int) -> None:
    """Every rank of every stage; sends to the next stage count along the pipeline."""
    strategy = TINY(pipeline=p, data=d, tensor=t, micro_batches=micro)
    run = by_three(p, d, t, micro)
    for rank in range(p * d * t):
        assert recorded_calls(run.trace, rank) == predicted_calls(strategy, rank)


def again(x: torch.Tensor, block: nn.Module) -> torch.Tensor:
    return checkpoint.checkpoint(block, x, use_reentrant=False)


class Again(nn.Module):
    """A block that is computed again in the backward pass."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return again(x, self.block)


@pytest.mark.parametrize("by_sequence", [False, True])
def test_blocks_that_are_computed_again_speak_again(by_sequence: bool) -> None:
    """What torch.utils.checkpoint says, if it does not stop early."""
    split = sequence.sequence_parallel if by_sequence else tensor.tensor_parallel

    def step() -> None:
        mine = split(new_model())
        for i in (1, 2):
            mine[i] = Again(mine[i])
        with checkpoint.set_checkpoint_early_stop(False):
            vocabulary.loss(mine, problem.batch(0, BATCH)).backward()
        if by_sequence:
            sequence.add_up_norms(mine)

    there = TINY(tensor=2, sequence_parallel=by_sequence, recompute="full")
    assert says(lab.run(step, 2), there)


# -- experts ---------------------------------------------------------------------------


class Even(nn.Linear):
    """A router that gives each expert as many tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wanted = torch.arange(2 * len(x)).view(len(x), 2) % self.out_features
        turns = functional.one_hot(wanted, self.out_features).sum(1)
        return super().forward(x) * 1e-6 + turns


def with_experts(many: int, group: dist.ProcessGroup | None = None) -> nn.Sequential:
    model = new_model()
    for block in (model[1], model[2]):
        mine = experts.Experts(32, many, 2, group=group)
        mine.router = Even(32, many, bias=False)
        block.mlp = mine.double()
    return model


def train_experts(d: int, e: int, many: int) -> None:
    """A step: experts along the inner level, whose copies are along the outer one."""
    grid = mesh.grid(replica=d // e, expert=e)
    model = with_experts(many, grid.get_group("expert"))
    share = problem.batch(0, BATCH).share(dist.get_rank(), d)
    problem.loss(model, share, whole=BATCH).backward()
    for name, parameter in model.named_parameters():
        of_expert = ".experts." in name
        group = grid.get_group("replica") if of_expert else None
        dist.all_reduce(parameter.grad, group=group)


@pytest.mark.parametrize("d, e, many", [(2, 2, 4), (4, 4, 4), (4, 2, 4)])
def test_experts(d: int, e: int, many: int) -> None:
    """Tokens that are spread evenly, and experts' gradients along replicas only."""
    strategy = TINY(model=models.tiny(experts=many, top_k=2), data=d, expert=e)
    assert says(lab.run(train_experts, d, args=(d, e, many)), strategy)


# -- a wrong strategy is found ---------------------------------------------------------


WRONG: dict[str, tuple[Callable[[], lab.Run], Strategy]] = {
    "buckets": (partial(by_data, 2), TINY(data=2, unit=20_000)),
    "zero for all_reduce": (partial(by_data, 2), TINY(data=2, zero=1)),
    "dtype": (partial(by_data, 2), TINY(data=2, precision=FLOAT32)),
    "sequence": (
        partial(by_tensor, 2, False),
        TINY(tensor=2, sequence_parallel=True),
    ),
    "gathered again": (
        partial(by_tensor, 2, True),
        TINY(tensor=2, sequence_parallel=True, regather=True),
    ),
    "computed again": (partial(by_tensor, 2, False), TINY(tensor=2, recompute="full")),
    "batch": (partial(by_tensor, 2, False), TINY(tensor=2, batch=16)),
    "order": (
        partial(by_grid, 2, 4, False),
        TINY(data=2, tensor=4, order=("data", "tensor", "pipeline")),
    ),
    "degrees": (partial(by_grid, 2, 4, False), TINY(data=4, tensor=2)),
    "micro-batches": (
        partial(by_three, 2, 1, 1, 2),
        TINY(pipeline=2, micro_batches=4),
    ),
}


@pytest.mark.parametrize("run, strategy", WRONG.values(), ids=WRONG)
def test_a_wrong_strategy_is_found(run, strategy) -> None:
    """The tests above fail where they should."""
    assert not says(run(), strategy)


# -- what is kept ----------------------------------------------------------------------


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_zero_keeps_what_is_foretold(world_size: int, stage: int) -> None:
    """Parameters, gradients and Adam's moments, to the byte."""
    unit = "model" if stage == 1 else "layer"
    strategy = TINY(batch=12, data=world_size, zero=stage, unit=unit)
    kept = memory(strategy)
    for held in by_zero(world_size, stage).results:
        assert held == (kept.parameters, kept.gradients, kept.optimizer)


@pytest.mark.parametrize("p, t", [(1, 1), (2, 1), (4, 1), (1, 4), (2, 2)])
def test_parts_and_stages_have_as_many_parameters(p: int, t: int) -> None:
    """Of the model that `tensor` and `pipeline` cut."""

    def numbers() -> int:
        grid = mesh.grid(pipe=p, tensor=t)
        mine = tensor.tensor_parallel(new_model(), grid.get_group("tensor"))
        stage = pipeline.cut(mine, p, grid.get_local_rank("pipe"))
        return 8 * sum(parameter.numel() for parameter in stage.parameters())

    strategy = TINY(pipeline=p, tensor=t)
    assert lab.run(numbers, p * t).results == [
        memory(strategy, strategy.stage(rank)).parameters for rank in range(p * t)
    ]


def kept_by_autograd(by_sequence: bool | None) -> int:
    """Bytes that the backward pass of a step needs, but for parameters and indices.

    And but for what has less than 1 number for each of its width a token.
    """
    model, examples = new_model(), problem.batch(0, BATCH)
    loss = problem.loss
    if by_sequence is not None:
        split = sequence.sequence_parallel if by_sequence else tensor.tensor_parallel
        model, loss = split(model), vocabulary.loss
    least = BATCH * problem.LENGTH * 32 // dist.get_world_size()
    return saved(lambda: loss(model, examples), model, 8 * least)


def saved(compute: Callable[[], object], model: nn.Module, least: int) -> int:
    """Bytes behind what autograd saves, in tensors of at least so many."""
    known = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        new = storage.data_ptr() not in known and x.is_floating_point()
        if new and storage.nbytes() >= least:
            kept[storage.data_ptr()] = storage  # held, so that no address returns
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        compute()
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize(
    "world_size, by_sequence", [(1, None), (2, False), (2, True), (4, False), (4, True)]
)
def test_activations_are_foretold(world_size: int, by_sequence: bool | None) -> None:
    """What autograd saves for the backward pass, to the byte."""
    strategy = TINY(tensor=world_size, sequence_parallel=bool(by_sequence))
    run = lab.run(kept_by_autograd, world_size, args=(by_sequence,), backend="gloo")
    assert run.results == [activations(strategy)] * world_size


def kept_by_experts() -> int:
    model, share = with_experts(4), problem.batch(0, BATCH).share(dist.get_rank(), 2)
    least = 8 * BATCH // 2 * problem.LENGTH * 32
    return saved(lambda: problem.loss(model, share, whole=BATCH), model, least)


def test_activations_of_experts_are_foretold() -> None:
    """Tokens for two experts each, what these make of them, and the results.

    And once more the results, weighted: torch's index_add saves them for their shape.
    """
    strategy = TINY(model=models.tiny(experts=4, top_k=2), data=2, expert=2)
    weighted = strategy.model.layers * 2 * strategy.x_bytes
    found = lab.run(kept_by_experts, 2, backend="gloo").results
    assert found == [activations(strategy) + weighted] * 2


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("p, micro", [(1, 4), (2, 1), (2, 4), (4, 2), (4, 8)])
def test_a_stage_keeps_as_many_micro_batches(schedule: str, p: int, micro: int) -> None:
    """As the schedule that runs has on their way at most."""
    plan = {"gpipe": schedules.gpipe, "1f1b": schedules.one_f_one_b}[schedule]
    strategy = TINY(pipeline=p, micro_batches=micro, schedule=schedule)
    assert [_pieces_on_their_way(strategy, k) for k in range(p)] == [
        schedules.peak(actions) for actions in plan(p, micro)
    ]

"""Local updates: rows of the battery, fragments and their turns, what is lost."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from parallel_battery import BATCH, Curves, S, System, Trained, flat, new_model
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import collectives_lab as lab
from collectives_lab.parallel import data, local, problem
from collectives_lab.parallel.local import DiLoCo, Fragment, in_fragments, schedule

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])

MANY = 12
"""Steps: enough for several rounds of every way."""


MIXED = "streaming, overlapped, mixed"
WAYS = {
    "DiLoCo": {"every": 2},
    "DiLoCo, an odd end": {"every": 5},
    "mean of parameters": {"every": 1, "outer_rate": 1.0, "outer_momentum": 0.0},
    "streaming": {"every": 3, "fragments": 3},
    "streaming, all layers": {"every": 2, "fragments": 4},
    "overlapped": {"every": 3, "delay": 2},
    MIXED: {
        "every": 4, "fragments": 2, "delay": 1, "keep": 0.5,
    },
}  # fmt: skip


def by_ranks(options: dict, steps: int = MANY) -> Trained:
    """Train copies that are made equal at the start, for more steps than the others."""
    model = new_model(seed=dist.get_rank())
    losses = local.train(steps=steps, batch_size=BATCH, model=model, **options)
    return losses, flat(model)


def workers_alone(
    world_size: int,
    *,
    every: int,
    fragments: int = 1,
    delay: int = 0,
    keep: float = 0.0,
    outer_rate: float = 0.7,
    outer_momentum: float = 0.5,
) -> tuple[Curves, torch.Tensor]:
    """All workers in one process, with an outer step written out.

    Source: Douillard et al. 2025, Streaming DiLoCo, algorithm 2; with one fragment, no
    delay and nothing kept it is algorithm 1 of DiLoCo.
    """
    workers = [new_model() for _ in range(world_size)]
    inner = [torch.optim.AdamW(w.parameters(), lr=problem.RATE) for w in workers]
    cut = [int(k * 4 / fragments) for k in range(fragments + 1)]
    agreed = [part_of(workers[0], *cut[k : k + 2]) for k in range(fragments)]
    velocity = [torch.zeros_like(theta) for theta in agreed]
    under_way: dict[int, tuple[int, torch.Tensor]] = {}
    losses: list[list[float]] = [[] for _ in workers]

    def take(k: int, mean: torch.Tensor, keep: float) -> None:
        velocity[k] = outer_momentum * velocity[k] + mean
        agreed[k] = agreed[k] - outer_rate * (mean + outer_momentum * velocity[k])
        for worker in workers:
            own = part_of(worker, *cut[k : k + 2])
            mixed = keep * own + (1 - keep) * agreed[k]
            vector_to_parameters(mixed, worker[cut[k] : cut[k + 1]].parameters())

    for step in range(1, MANY + 1):
        examples = problem.batch(step - 1, BATCH)
        for rank, worker in enumerate(workers):
            inner[rank].zero_grad()
            share = examples.share(rank, world_size)
            loss = problem.loss(worker, share)
            loss.backward()
            inner[rank].step()
            losses[rank].append(loss.item() * len(share.inputs) / BATCH)
        for k in range(fragments):
            if step % every == (k + 1) * every // fragments % every:
                owns = [part_of(worker, *cut[k : k + 2]) for worker in workers]
                mean = sum(agreed[k] - own for own in owns) / world_size
                under_way[k] = (step + delay, mean)
            if k in under_way and under_way[k][0] == step:
                take(k, under_way.pop(k)[1], keep)
    for k in list(under_way):
        take(k, under_way.pop(k)[1], 0.0)
    return losses, torch.cat(agreed)


def part_of(model: nn.Sequential, begin: int, end: int) -> torch.Tensor:
    return parameters_to_vector(model[begin:end].parameters()).detach()


class Plain(Fragment):
    """Momentum without Nesterov's look ahead."""

    def __init__(self, *args):
        super().__init__(*args)
        self.outer.param_groups[0]["nesterov"] = False


class Summed(Fragment):
    """The sum of what all have learnt, and not its mean."""

    def begin(self):
        super().begin()
        self.work.wait()
        self.difference *= dist.get_world_size(self.group)


class Backwards(Fragment):
    """Moves away from what was learnt."""

    def begin(self):
        super().begin()
        self.work.wait()
        self.difference *= -1


class Late(Fragment):
    """Adds up what was learnt when it is wanted, not when it was due."""

    def begin(self):
        self.work = True

    def end(self, keep=0.0):
        super().begin()
        super().end(keep)


class Alone(Fragment):
    """Goes on from its own parameters."""

    def load(self, keep=0.0):
        pass


class Greedy(Fragment):
    """Keeps nothing of its own."""

    def load(self, keep=0.0):
        super().load(0.0)


def by(Kind: type, options: dict) -> Trained:
    local.Fragment = Kind
    return by_ranks(options)


def sent(every: int, world_size: int) -> list[float]:
    """After the broadcasts 2 S (P-1)/P every H steps, however they are cut."""
    summed = MANY // every * 2 * S * (world_size - 1) / world_size
    return [S + summed] * (world_size - 1) + [summed]


SYSTEMS = {
    way: System(
        partial(by, Fragment, options),
        (1, 2, 3, 4),
        partial(sent, options["every"]),
        alone=partial(workers_alone, **options),
        curves=list,
        of_losses=1e-10,
        slow=True,
    )
    for way, options in WAYS.items()
}
SYSTEMS[MIXED] = replace(
    SYSTEMS[MIXED],
    wrong={
        Wrong.__name__: partial(by, Wrong, WAYS[MIXED])
        for Wrong in (Plain, Summed, Backwards, Late, Alone, Greedy)
    },
)


def averaged(every: int) -> tuple[list[float], torch.Tensor]:
    """Parameters averaged by hand, every so many steps."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model, losses = new_model(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=problem.RATE)
    for step in range(MANY):
        optimizer.zero_grad()
        share = problem.batch(step, BATCH).share(rank, world_size)
        loss = problem.loss(model, share)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() * len(share.inputs) / BATCH)
        if (step + 1) % every == 0:
            mean = flat(model)
            dist.all_reduce(mean)
            vector_to_parameters(mean / world_size, model.parameters())
    return losses, flat(model)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_rate_one_averages_parameters(world_size: int, every: int) -> None:
    """Without momentum, and with a little it does not."""
    by_hand = lab.run(averaged, world_size, args=(every,)).results
    options = {"every": every, "outer_rate": 1.0, "outer_momentum": 0.0}
    for momentum, right in ((0.0, True), (0.1, False)):
        ours = lab.run(
            by_ranks, world_size, args=(options | {"outer_momentum": momentum},)
        ).results
        same = all(
            torch.allclose(own[1], theirs[1], rtol=0, atol=1e-10)
            for own, theirs in zip(ours, by_hand, strict=True)
        )
        assert same == right


def by_sgd() -> torch.Tensor:
    """Inner SGD, averaged after every step; each rank has as many examples."""
    model = new_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.5)
    outer = DiLoCo([model.parameters()], 1, 1.0, 0.0)
    for step in range(MANY):
        inner.zero_grad()
        share = problem.batch(step, 12).share(dist.get_rank(), dist.get_world_size())
        problem.loss(model, share).backward()
        inner.step()
        outer.step()
    return flat(model)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_inner_sgd_averaged_each_step_is_data_parallel(world_size: int) -> None:
    """SGD is linear in the gradient: the mean of steps is the step of the mean."""
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(MANY):
        optimizer.zero_grad()
        problem.loss(model, problem.batch(step, 12)).backward()
        optimizer.step()
    right = flat(model)
    for result in lab.run(by_sgd, world_size).results:
        assert torch.allclose(result, right, rtol=0, atol=1e-12)


# -- bytes and turns -------------------------------------------------------------------


def test_streaming_sends_a_fragment_at_a_time() -> None:
    """The same bytes in more and smaller sums, no two of them after one step."""
    sizes = {}
    for fragments in (1, 2, 4):
        run = lab.run(by_ranks, 2, args=({"every": 4, "fragments": fragments}, 4))
        events = run.trace.of_rank(0)
        sizes[fragments] = [e.nbytes for e in events if e.op == "all_reduce"]
    assert sizes[1] == [S]
    layers = [sum(p.nbytes for p in layer.parameters()) for layer in new_model()]
    assert sizes[4] == layers and sum(layers) == S
    assert sizes[2] == [sum(layers[:2]), sum(layers[2:])]
    begins = [schedule(step, 4, 4)[0] for step in range(1, 5)]
    assert begins == [[0], [1], [2], [3]]


def test_turns() -> None:
    """Every fragment once in H steps, the last with the last; each ends later."""
    rows = [schedule(step, 6, 3, delay=2) for step in range(1, 10)]
    begins, ends = zip(*rows, strict=True)
    assert list(begins) == [[], [0], [], [1], [], [2], [], [0], []]
    assert list(ends) == [[], [], [], [0], [], [1], [], [2], []]
    assert [schedule(s, 2, 4)[0] for s in (1, 2, 3)] == [[1, 2], [0, 3], [1, 2]]
    assert schedule(1, 1) == ([0], [0])


def is_under_way() -> list[bool]:
    """Whether a fragment's sum is under way after each step."""
    model = new_model()
    outer = DiLoCo([model.parameters()], 3, delay=2)
    seen = []
    for _ in range(7):
        outer.step()
        seen.append(outer.fragments[0].work is not None)
    outer.finish()
    return [*seen, outer.fragments[0].work is not None]


def test_an_overlapped_sum_is_under_way_for_its_delay() -> None:
    """Two steps, in which the rank goes on; `finish` leaves nothing under way."""
    t, f = True, False
    assert lab.run(is_under_way, 2).results == [[f, f, t, t, f, t, t, f]] * 2


def test_layers_in_fragments() -> None:
    """Neighbours, all of them once; they differ by one layer at most."""
    model = new_model()
    for fragments in range(1, 5):
        parts = in_fragments(model, fragments)
        assert [p for part in parts for p in part] == list(model.parameters())
        assert all(parts)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: schedule(1, 0), "every is 0, fragments 1; need 1 step or more"),
        (lambda: schedule(1, 4, 0), "fragments 0; need 1 step or more"),
        (lambda: schedule(1, 4, 1, 4), "need 0 <= delay < every"),
        (lambda: schedule(1, 4, 1, -1), "need 0 <= delay < every"),
        (lambda: DiLoCo([], 4), "fragments 0; need"),
        (lambda: DiLoCo([[]], 4, keep=1.0), "keep is 1.0; need 0 <= keep < 1"),
        (lambda: in_fragments(new_model(), 5), "5 fragments of 4 layers; need 1 <="),
    ],
)
def test_what_cannot_be_is_named(call: Callable, message: str) -> None:
    """Each error says the rule."""
    with pytest.raises(ValueError, match=message):
        call()


def test_everybody_needs_an_example() -> None:
    """Fewer examples than ranks: somebody could not train."""

    def too_few() -> None:
        local.train(batch_size=2)

    with pytest.raises(lab.RankError, match=r"rank \d: a batch of 2 examples for 3"):
        lab.run(too_few, 3)


def test_an_end_needs_a_beginning() -> None:
    """A fragment whose sum was never begun has none to wait for."""

    def end() -> None:
        Fragment(new_model().parameters(), 1.0, 0.0).end()

    with pytest.raises(lab.RankError, match=r"rank 0: end\(\) needs a begin\(\)"):
        lab.run(end, 1)


# -- side by side ----------------------------------------------------------------------


def held_out(train: Callable) -> float:
    """The loss on examples that nobody has seen, after a training."""
    model = problem.new_model()
    train(model=model)
    with torch.no_grad():
        return problem.loss(model, problem.batch(10**6, 256)).item()


def alone(model: nn.Sequential) -> None:
    """The same training without a word; what `finish` would give up is kept."""
    DiLoCo.finish = lambda self: None
    local.train(every=1000, model=model)


def after(train: Callable) -> tuple[float, float]:
    """The mean of the ranks' losses, and how many bytes are summed in a step."""
    run = lab.run(held_out, 4, args=(train,))
    sums = [e.nbytes for e in run.trace.of_rank(0) if e.op == "all_reduce"]
    return sum(run.results) / 4, sum(sums) / 100


@pytest.mark.slow
def test_what_is_lost_and_saved() -> None:
    """A hundred steps, four ranks: a tenth of the bytes, and most of what they give."""
    whole, sent = after(data.train)
    nothing, none = after(alone)
    assert none == 0 and nothing > whole + 0.1
    ways = {
        "plain": {},
        "streaming": {"fragments": 4},
        "overlapped": {"delay": 2, "keep": 0.5},
        "both": {"fragments": 4, "delay": 2, "keep": 0.5},
    }
    for options in ways.values():
        loss, bytes_a_step = after(partial(local.train, 10, **options))
        assert bytes_a_step == sent / 10
        assert whole < loss < nothing - 0.02
    # The paper's momentum remembers more synchronisations than there were.
    loss, _ = after(partial(local.train, 10, outer_momentum=0.9))
    assert loss > nothing

"""Asynchronous local updates: rows of the battery, their bytes and staleness."""

import sys
from functools import partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from parallel_battery import BATCH, Curves, System, Trained, flat, new_model
from torch import nn
from torch.nn.utils import vector_to_parameters

import collectives_lab as lab
from collectives_lab.parallel import async_local, problem
from collectives_lab.parallel.async_local import Agreed, Worker, arrivals

cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVERY, ROUNDS = 2, 7
PACES = {1: [1], 2: [1, 2], 3: [1, 1, 2.5], 4: [1, 1, 1, 2]}


def small_model() -> nn.Sequential:
    return new_model(width=16)


S = sum(p.nbytes for p in small_model().parameters())


def by_ranks(paces: list[float] | None, **options) -> tuple:
    """A training on ranks: its log, and the parameters at the end."""
    model, rounds = small_model(), options.pop("rounds", ROUNDS)
    log = async_local.train(EVERY, rounds, paces, BATCH, model=model, **options)
    return log, flat(model)


def workers_alone(momentum: float, world_size: int) -> tuple[Curves, torch.Tensor]:
    """All workers in one process, with AdamW's loop and the outer step written out."""
    paces, count = PACES[world_size - 1], world_size - 1
    models = [small_model() for _ in paces]
    inner = [torch.optim.AdamW(m.parameters(), lr=problem.RATE) for m in models]
    agreed, velocity = flat(models[0]), torch.zeros_like(flat(models[0]))
    pulled, losses = [agreed.clone() for _ in paces], [[] for _ in paces]
    for _, n in arrivals(paces, ROUNDS):
        vector_to_parameters(pulled[n].clone(), models[n].parameters())
        for _ in range(EVERY):
            inner[n].zero_grad()
            share = problem.batch(len(losses[n]), BATCH).share(n, count)
            loss = problem.loss(models[n], share)
            loss.backward()
            inner[n].step()
            losses[n].append(loss.item())
        gradient = (pulled[n] - flat(models[n])) / count
        velocity = momentum * velocity + gradient
        agreed = agreed - 0.7 * (gradient + momentum * velocity)
        pulled[n] = agreed.clone()
    return losses, agreed


def test_the_order_is_that_of_the_paces():
    """One half as fast comes half as often; of two at once the first is first."""
    assert arrivals([1, 2], 6) == [(1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (4, 1)]
    whose = [worker for _, worker in arrivals([1, 1, 1, 2], 32)]
    assert [whose.count(worker) for worker in range(4)] == [10, 9, 9, 4]
    assert arrivals([1, 1, 1, 2], 32)[-1][0] == 10


@pytest.mark.slow
def test_one_worker_that_is_believed_is_plain_adamw():
    """With rate 1 and no momentum what is agreed on is where the worker stands."""
    alone = small_model()
    adam = torch.optim.AdamW(alone.parameters(), lr=problem.RATE)
    steps = EVERY * ROUNDS
    problem.descend(adam, lambda k: problem.loss(alone, problem.batch(k, BATCH)), steps)
    train = partial(by_ranks, None, outer_rate=1.0, outer_momentum=0.0)
    (_, weights), _ = lab.run(train, 2, timeout=60).results
    assert torch.allclose(weights, flat(alone), rtol=0, atol=1e-10)


def undivided(self: Agreed, difference: torch.Tensor) -> None:
    """Wrong: each of W workers counts in full."""
    self.at.grad = difference
    self.outer.step()


def forgetful(self: Worker, agreed: torch.Tensor, steps: int) -> torch.Tensor:
    """Wrong: a new AdamW in each round."""
    self.inner = torch.optim.AdamW(self.model.parameters(), lr=problem.RATE)
    return ROUND(self, agreed, steps)


def stubborn(self: Worker, agreed: torch.Tensor, steps: int) -> torch.Tensor:
    """Wrong: it goes on from where it stands, and ignores what is agreed on."""
    own = flat(self.model) if self.losses else agreed
    return ROUND(self, own, steps) + agreed - own


ROUND = Worker.round
MUTANTS = {
    "undivided": (Agreed, "take", undivided),
    "forgetful": (Worker, "round", forgetful),
    "stubborn": (Worker, "round", stubborn),
}


def in_turn(momentum: float, mutant: str | None = None) -> Trained:
    """Workers have losses, and the server the parameters that are agreed on."""
    if mutant:
        setattr(*MUTANTS[mutant])
    paces = PACES[dist.get_world_size() - 1]
    log, agreed = by_ranks(paces, outer_momentum=momentum)
    return log.losses, None if log.losses else agreed


SYSTEMS = {
    f"asynchronous, momentum {momentum}": System(
        partial(in_turn, momentum),
        [workers + 1 for workers in workers_of],
        alone=partial(workers_alone, momentum),
        curves=lambda losses: losses[1:],
        wrong={mutant: partial(in_turn, momentum, mutant) for mutant in MUTANTS},
        wrong_on=4,
        of_losses=1e-10,
        slow=True,
    )
    for momentum, workers_of in ((0.5, (1, 2, 3, 4)), (0.0, (3,)))
}


@pytest.mark.slow
@pytest.mark.parametrize("paces", [PACES[3], None], ids=["paced", "as they come"])
def test_bytes_are_those_of_the_docstring(paces):
    """A round is S to a worker and S back, all on the server's link."""
    run = lab.run(by_ranks, 4, args=(paces,), timeout=60)
    assert run.trace.ops() == {"send": 2 * ROUNDS, "recv": 2 * ROUNDS}
    sent, received = run.trace.bytes_sent(), run.trace.bytes_received()
    assert sent[0] == received[0] == ROUNDS * S
    updates = run.results[0][0].updates
    due = [sum(u.worker == worker for u in updates) for worker in range(3)]
    assert sent[1:] == received[1:] == [n * S for n in due]
    assert [len(log.losses) for log, _ in run.results[1:]] == [n * EVERY for n in due]
    assert paces or due == [3, 2, 2]


@pytest.mark.slow
def test_staleness_is_counted():
    """Of W equal workers in turn each misses W - 1; a slow one more, and more often."""
    in_turn = lab.run(by_ranks, 4, args=([1, 1, 1],), timeout=60)
    assert [missed for _, missed in in_turn.results[0][0].updates] == [0, 1, *[2] * 5]
    paced = lab.run(partial(by_ranks, [1, 4], rounds=10), 3, timeout=60)
    updates = paced.results[0][0].updates
    assert [u.missed for u in updates if u.worker == 1] == [4, 4]
    assert max(u.missed for u in updates if u.worker == 0) == 1


def test_what_cannot_be_is_refused():
    """No worker, too few examples, and a pace too few are told with the rank."""

    def told(paces, batch_size):
        with pytest.raises(ValueError) as error:
            async_local.train(paces=paces, batch_size=batch_size)
        return str(error.value)

    assert "0 workers" in lab.run(told, 1, args=(None, 8)).results[0]
    results = lab.run(told, 3, args=(None, 1)).results
    assert results[2].startswith("rank 2: 2 workers and a batch of 1 examples")
    assert "need one above 0" in lab.run(told, 3, args=([1], 8)).results[1]
    assert "need one above 0" in lab.run(told, 3, args=([1, 0], 8)).results[0]

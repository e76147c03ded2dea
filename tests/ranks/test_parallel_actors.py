"""Actors and a learner: like one process, with the lag that was asked, and learning."""

import sys

import cloudpickle
import pytest
import torch
import torch.distributed as dist

import collectives_lab as lab
from collectives_lab.parallel import actors
from collectives_lab.parallel.actors import GOAL, HORIZON, Policy

cloudpickle.register_pickle_by_value(sys.modules[__name__])


# -- the world -------------------------------------------------------------------------


def walk(state: int, action: int) -> set[int]:
    """Everywhere that a step has led to, of a thousand."""
    states = torch.full((1000,), state)
    random = torch.Generator().manual_seed(3)
    moved = actors.move(states, torch.full_like(states, action), random)
    return set(moved.tolist())


def test_a_step_leads_to_a_neighbour() -> None:
    """Mostly to the one meant; at an edge one may stay, at the goal one must."""
    assert walk(12, 1) == {7, 17, 11, 13}
    assert walk(0, 0) == {0, 1, 5}
    assert walk(GOAL - 1, 3) == {GOAL, GOAL - 1, GOAL - 2, GOAL - 6}
    assert walk(GOAL, 0) == {GOAL}
    states = torch.full((4000,), 12)
    random = torch.Generator().manual_seed(0)
    moved = actors.move(states, torch.full_like(states, 1), random)
    share = (moved == 17).double().mean().item()
    assert share == pytest.approx(1 - actors.SLIP * 3 / 4, abs=0.02)


def test_play_follows_from_its_seed() -> None:
    """The same seed plays the same; another, another actor and another round do not."""
    logits = Policy().logits
    seeds = [actors.seed_of(s, t, a) for s in (0, 1) for t in (0, 1) for a in (0, 1)]
    assert len(set(seeds)) == 8
    one, again, other = (actors.play(logits, 4, s) for s in (seeds[0], *seeds[:2]))
    assert one.shape == (2, HORIZON, 4)
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_the_return_counts_the_steps_to_the_goal() -> None:
    """Two episodes, one that reaches it after 8 steps and one that never does."""
    states = torch.zeros(HORIZON, 2, dtype=torch.int64)
    states[8:, 0] = GOAL
    experience = torch.stack([states, states])
    assert actors.mean_return(experience) == -(8 + HORIZON) / 2


# -- the policy ------------------------------------------------------------------------


def gradient_by_autograd(policy: Policy, experience: torch.Tensor) -> torch.Tensor:
    """The policy gradient from its definition: of sum(advantage x log chance)."""
    logits = policy.logits.clone().requires_grad_()
    chances = logits.log_softmax(-1)
    states, choices = experience
    total = torch.zeros((), dtype=torch.float64)
    for episode in range(states.shape[1]):
        place, action = states[:, episode], choices[:, episode]
        there = int((place != GOAL).sum())
        for t in range(there):
            advantage = -(there - t) - policy.values[place[t]]
            total = total + advantage * chances[place[t], action[t]]
    (grad,) = torch.autograd.grad(total / states.shape[1], logits)
    return grad


def test_an_update_goes_up_the_policy_gradient() -> None:
    """The formula in the table equals autograd, in a policy that knows something."""
    policy = Policy(rate=0.5)
    for seed in range(3):
        policy.update(actors.play(policy.logits, 8, seed))
    experience = actors.play(policy.logits, 8, 9)
    before, grad = policy.logits.clone(), gradient_by_autograd(policy, experience)
    policy.update(experience)
    torch.testing.assert_close(policy.logits, before + 0.5 * grad)
    assert policy.version == 4 and grad.abs().max() > 0.1


# -- actors and a learner --------------------------------------------------------------

ROUNDS, EPISODES = 7, 5


def alone(world_size: int, lag: int) -> actors.Log:
    return actors.train_alone(ROUNDS, EPISODES, lag, 0.1, 1, actors=world_size - 1)


def on_ranks(world_size: int, lag: int, rounds: int = ROUNDS) -> lab.Run:
    return lab.run(actors.train, world_size, args=(rounds, EPISODES, lag, 0.1, 1))


@pytest.mark.parametrize("world_size", [2, 3, 5])
@pytest.mark.parametrize("lag", [0, 1, 3])
def test_training_equals_one_process(world_size, lag) -> None:
    """Policy and returns to the last bit, however many actors there are."""
    log = on_ranks(world_size, lag).results[0]
    one = alone(world_size, lag)
    assert torch.equal(log.logits, one.logits)
    assert log.returns == one.returns


def test_another_lag_is_another_policy() -> None:
    """The test above fails a learner that is later or earlier than it says."""
    log = on_ranks(3, 1).results[0]
    for lag in (0, 2):
        assert not torch.equal(log.logits, alone(3, lag).logits)


@pytest.mark.parametrize("lag", [0, 1, 4])
def test_the_lag_is_as_asked(lag) -> None:
    """Versions that travelled with weights and experience say so, update by update."""
    rounds = 12
    log = on_ranks(3, lag, rounds).results[0]
    assert log.lags == [min(update, lag) for update in range(rounds - lag)]


def test_the_bytes_of_a_round() -> None:
    """The policy goes to every actor, and every actor's experience to the learner."""
    run = on_ranks(4, 0)
    weights = 8 * (len(actors.ACTIONS) * actors.SIDE**2 + 1)
    experience = 8 * (2 * HORIZON * EPISODES + 1)
    assert run.trace.ops() == {"broadcast": 4 * ROUNDS, "gather": 4 * ROUNDS}
    assert sum(run.trace.bytes_sent()) == ROUNDS * 3 * (weights + experience)
    assert run.trace.bytes_received()[0] == ROUNDS * 3 * experience
    assert run.trace.bytes_sent()[0] == ROUNDS * weights


class Noted:
    """A work that notes when it is waited for."""

    def __init__(self, work, notes: list[str]):
        self.work, self.notes = work, notes

    def wait(self) -> None:
        self.notes.append("wait")
        self.work.wait()


def order_of_learning(lag: int) -> list[str]:
    """On a rank: in which order it posts gathers, waits for them, and learns."""
    notes = []
    gather, update = dist.gather, Policy.update

    def noted_gather(*args, **named):
        notes.append("gather")
        work = gather(*args, **named)
        return None if work is None else Noted(work, notes)

    def noted_update(self, experience):
        notes.append("learn")
        update(self, experience)

    dist.gather, Policy.update = noted_gather, noted_update
    actors.train(3, 2, lag)
    return notes


def test_the_learner_learns_while_actors_play() -> None:
    """With a lag it learns between posting the gather and waiting for it."""
    at_once, late = (
        lab.run(order_of_learning, 2, args=(lag,)).results[0] for lag in (0, 1)
    )
    assert at_once == 3 * ["gather", "wait", "learn"]
    assert late == ["gather", "wait"] + 2 * ["gather", "learn", "wait"]


def late_returns(rate: float, lag: int, seed: int) -> tuple[float, float]:
    """Mean returns of the first round and of the last five."""
    returns = (
        lab.run(actors.train, 4, args=(60, 16, lag, rate, seed)).results[0].returns
    )
    return returns[0], sum(returns[-5:]) / 5


@pytest.mark.parametrize("lag, seed", [(0, 0), (0, 1), (4, 0), (8, 2)])
def test_it_learns(lag, seed) -> None:
    """From about 28 steps to the goal at random down to 12, where 8 is the least."""
    random, learned = late_returns(actors.RATE, lag, seed)
    assert -30 <= random < -25
    assert -13.5 < learned < -8


def test_who_does_not_learn_is_found() -> None:
    """At a rate of almost 0 the return stays that of a random policy."""
    random, learned = late_returns(1e-6, 0, 0)
    assert learned < -25 and abs(learned - random) < 3


@pytest.mark.slow
def test_a_lag_asks_for_a_lower_rate() -> None:
    """A rate that is good without a lag goes wrong with one of 8 updates."""
    at_once, late = (
        [late_returns(0.3, lag, seed)[1] for seed in range(3)] for lag in (0, 8)
    )
    assert min(at_once) > -11
    assert sum(late) / 3 < sum(at_once) / 3 - 3


@pytest.mark.parametrize(
    "args, world_size, complaint",
    [
        ((), 1, "on 1 ranks; need .* 2 ranks, a learner and an actor"),
        ((0,), 2, "0 rounds of 16 episodes"),
        ((1, 0), 2, "1 rounds of 0 episodes"),
        ((1, 1, -1), 2, "with lag -1"),
    ],
)
def test_what_cannot_be_is_refused(args, world_size, complaint) -> None:
    """The error says what was found and what is needed."""
    with pytest.raises(lab.LabError, match=complaint):
        lab.run(actors.train, world_size, args=args)

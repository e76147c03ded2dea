"""Actors and a learner: reinforcement learning in which weights and experience travel.

Here: a small grid world (`move`, `play`), a policy that learns in it (`Policy`),
`train`, in which one rank learns from what all the others live through, and
`train_alone`, one process that gives the same.

Who owns what: rank 0, the learner, holds the policy and what else learning needs; every
other rank is an actor, with its own world and random numbers, and a copy of the policy.

What is sent in a round, with W the bytes of the policy and X those of an actor's
experience:

    broadcast   the policy and its version       learner -> actors   W each
    gather      experience, with the version     actors -> learner   X each
                that it was made with

So X (P-1) bytes arrive at the learner, more with every actor, where its W goes down a
tree or a chain. With lag 0 the actors wait while it learns, and it waits while they
play. With lag k it learns, meanwhile, from the experience of k rounds ago: nobody need
wait, but what it learns from was lived with a policy k updates old, and the policy
gradient is no longer exact.

Sources: Nair et al. 2015, Massively Parallel Methods for Deep Reinforcement Learning,
section 4 (actors and learners); Espeholt et al. 2018, IMPALA, sections 1 and 3 (policy
lag); Williams 1992 (REINFORCE).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

LEARNER = 0

SIDE = 5
"""Squares along an edge of the world: the start in one corner, the goal across."""

GOAL = SIDE * SIDE - 1
HORIZON = 30
"""Steps after which an episode ends, wherever it is."""

RATE = 0.1
"""Of learning; three times as much still learns with lag 0, and breaks down with 8."""

SLIP = 0.1
"""How often a step goes somewhere else than it was meant to."""

ACTIONS = torch.tensor([[-1, 0], [1, 0], [0, -1], [0, 1]])
"""Up, down, left, right."""


def _reached() -> torch.Tensor:
    """Return the square that each action leads to, from each square."""
    state = torch.arange(SIDE * SIDE)
    place = torch.stack([state // SIDE, state % SIDE], -1)[:, None] + ACTIONS
    row, column = place.clamp(0, SIDE - 1).unbind(-1)
    return torch.where(state[:, None] == GOAL, GOAL, row * SIDE + column)


REACHED = _reached()
"""The square that each action leads to, [from, action]."""


def move(
    state: torch.Tensor, action: torch.Tensor, random: torch.Generator
) -> torch.Tensor:
    """Take a step in each of many worlds: states and actions to new states.

    At the edge one stays where one is, and at the goal for ever. Each step costs 1, so
    the best return from the start is -8 for a side of 5, less what slips.
    """
    count = len(ACTIONS)
    slips = torch.rand(state.shape, generator=random) < SLIP
    other = torch.randint(count, state.shape, generator=random)
    return REACHED[state, torch.where(slips, other, action)]


def play(logits: torch.Tensor, episodes: int, seed: int) -> torch.Tensor:
    """Play episodes side by side; return (2, HORIZON, episodes): states and actions.

    logits: the policy, (states, actions). The same seed gives the same episodes.
    """
    random = torch.Generator().manual_seed(seed)
    state = torch.zeros(episodes, dtype=torch.int64)
    states, actions = [], []
    chances = logits.softmax(-1)
    for _ in range(HORIZON):
        action = chances[state].multinomial(1, generator=random).flatten()
        states.append(state)
        actions.append(action)
        state = move(state, action, random)
    return torch.stack([torch.stack(states), torch.stack(actions)])


def mean_return(experience: torch.Tensor) -> float:
    """Return the mean over episodes of minus the steps until the goal."""
    return -(experience[0] != GOAL).sum(0).double().mean().item()


class Policy:
    """A softmax policy in a table, and the value of each state as its baseline.

    version: how many updates it has had.
    """

    def __init__(self, rate: float = RATE):
        """Begin with all actions alike. rate: of learning."""
        self.logits = torch.zeros(SIDE * SIDE, len(ACTIONS), dtype=torch.float64)
        self.values = torch.zeros(SIDE * SIDE, dtype=torch.float64)
        self.rate = rate
        self.version = 0

    def update(self, experience: torch.Tensor) -> None:
        """Make actions likelier the more their return was above the state's value."""
        state, action = experience
        cost = (state != GOAL).double()
        to_go = -cost.flip(0).cumsum(0).flip(0)
        gained = (to_go - self.values[state]) * cost / state.shape[1]
        # The gradient of log softmax: one at the action taken, less the chances.
        change = torch.zeros_like(self.logits)
        change.index_put_((state, action), gained, accumulate=True)
        all_of_it = change.sum(1, keepdim=True)
        self.logits += self.rate * (change - all_of_it * self.logits.softmax(-1))
        visits = torch.zeros_like(self.values).index_put_((state,), cost, True)
        total = torch.zeros_like(self.values).index_put_((state,), to_go * cost, True)
        seen = visits > 0
        self.values[seen] += 0.5 * (total[seen] / visits[seen] - self.values[seen])
        self.version += 1


@dataclass(frozen=True)
class Log:
    """The log of one rank; its lists are empty on the actors.

    logits: the policy. returns: by round, the mean return of what was played in it.
    lags: by update, how many updates lay between the policy that played and this one.
    """

    logits: torch.Tensor
    returns: list[float] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)


def train(
    rounds: int = 60,
    episodes: int = 16,
    lag: int = 0,
    rate: float = RATE,
    seed: int = 0,
) -> Log:
    """Play and learn; all ranks call it. episodes: of an actor in a round.

    lag: 0 to learn from a round before the next one is played, k to learn, while a
    round is played, from that of k rounds ago; the last k rounds are then learned from
    by nobody. Raises ValueError for counts that cannot be, and for fewer than 2 ranks.
    """
    world_size = dist.get_world_size()
    if min(rounds, episodes) < 1 or lag < 0 or world_size < 2:
        raise ValueError(
            f"{rounds} rounds of {episodes} episodes with lag {lag} on {world_size} "
            "ranks; need 1 round, 1 episode and lag 0 or more, and 2 ranks, a learner "
            "and an actor"
        )
    if dist.get_rank() == LEARNER:
        return _learn(Policy(rate), rounds, episodes, lag)
    return _act(Policy(rate), rounds, episodes, seed)


def train_alone(
    rounds: int = 60,
    episodes: int = 16,
    lag: int = 0,
    rate: float = RATE,
    seed: int = 0,
    actors: int = 3,
) -> Log:
    """Return what `train` gives on the learner of so many actors, from one process.

    It plays all actors in turn, so it needs no ranks: for many trainings at once.
    """
    policy, waiting, returns = Policy(rate), deque[torch.Tensor](), []
    for turn in range(rounds):
        played_by = policy.logits.clone()
        if lag and len(waiting) == lag:
            policy.update(waiting.popleft())
        seeds = [seed_of(seed, turn, actor) for actor in range(actors)]
        waiting.append(torch.cat([play(played_by, episodes, s) for s in seeds], -1))
        returns.append(mean_return(waiting[-1]))
        if not lag:
            policy.update(waiting.popleft())
    return Log(policy.logits, returns)


def seed_of(seed: int, turn: int, actor: int) -> int:
    """Return the seed of an actor's round: no two are alike. Actors count from 0."""
    return (seed * 100_003 + turn) * 1009 + actor


def _learn(policy: Policy, rounds: int, episodes: int, lag: int) -> Log:
    log = Log(policy.logits)
    waiting: deque[tuple[int, torch.Tensor]] = deque()

    def learn() -> None:
        version, experience = waiting.popleft()
        log.lags.append(policy.version - version)
        policy.update(experience)

    for _ in range(rounds):
        dist.broadcast(_with(policy.version, policy.logits), LEARNER)
        nothing = torch.zeros(2 * HORIZON * episodes + 1, dtype=torch.int64)
        inbox = [torch.empty_like(nothing) for _ in range(dist.get_world_size())]
        work = dist.gather(nothing, inbox, LEARNER, async_op=True)
        if lag and len(waiting) == lag:
            learn()  # while the actors play
        work.wait()
        shape = (2, HORIZON, episodes)
        version = int(inbox[1][-1])
        experience = torch.cat([part[:-1].view(shape) for part in inbox[1:]], -1)
        waiting.append((version, experience))
        log.returns.append(mean_return(experience))
        if not lag:
            learn()
    return log


def _act(policy: Policy, rounds: int, episodes: int, seed: int) -> Log:
    actor = dist.get_rank() - 1
    for turn in range(rounds):
        message = _with(0, policy.logits)
        dist.broadcast(message, LEARNER)
        policy.logits = message[:-1].view_as(policy.logits)
        experience = play(policy.logits, episodes, seed_of(seed, turn, actor))
        dist.gather(_with(int(message[-1]), experience), dst=LEARNER)
    return Log(policy.logits)


def _with(version: int, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's numbers in a row, and the version after them."""
    return torch.cat([tensor.flatten(), tensor.new_tensor([version])])

"""Asynchronous local updates: who has done his steps goes on, and nobody waits.

Here: `train`, in which a server keeps what is agreed on and workers bring it how far
they have come; `arrivals`, in which order workers of unlike paces come; `Agreed`, what
the server moves, and `Worker`, what a worker does in a round.

    who owns what  rank 0, the server: the parameters agreed on and the outer momentum;
                   every other rank, a worker: its own copy of the parameters, its own
                   inner AdamW, and its share of each batch
    pull           what is agreed on    server -> one worker   S bytes   send, recv
    a round        nothing is sent: H inner steps of AdamW
    push           agreed - own         worker -> server       S bytes   send, recv
    update         at once: the difference over the number of workers is a gradient for
                   the server's SGD with Nesterov momentum, and that worker pulls again

So a round costs 2 S on the server's link, whoever made it, and 2 S / H a step of a
worker: H times less than a parameter server. A difference is *stale* by as many updates
as the server made since that worker's pull, W - 1 of W equal workers, and what is
agreed on has moved meanwhile: that is the price of not waiting.

S is the bytes of the parameters. Source: Liu et al. 2024, Asynchronous Local-SGD
Training for Language Modeling, sections 2 and 3 (its remedy, a delayed momentum, is not
here); `local` is what it is an asynchronous form of.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from collectives_lab.basics import devices
from collectives_lab.parallel import problem
from collectives_lab.parallel.server import SERVER


class Update(NamedTuple):
    """A difference that the server took: whose it is, and how many others it missed."""

    worker: int
    missed: int


@dataclass(frozen=True)
class Log:
    """The log of one rank.

    updates: on the server, in order. losses: on a worker, of each of its steps.
    """

    updates: list[Update] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def arrivals(paces: Sequence[float], rounds: int) -> list[tuple[float, int]]:
    """Return when each of so many differences comes, and from which worker.

    paces: what a round takes each worker, from 0 on. Of two at the same time the first
    worker is served first.
    """
    ready = [(pace, worker) for worker, pace in enumerate(paces)]
    heapq.heapify(ready)
    order = []
    for _ in range(rounds):
        now, worker = heapq.heappop(ready)
        order.append((now, worker))
        heapq.heappush(ready, (now + paces[worker], worker))
    return order


class Agreed:
    """The weights agreed on, in one row, moved by each difference as it comes."""

    def __init__(self, start: torch.Tensor, workers: int, rate: float, momentum: float):
        self.at, self.workers = start.clone(), workers
        self.outer = torch.optim.SGD(
            [self.at], lr=rate, momentum=momentum, nesterov=momentum > 0
        )

    def take(self, difference: torch.Tensor) -> None:
        """Move the agreed weights by a W-th of one worker's difference."""
        self.at.grad = difference / self.workers
        self.outer.step()


class Worker:
    """One that trains alone; its AdamW and its place in the data outlive a round."""

    def __init__(
        self, model: nn.Module, place: tuple[int, int], batch_size: int, rate: float
    ):
        """Start an AdamW for the model. place: its number among how many workers."""
        self.model, self.place, self.batch_size = model, place, batch_size
        self.inner = torch.optim.AdamW(model.parameters(), lr=rate)
        self.losses: list[float] = []

    def round(self, agreed: torch.Tensor, steps: int) -> torch.Tensor:
        """Train for so many steps from what is agreed on; return how far that went."""
        vector_to_parameters(agreed.clone(), self.model.parameters())
        begin = len(self.losses)
        self.losses += problem.descend(
            self.inner, lambda step: self._loss(begin + step), steps
        )
        return agreed - parameters_to_vector(self.model.parameters()).detach()

    def _loss(self, step: int) -> torch.Tensor:
        share = problem.batch(step, self.batch_size).share(*self.place)
        return problem.loss(self.model, share)


def train(
    every: int = 10,
    rounds: int = 32,
    paces: Sequence[float] | None = None,
    batch_size: int = 32,
    rate: float = problem.RATE,
    outer_rate: float = 0.7,
    outer_momentum: float = 0.5,
    model: nn.Module | None = None,
) -> Log:
    """Train out of step until the server has taken so many rounds of `every` steps.

    paces: the server takes differences in the order of workers at these paces, so that
    two runs are equal; without them in the order in which they come, and each worker
    does as many rounds, the first ones one more if they do not divide. All ranks call
    it with equal models; at the end the server's model is what is agreed on. Raises
    ValueError for fewer than 2 ranks, examples than workers, and a pace too few.
    """
    workers = dist.get_world_size() - 1
    _check(workers, batch_size, paces)
    model = problem.new_model() if model is None else model
    order = None if paces is None else [w for _, w in arrivals(paces, rounds)]
    due = [len(range(w, rounds, workers)) for w in range(workers)]
    if order is not None:
        due = [order.count(w) for w in range(workers)]
    start = parameters_to_vector(model.parameters()).detach()
    number = dist.get_rank() - 1
    if dist.get_rank() != SERVER:
        worker = Worker(model, (number, workers), batch_size, rate)
        return _work(worker, start, due[number], every)
    agreed = Agreed(start, workers, outer_rate, outer_momentum)
    updates = _serve(agreed, due, order)
    vector_to_parameters(agreed.at, model.parameters())
    return Log(updates)


def _serve(
    agreed: Agreed, due: Sequence[int], order: Sequence[int] | None
) -> list[Update]:
    """Return the server's side.

    due: rounds of each worker; order: the worker whose update comes when.
    """
    left, served = list(due), [0] * len(due)
    updates: list[Update] = []
    difference = torch.empty_like(agreed.at)
    for worker, rounds in enumerate(due):
        if rounds:
            dist.send(agreed.at, worker + 1)
    for turn in range(sum(due)):
        src = None if order is None else order[turn] + 1
        worker = dist.recv(difference, src) - 1
        agreed.take(difference)
        updates.append(Update(worker, turn - served[worker]))
        left[worker] -= 1
        if left[worker]:
            dist.send(agreed.at, worker + 1)
            served[worker] = turn + 1
    return updates


def _work(worker: Worker, agreed: torch.Tensor, rounds: int, every: int) -> Log:
    """Return a worker's side: pull, train, push, again and again."""
    for _ in range(rounds):
        dist.recv(agreed, SERVER)
        dist.send(worker.round(agreed, every), SERVER)
    return Log(losses=worker.losses)


def _check(workers: int, batch_size: int, paces: Sequence[float] | None) -> None:
    devices.refuse_nccl(None, 'run it with backend="gloo"')
    rank = dist.get_rank()
    if workers < 1 or batch_size < workers:
        raise ValueError(
            f"rank {rank}: {workers} workers and a batch of {batch_size} examples; "
            "need 2 ranks or more, a server and a worker, and an example for each"
        )
    if paces is not None and (len(paces) != workers or min(paces) <= 0):
        raise ValueError(
            f"rank {rank}: paces {list(paces)} of {workers} workers; need one above 0 "
            "for each rank but the server"
        )

"""A parameter server: one rank holds the weights, the others bring it gradients.

Here: `synchronous`, in which all workers go in step; `stale`, in which a worker goes on
as soon as the server has its gradient, at most `bound` steps ahead of the slowest one
(or as far as it likes), by the rule of `replay.staleness.Clocks`; `gradient_of`, the
gradients of a model; and `curve`, the loss against time.

Who owns what: rank 0, the server, holds the weights, S bytes, and the optimizer's
state; every other rank is a worker with data of its own, which holds a copy of the
weights while it computes.

What is sent in a step, when each of P-1 workers has done one:

    pull   the weights    server -> each worker   S bytes   send, recv
    push   a gradient     each worker -> server   S bytes   send, recv

So 2 (P-1) S bytes a step go over the server's link, half each way, where a rank of a
ring all-reduce sends 2 S (P-1)/P, however many ranks there are: the server is the
bottleneck. What it gives is that nobody waits for a slow worker. Its price is
staleness: a gradient is computed at weights that others have changed meanwhile.

Sources: Li et al. 2014, Scaling Distributed Machine Learning with the Parameter Server,
sections 2 and 3; Ho et al. 2013, More Effective Distributed ML via a Stale Synchronous
Parallel Parameter Server, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import vector_to_parameters

from collectives_lab import recorder
from collectives_lab.basics import devices
from collectives_lab.parallel import data, problem
from collectives_lab.replay.staleness import Clocks

SERVER = 0

MakeOptimizer = Callable[[torch.Tensor], torch.optim.Optimizer]
"""Of the weights: `lambda weights: torch.optim.SGD([weights], lr=0.1)`."""

Gradient = Callable[[torch.Tensor, int, int], tuple[float, torch.Tensor]]
"""Loss and gradient of `(weights, worker, clock)`; workers and clocks count from 0."""


@dataclass(frozen=True)
class Update:
    """A gradient that the server applied, with how old its weights were.

    worker, clock: whose it is and its number. ahead: how many clocks the worker was
    ahead of the slowest one when it got the weights, so how many steps of that one they
    may lack: what a bound bounds. missed: updates that the server made between giving
    these weights and applying their gradient. seconds: when, since the server began.
    """

    worker: int
    clock: int
    ahead: int
    missed: int
    seconds: float


@dataclass(frozen=True)
class Log:
    """The log of one rank.

    weights: the last ones, on the server; on a worker those that it saw last. updates:
    on the server, in order. losses: on a worker, of each clock.
    """

    weights: torch.Tensor
    updates: list[Update] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def synchronous(
    weights: torch.Tensor, gradient: Gradient, steps: int, optimizer: MakeOptimizer
) -> Log:
    """Train in step: each step of the optimizer takes the mean of all gradients.

    weights: of any shape, the server's count. optimizer: the server's. All ranks call
    it. It gives what one process gives that sums the gradients in the order of the
    workers. Raises ValueError for fewer than 2 ranks or 1 step.
    """
    weights = _checked(weights, steps)
    if dist.get_rank() != SERVER:
        return _work(weights, gradient, steps)
    workers = dist.get_world_size() - 1
    begun, updates, server = recorder.now(), [], optimizer(weights)
    grads = [torch.empty_like(weights) for _ in range(workers)]
    for clock in range(steps):
        works: list[Any] = [
            dist.irecv(grad, worker + 1) for worker, grad in enumerate(grads)
        ]
        works += [dist.isend(weights, worker + 1) for worker in range(workers)]
        for work in works:
            work.wait()
        weights.grad = torch.stack(grads).sum(0) / workers
        server.step()
        seconds = recorder.now() - begun
        updates += [Update(worker, clock, 0, 0, seconds) for worker in range(workers)]
    return Log(weights, updates)


def stale(
    weights: torch.Tensor,
    gradient: Gradient,
    steps: int,
    optimizer: MakeOptimizer,
    bound: int | None = None,
) -> Log:
    """Train out of step: the optimizer takes each gradient / workers as it comes.

    bound: how many clocks a worker may begin ahead of the slowest one; 0 lets them
    begin each clock together, None lets them never wait. The rest is as for
    `synchronous`. Who comes first is left to time, so two runs may differ; with SGD and
    bound 0 only in the order of the sums.
    """
    weights = _checked(weights, steps)
    workers = dist.get_world_size() - 1
    clocks = Clocks(workers, steps, bound)
    if dist.get_rank() != SERVER:
        return _work(weights, gradient, steps)
    server = _Server(weights, workers, optimizer(weights))
    server.serve(clocks, range(workers))
    for _ in range(workers * steps):
        worker = server.take()
        server.serve(clocks, clocks.arrived(worker))
    return Log(weights, server.updates)


class _Server:
    """The server's side: gives weights, takes gradients, and writes down what it did.

    given: by worker, its clock and lead and how many updates there were when it got its
    weights. copies: what is on its way to a worker, since the weights change meanwhile.
    """

    def __init__(
        self, weights: torch.Tensor, workers: int, optimizer: torch.optim.Optimizer
    ):
        self.weights, self.optimizer = weights, optimizer
        self.grad = torch.empty_like(weights)
        self.copies = [torch.empty_like(weights) for _ in range(workers)]
        self.given = [(0, 0, 0)] * workers
        self.updates: list[Update] = []
        self.begun = recorder.now()

    def serve(self, clocks: Clocks, workers: range | list[int]) -> None:
        """Send the weights as they are to some workers, which wait for them."""
        works: list[Any] = []
        for worker in workers:
            copy = self.copies[worker].copy_(self.weights)
            works.append(dist.isend(copy, worker + 1))
            seen = len(self.updates)
            self.given[worker] = clocks.clock[worker], clocks.ahead(worker), seen
        for work in works:
            work.wait()

    def take(self) -> int:
        """Apply the first gradient that comes, from whomever; return the worker."""
        worker = dist.recv(self.grad) - 1
        self.weights.grad = self.grad / len(self.copies)
        self.optimizer.step()
        clock, ahead, seen = self.given[worker]
        missed = len(self.updates) - seen
        seconds = recorder.now() - self.begun
        self.updates.append(Update(worker, clock, ahead, missed, seconds))
        return worker


def _work(weights: torch.Tensor, gradient: Gradient, steps: int) -> Log:
    """Return a worker: pull the weights, compute, push the gradient, again and
    again.
    """
    losses = []
    worker = dist.get_rank() - 1
    for clock in range(steps):
        dist.recv(weights, SERVER)
        loss, grad = gradient(weights, worker, clock)
        if grad.shape != weights.shape:
            raise ValueError(
                f"rank {worker + 1}: a gradient of shape {tuple(grad.shape)} for "
                f"weights of shape {tuple(weights.shape)}; need the same"
            )
        dist.send(grad.contiguous(), SERVER)
        losses.append(loss)
    return Log(weights, losses=losses)


def _checked(weights: torch.Tensor, steps: int) -> torch.Tensor:
    """Return a copy of the weights to work on."""
    devices.refuse_nccl(None, 'run it with backend="gloo"')
    if dist.get_world_size() < 2 or steps < 1:
        raise ValueError(
            f"{steps} steps on {dist.get_world_size()} ranks; need 1 step or more and "
            "2 ranks, a server and a worker"
        )
    return weights.detach().clone(memory_format=torch.contiguous_format)


def gradient_of(model: nn.Module, batch_size: int = 32) -> Gradient:
    """Return the gradient of `problem.loss` on a worker's share of the batch of its
    clock.

    Weights are the model's parameters as one vector, `parameters_to_vector`. The mean
    of the workers' losses is the loss of the whole batch, and so with gradients.
    """

    def gradient(
        weights: torch.Tensor, worker: int, clock: int
    ) -> tuple[float, torch.Tensor]:
        workers = dist.get_world_size() - 1
        share = problem.batch(clock, batch_size).share(worker, workers)
        vector_to_parameters(weights.clone(), model.parameters())
        model.zero_grad()
        loss = workers * problem.loss(model, share, batch_size)
        loss.backward()
        return loss.item(), data.flat_gradient(model.parameters())

    return gradient


def curve(logs: Sequence[Log]) -> list[tuple[float, float]]:
    """Return, by update, its time in seconds and the loss that its worker saw.

    logs: of all ranks, `run.results`.
    """
    return [
        (update.seconds, logs[update.worker + 1].losses[update.clock])
        for update in logs[SERVER].updates
    ]

"""1-bit Adam: after a warm-up, a rank sends the sign of each number and no more.

Here: `OneBitAdam`, the optimizer, and `train`, data parallel training with it.

    who owns what  data parallel: parameters, gradients and Adam's two moments on every
                   rank, the same on all; and what its own messages left out
    at the start   broadcast of the parameters from rank 0, S in all
    warm-up        all_reduce of the gradients, S in all: plain Adam, and each rank
                   sends 2 S (P-1)/P
    then           the variance is frozen, so that an update is linear in the momentum
                   and what one step leaves out the next can make up for. Each rank adds
                   its gradient to its share of the momentum; the shares are summed
                   by `compressed_all_reduce` as signs: each rank sends S (P-1)/P / 16
                   and its scales, 32 times less

Signs of the gradients would not do: Adam's variance is not linear in them. A parameter
that had no gradient in the warm-up has variance 0, and there is no sign for 0: its
momentum is held at 0, or noise divided by 0 would carry it away.

Source: Tang et al. 2021, 1-bit Adam, section 4.3 and algorithm 1. The scale there makes
lengths equal; here it is the mean of the numbers without signs, which leaves out least.
Moments are corrected for their start at 0 as Adam's are.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from collectives_lab.parallel import data, problem
from collectives_lab.parallel.compression import (
    Codec,
    Errors,
    Signs,
    compressed_all_reduce,
)


class OneBitAdam:
    """Adam on sums of the ranks' gradients, compressed after `warm_up` steps.

    Call `zero_grad`, then backward() of this rank's share of the loss, then `step`.
    momentum, variance: of all parameters in one row. Raises ValueError for a warm-up
    under 1 step: without one there is no variance to freeze.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        warm_up: int,
        rate: float = problem.RATE,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        codec: Codec | None = None,
        group: dist.ProcessGroup | None = None,
    ):
        if warm_up < 1:
            raise ValueError(f"warm_up is {warm_up}; need 1 step or more of plain Adam")
        self.parameters = list(parameters)
        self.warm_up, self.rate, self.betas, self.eps = warm_up, rate, betas, eps
        self.codec = Signs() if codec is None else codec
        self.group = group
        self.steps = 0
        self.momentum = torch.zeros_like(parameters_to_vector(self.parameters)).detach()
        self.variance = torch.zeros_like(self.momentum)
        self.errors = Errors.none(self.momentum, group)

    def zero_grad(self) -> None:
        """Forget the gradients of the step before."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Sum gradients or momenta over the ranks, then update the parameters."""
        gradient = data.flat_gradient(self.parameters)
        self.steps += 1
        if self.steps <= self.warm_up:
            self._whole(gradient)
        else:
            self._compressed(gradient)
        self._update()

    def _whole(self, gradient: torch.Tensor) -> None:
        """Update both moments with the exact sum, as Adam does."""
        dist.all_reduce(gradient, group=self.group)
        self.momentum.lerp_(gradient, 1 - self.betas[0])
        self.variance.lerp_(gradient.square(), 1 - self.betas[1])

    def _compressed(self, gradient: torch.Tensor) -> None:
        """Sum the momentum from shares that add up to it; the variance stays."""
        world_size = dist.get_world_size(self.group)
        beta = self.betas[0]
        share = beta / world_size * self.momentum + (1 - beta) * gradient
        compressed_all_reduce(share, self.codec, self.errors, self.group)
        self.momentum = share.where(self.variance > 0, 0)

    def _update(self) -> None:
        """Take Adam's step; a frozen variance keeps the age at which it was frozen."""
        corrected = self.momentum / (1 - self.betas[0] ** self.steps)
        age = min(self.steps, self.warm_up)
        spread = (self.variance / (1 - self.betas[1] ** age)).sqrt()
        flat = parameters_to_vector(self.parameters).detach()
        flat -= self.rate * corrected / (spread + self.eps)
        vector_to_parameters(flat, self.parameters)


def train(
    warm_up: int = 20,
    steps: int = 100,
    batch_size: int = 32,
    codec: Codec | None = None,
    model: nn.Module | None = None,
    rate: float = problem.RATE,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Train by 1-bit Adam; this rank's share of each step's loss."""
    model = problem.new_model() if model is None else model
    data.broadcast_parameters(model, group)
    optimizer = OneBitAdam(model.parameters(), warm_up, rate, codec=codec, group=group)
    share = problem.loss_of_share(model, batch_size, group)
    return problem.descend(optimizer, share, steps)

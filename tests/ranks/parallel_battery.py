"""Systems of `parallel` that train: what each has to equal, and what it has to send.

Each test_parallel_*.py has rows of its own; test_parallel.py holds all of them to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector

from collectives_lab.parallel import problem

# Ranks that imported this module would import pytest too, each of them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

STEPS, BATCH = 3, 10  # 10 examples: uneven over 3, 4 and 6 ranks

Trained = tuple[list[float], torch.Tensor | None]
"""The losses that a rank knows of, and all parameters at the end, if it has them."""

Curves = Sequence[Sequence[float]]


def new_model(seed: int = 0, **sizes: int) -> nn.Sequential:
    return problem.new_model(dtype=torch.float64, seed=seed, **sizes)


PARAMETERS = list(new_model().parameters())
COUNT = sum(p.numel() for p in PARAMETERS)
S = sum(p.nbytes for p in PARAMETERS)
"""Bytes of all parameters, and of all gradients."""


def flat(model: nn.Module) -> torch.Tensor:
    return parameters_to_vector(model.parameters()).detach()


def replicated(train: Callable[..., list[float]]) -> Trained:
    """Train a copy of the model on each rank; they are made equal at the start."""
    model = new_model(seed=dist.get_rank())
    return train(steps=STEPS, batch_size=BATCH, model=model), flat(model)


def one_process(world_size: int) -> tuple[Curves, torch.Tensor]:
    """Train without ranks: the curve of losses, and the parameters at the end."""
    model = new_model()
    return [problem.train(STEPS, BATCH, model)], flat(model)


def shares_added_up(losses: Curves) -> Curves:
    return [problem.added_up(losses)]


def broadcast_and_then(step: float, world_size: int) -> list[float]:
    """Bytes that each rank sends: the parameters along a chain, and so much a step."""
    return [S + STEPS * step] * (world_size - 1) + [STEPS * step]


@dataclass(frozen=True)
class System:
    """A training on ranks that has to equal one without.

    train: what a rank does.
    world_sizes: numbers of ranks on which it is tried.
    sent: the bytes that each rank sends, by the world size.
    alone: curves of losses and the parameters that there must be, by the world size.
    curves: the ranks' losses as curves that must be those of `alone`, in turn.
    wrong: trainings that must not pass for it, on `wrong_on` ranks.
    of_losses, of_parameters: how much rounding may change them.
    """

    train: Callable[[], Trained]
    world_sizes: Sequence[int]
    sent: Callable[[int], Sequence[float]] | None = None
    alone: Callable[[int], tuple[Curves, torch.Tensor]] = one_process
    curves: Callable[[Curves], Curves] = shares_added_up
    wrong: Mapping[str, Callable[[], Trained]] = field(default_factory=dict)
    wrong_on: int = 3
    of_losses: float = 1e-12
    of_parameters: float = 1e-10
    slow: bool = False

    def agrees(self, results: Sequence[Trained]) -> bool:
        """Whether ranks have trained as without them, all alike in every bit."""
        expected, right = self.alone(len(results))
        losses, parameters = zip(*results, strict=True)
        near = self.of_parameters
        whole = [one for one in parameters if one is not None]
        return (
            all(
                list(curve) == pytest.approx(list(of_one), rel=self.of_losses)
                for curve, of_one in zip(self.curves(losses), cycle(expected))
            )
            and all(torch.equal(one, whole[0]) for one in whole)
            and all(torch.allclose(p, right, near, near) for p in whole)
        )

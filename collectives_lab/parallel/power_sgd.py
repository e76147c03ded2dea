"""PowerSGD, as PyTorch has it: a gradient travels as the product of two thin matrices.

Here: `power_sgd`, which wraps a model in DDP with PyTorch's hook; `numbers_sent`, how
many numbers the hook then sums over the ranks in a step; `train`, training with it.

    who owns what  data parallel: parameters, gradients and Adam's state on every rank;
                   and what the products left out, as many numbers as the gradient
    at the start   broadcast of the parameters from rank 0, S in all, by DDP
    warm-up        `start` steps of plain DDP: all_reduce of the gradients, S in all
    then           all_reduce of what is not worth it: vectors, and matrices whose two
                   factors are not `min_rate` times smaller
                   all_reduce of M Q for each other gradient M of (rows, columns), with
                   the Q of the step before: rows x r numbers, made orthogonal by all
                   all_reduce of M' P, columns x r numbers: M is P Q' from here on

So a matrix costs (rows + columns) r numbers in place of rows x columns, and the sums
are all_reduces as any others: factors, unlike codes and signs, can be added up. P is
the world size elsewhere; each all_reduce of n bytes sends 2 n (P-1)/P a rank.

All ranks make the sums orthogonal for themselves, and LAPACK may round by where in
memory a matrix lies. Where a gradient's rank is under r, the last columns are rounding
and nothing else, so ranks that differ there go apart without a word. Keep r well below
rows and columns.

Source: Vogels, Karimireddy and Jaggi 2019, PowerSGD, section 3 and algorithms 1 and 2;
`torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from collectives_lab.parallel import problem


class Numbers(NamedTuple):
    """The count of numbers that are summed over the ranks in a step.

    whole: of gradients that travel as they are. factors: of the two thin matrices.
    """

    whole: int
    factors: int


def numbers_sent(
    model: nn.Module, approximation_rank: int = 1, min_rate: float = 2
) -> Numbers:
    """Return what the hook sums in a step once it compresses.

    DDP alone sums all parameters.

    The rank r of a product is at most rows or columns. A gradient of more than two
    dimensions is a matrix of its first one by all others.
    """
    _check_rank(approximation_rank)
    whole = factors = 0
    for parameter in model.parameters():
        rows = parameter.shape[0]
        columns = parameter.numel() // rows
        rank = min(rows, columns, approximation_rank)
        both = (rows + columns) * rank
        if both * min_rate < parameter.numel():
            factors += both
        else:
            whole += parameter.numel()
    return Numbers(whole, factors)


def power_sgd(
    model: nn.Module,
    approximation_rank: int = 1,
    start: int = 10,
    feedback: bool = True,
    min_rate: float = 2,
    group: dist.ProcessGroup | None = None,
) -> DistributedDataParallel:
    """Wrap a model in DDP with PowerSGD from step `start` on.

    DDP averages: multiply the loss of a share by the number of ranks. feedback: add to
    the gradient what the product before left out. Raises ValueError for a rank under 1
    or a start under 2: DDP arranges its buckets anew in its second step.
    """
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    _check_rank(approximation_rank)
    if start < 2:
        raise ValueError(f"start is {start}; need 2 steps of plain DDP or more")
    wrapped = DistributedDataParallel(model, process_group=group)
    state = powerSGD_hook.PowerSGDState(
        group,
        matrix_approximation_rank=approximation_rank,
        start_powerSGD_iter=start,
        min_compression_rate=min_rate,
        use_error_feedback=feedback,
    )
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    on_cpu = next(model.parameters()).device.type == "cpu"
    setattr(powerSGD_hook, "torch", _TorchOnCpu() if on_cpu else torch)  # noqa: B010
    return wrapped


class _TorchOnCpu:
    """torch for a hook that, where there is a GPU, fails to wait for the CPU as one."""

    cuda = SimpleNamespace(is_available=lambda: False)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _check_rank(approximation_rank: int) -> None:
    if approximation_rank < 1:
        raise ValueError(f"approximation_rank is {approximation_rank}; need at least 1")


def train(
    approximation_rank: int = 1,
    start: int = 10,
    feedback: bool = True,
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Module | None = None,
    rate: float = problem.RATE,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Train by Adam on PowerSGD's sums; this rank's share of each step's loss."""
    world_size = dist.get_world_size(group)
    model = problem.new_model() if model is None else model
    wrapped = power_sgd(model, approximation_rank, start, feedback, group=group)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    share = problem.loss_of_share(wrapped, batch_size, group)
    losses = problem.descend(optimizer, lambda step: world_size * share(step), steps)
    return [loss / world_size for loss in losses]

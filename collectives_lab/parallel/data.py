"""Data parallel training: every rank has the whole model and a share of the batch.

Here: `all_reduce_each`, the plain way; `Buckets`, the same sums in few large pieces
that travel while the backward pass goes on; `train`, either of them in a loop.

    who owns what  parameters, gradients and optimizer state: all of it, on every rank
    at the start   broadcast of the parameters from rank 0, S in all
    forward        nothing is sent
    backward       all_reduce of the gradients, S in all, by parameter or by bucket:
                   each rank sends 2 S (P-1)/P
    update         nothing: equal gradients keep equal parameters equal

S is the bytes of the parameters. Source: Li et al., PyTorch Distributed, PVLDB 2020,
sections 3.2.1 (naive), 3.2.2 (buckets) and 3.2.3 (overlap).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from collectives_lab.parallel import problem


def broadcast_parameters(
    model: nn.Module, group: dist.ProcessGroup | None = None
) -> None:
    """Give all ranks the parameters of the first: averages keep what is equal equal."""
    for parameter in model.parameters():
        dist.broadcast(parameter.data, group=group, group_src=0)


def all_reduce_each(model: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Add up the gradients of all ranks, one all_reduce a parameter, after backward.

    Losses are divided by the size of the whole batch (`problem.loss`), so a sum is
    what is wanted and no mean. A parameter without a gradient takes part with zeros.
    """
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, group=group)


def flat_gradient(parameters: Iterable[nn.Parameter]) -> torch.Tensor:
    """Return all gradients in one row, zeros where the loss left a parameter out."""
    gradients = (torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
    return torch.cat([gradient.flatten() for gradient in gradients])


def set_gradient(parameters: Iterable[nn.Parameter], flat: torch.Tensor) -> None:
    """Give parameters their gradients, as views of one row."""
    parameters = list(parameters)
    parts = flat.split([p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter)


def in_buckets(
    parameters: Iterable[nn.Parameter], bucket_bytes: int
) -> list[list[nn.Parameter]]:
    """Cut a list of parameters in pieces; each ends when it holds `bucket_bytes`."""
    if bucket_bytes < 1:
        raise ValueError(f"bucket_bytes is {bucket_bytes}; need at least 1")
    buckets: list[list[nn.Parameter]] = []
    bucket_size = bucket_bytes
    for parameter in parameters:
        if bucket_size >= bucket_bytes:
            buckets.append([])
            bucket_size = 0
        buckets[-1].append(parameter)
        bucket_size += parameter.nbytes
    return buckets


class Buckets:
    """Gradients added up in buckets, each sent as soon as its last gradient is there.

    The backward pass ends with the first layer, so buckets begin with the last. Call
    `wait` after each backward(); the gradients are then views of the buckets. While a
    bucket travels its gradients are there twice. Raises RuntimeError for a second
    backward() before wait().
    """

    def __init__(
        self,
        model: nn.Module,
        bucket_bytes: int = 25 * 2**20,
        group: dist.ProcessGroup | None = None,
    ):
        self.group = group
        parameters = [p for p in model.parameters() if p.requires_grad]
        self.buckets = in_buckets(parameters[::-1], bucket_bytes)
        self.number = {p: k for k, bucket in enumerate(self.buckets) for p in bucket}
        self._begin()
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def _begin(self) -> None:
        self.missing = [set(bucket) for bucket in self.buckets]
        self.under_way: list[tuple[torch.Tensor, dist.Work]] = []

    def _arrived(self, parameter: torch.Tensor) -> None:
        missing = self.missing[self.number[parameter]]  # type: ignore[index]
        if parameter not in missing:
            raise RuntimeError(
                f"rank {dist.get_rank()}: a second gradient for a parameter of shape "
                f"{tuple(parameter.shape)}, whose first is being added up; call wait() "
                "after each backward()"
            )
        missing.remove(parameter)  # type: ignore[arg-type]
        # In the order of the buckets, whatever is ready first: so do all ranks.
        while self._next() < len(self.buckets) and not self.missing[self._next()]:
            self._send()

    def _next(self) -> int:
        return len(self.under_way)

    def _send(self) -> None:
        bucket = flat_gradient(self.buckets[self._next()])
        work = dist.all_reduce(bucket, group=self.group, async_op=True)
        self.under_way.append((bucket, work))

    def wait(self) -> None:
        """Wait for all buckets; those that the loss has not filled go first."""
        while self._next() < len(self.buckets):
            self._send()
        for parameters, (bucket, work) in zip(
            self.buckets, self.under_way, strict=True
        ):
            work.wait()
            set_gradient(parameters, bucket)
        self._begin()


def train(
    steps: int = 100,
    batch_size: int = 32,
    bucket_bytes: int | None = None,
    model: nn.Module | None = None,
    rate: float = problem.RATE,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Train by Adam, each rank on its share; this rank's share of each step's loss.

    bucket_bytes: the size of the buckets; None for an all_reduce a parameter.
    """
    model = problem.new_model() if model is None else model
    broadcast_parameters(model, group)
    buckets = None if bucket_bytes is None else Buckets(model, bucket_bytes, group)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    share = problem.loss_of_share(model, batch_size, group)
    between = buckets.wait if buckets else partial(all_reduce_each, model, group)
    return problem.descend(optimizer, share, steps, between)

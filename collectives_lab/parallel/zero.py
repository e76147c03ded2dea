"""ZeRO: data parallel training in which each rank owns a part of what all would copy.

Here: `Zero1`, `Zero2` and `Zero3`, each a model and its Adam in parts; `train`;
`Unit`, parameters that travel together as one flat tensor cut into P equal parts; and
`held`, what a rank keeps of these and of PyTorch's own.

    S bytes of     kept by each rank                       sent by each rank, (P-1)/P of
    parameters     parameters  gradients  Adam's state     forward  backward  update
    data parallel  S           S          2 S                       2 S
    ZeRO-1         S           S          2 S/P                     S         S
    ZeRO-2         S           S/P        2 S/P                     S         S
    ZeRO-3         S/P         S/P        2 S/P            S        S + S

    ZeRO-1  after the backward pass reduce_scatter: the owner of a part has the sum of
            its gradients; it updates its part; all_gather of the parameters
    ZeRO-2  the same layer by layer, as soon as a layer's gradients are there, so that
            nobody keeps more than one layer's
    ZeRO-3  all_gather of a layer's parameters before its forward pass and again before
            its backward pass, forgotten after each; nothing is left to gather after
            the update

S counts what fills up the last part, at most P - 1 numbers a unit. The state of Adam
is two moments; of its step counters we do not speak. Source: Rajbhandari et al., ZeRO,
SC 2020, sections 5 (what is kept) and 7 (what is sent).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from collectives_lab.parallel import problem


class Unit:
    """The parameters of a module as one flat tensor; each rank owns a P-th of it.

    whole: all of them, and zeros that fill up the last part; the module's parameters
    are views of it. own: the part of this rank, a parameter for its optimizer, and a
    view of `whole` as well.
    """

    def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None):
        self.group = group
        self.parameters = list(module.parameters())
        self.sizes = [p.numel() for p in self.parameters]
        world_size = dist.get_world_size(group)
        part = -(-sum(self.sizes) // world_size)
        self.whole = self.parameters[0].new_zeros(world_size * part).detach()
        for parameter, view in self._views(self.whole):
            view.copy_(parameter.data)
            parameter.data = view
        self.own = nn.Parameter(self.parts(self.whole)[dist.get_rank(group)])

    def parts(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Return a flat tensor as P views, by owner."""
        return list(flat.chunk(dist.get_world_size(self.group)))

    def _views(self, flat: torch.Tensor) -> Iterator[tuple[nn.Parameter, torch.Tensor]]:
        pieces = flat[: sum(self.sizes)].split(self.sizes)
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            yield parameter, piece.view_as(parameter)

    def gather(self) -> None:
        """Complete the parameters from their owners: each rank sends S (P-1)/P."""
        dist.all_gather(self.parts(self.whole), self.own.detach(), group=self.group)

    def reduce(self) -> None:
        """Add up the gradients, each part at its owner: each rank sends S (P-1)/P.

        Meanwhile they are there twice. What the owner has already is added to.
        """
        flat = torch.zeros_like(self.whole)
        for parameter, view in self._views(flat):
            if parameter.grad is not None:
                view.copy_(parameter.grad)
        total = torch.empty_like(self.own)
        dist.reduce_scatter(total, self.parts(flat), group=self.group)
        self.own.grad = total if self.own.grad is None else self.own.grad + total

    def forget_gradients(self) -> None:
        """Free the gradients of full size."""
        for parameter in self.parameters:
            parameter.grad = None

    def keep_apart(self) -> None:
        """Give one's own part memory of its own, so that the whole can be released."""
        self.own.data = self.own.data.clone()
        self.release()

    def release(self) -> None:
        """Free the memory of the whole; what views it is empty until it is restored."""
        self.whole.untyped_storage().resize_(0)

    def restore(self) -> None:
        """Take memory for the whole again and gather the parameters into it."""
        storage = self.whole.untyped_storage()
        if not storage.nbytes():
            storage.resize_(self.whole.nbytes)
            self.gather()


class Held(NamedTuple):
    """Bytes that a rank holds, by kind."""

    parameters: int
    gradients: int
    optimizer: int


class Zero1:
    """Optimizer state in parts; parameters and gradients on every rank.

    model: the same on all ranks; its parameters become views of the units. Call
    `zero_grad`, then backward() of this rank's share of the loss, then `step`; the
    gradients of several backward() add up.
    """

    def __init__(
        self,
        model: nn.Sequential,
        rate: float = problem.RATE,
        group: dist.ProcessGroup | None = None,
    ):
        self.model = model
        self.units = [Unit(module, group) for module in self._modules()]
        own = [unit.own for unit in self.units]
        self.optimizer = torch.optim.Adam(own, lr=rate)
        self._register_hooks()

    def _modules(self) -> Iterable[nn.Module]:
        return [self.model]

    def _register_hooks(self) -> None:
        """Register what is called during the passes; ZeRO-1 needs nothing there."""

    def zero_grad(self) -> None:
        """Forget the gradients of the step before."""
        self.optimizer.zero_grad()
        for unit in self.units:
            unit.forget_gradients()

    def step(self) -> None:
        """Update the parameters: a sum to its owner, its update, and back to all."""
        for unit in self.units:
            unit.reduce()
        self.optimizer.step()
        for unit in self.units:
            unit.own.grad = None
            unit.gather()

    def held(self) -> Held:
        """Return what this rank keeps, counted by the memory behind its tensors."""
        return held(self.model, self.optimizer)


class Zero2(Zero1):
    """Gradients in parts, too: a layer's are summed as soon as they are there.

    A unit is a layer of the model. Every parameter must take part in the loss.
    """

    def _register_hooks(self) -> None:
        for unit in self.units:
            for parameter in unit.parameters:
                parameter.register_post_accumulate_grad_hook(
                    lambda _, unit=unit: self._arrived(unit)
                )

    def _modules(self) -> Iterable[nn.Module]:
        return self.model.children()

    def _arrived(self, unit: Unit) -> None:
        if all(p.grad is not None for p in unit.parameters):
            self._complete(unit)

    def _complete(self, unit: Unit) -> None:
        unit.reduce()
        unit.forget_gradients()

    def step(self) -> None:
        """Update the own parts, then gather the parameters."""
        self._update()
        for unit in self.units:
            unit.gather()

    def _update(self) -> None:
        for layer, unit in enumerate(self.units):
            if unit.own.grad is None:
                raise RuntimeError(
                    f"rank {dist.get_rank()}: layer {layer} has no gradients; every "
                    "parameter must take part in the loss before step()"
                )
        self.optimizer.step()


class Zero3(Zero2):
    """Parameters in parts, too: a layer's are gathered when it needs them.

    Meanwhile the memory of the others is free, although autograd has saved views of
    it: they are whole again when the backward pass reaches the layer. Once the last
    gradient of a layer is there, nothing wants its parameters any more.
    """

    def _register_hooks(self) -> None:
        super()._register_hooks()
        for unit, layer in zip(self.units, self.model.children(), strict=True):
            unit.keep_apart()
            layer.register_forward_pre_hook(lambda *_, unit=unit: unit.restore())
            layer.register_forward_hook(
                lambda _, inputs, output, unit=unit: self._passed(unit, output)
            )

    def _passed(self, unit: Unit, output: torch.Tensor) -> None:
        unit.release()
        if output.requires_grad:
            # Called with the output's gradient, before the layer's backward pass.
            output.register_hook(lambda _: unit.restore())

    def _complete(self, unit: Unit) -> None:
        super()._complete(unit)
        unit.release()

    def step(self) -> None:
        """Update the own parts; the next forward pass gathers them."""
        self._update()


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> Held:
    """Return what this rank keeps of a model and its optimizer, PyTorch's own too.

    What an optimizer owns beside the model's parameters counts, of a DTensor the part
    of this rank. The state is that of tensors with a dimension, not of step counters.
    """
    inner = getattr(optimizer, "optim", optimizer)  # of a ZeroRedundancyOptimizer
    own = [p for group in inner.param_groups for p in group["params"]]
    parameters = [*model.parameters(), *own]
    states = inner.state.values()
    return Held(
        nbytes(map(_local, parameters)),
        nbytes(_local(p.grad) for p in parameters if p.grad is not None),
        nbytes(_local(t) for state in states for t in state.values() if t.dim()),
    )


def _local(tensor: torch.Tensor) -> torch.Tensor:
    # By its method: to import DTensor takes longer than to import all of `parallel`.
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def nbytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of memory behind these tensors; what they share counts once."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({s.data_ptr(): s.nbytes() for s in storages if s.nbytes()}.values())


STAGES = {1: Zero1, 2: Zero2, 3: Zero3}


def train(
    stage: int,
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Sequential | None = None,
    rate: float = problem.RATE,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Train by ZeRO-1, 2 or 3; this rank's share of each step's loss."""
    if stage not in STAGES:
        raise ValueError(f"stage={stage!r}; ZeRO has the stages 1, 2 and 3")
    model = problem.new_model() if model is None else model
    zero = STAGES[stage](model, rate, group)
    share = problem.loss_of_share(model, batch_size, group)
    return problem.descend(zero, share, steps)

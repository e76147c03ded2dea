"""Pipeline parallelism: the model cut into stages, the batch into micro-batches.

Here: `cut`, the layers of one stage; `step`, which takes a schedule of
`parallel.schedules` (`gpipe`, `one_f_one_b` or one of your own) through on real ranks;
and `with_computing`, the trace of the run with what each rank computed in it.

Who owns what: rank r of P holds the layers of stage r, their gradients and their
optimizer's state. Every rank is given the batch; the first stage uses its inputs, the
last one its targets, the others only its length.

What is sent, for each of m micro-batches, where A is the bytes of a whole batch's
activations at a border between stages:

    forward    the activations, A/m bytes    rank r -> r+1   send, recv
    backward   their gradient, A/m bytes     rank r+1 -> r   send, recv

So in a step an inner rank sends 2 A, the first and the last one A, 2 m messages a
border, however large the model is. The gradients of the parameters stay where they are.
Micro-batches may differ by one example. Sources: Huang et al. 2019, GPipe, section 2;
Narayanan et al. 2021, Efficient Large-Scale Language Model Training, section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from collectives_lab import recorder
from collectives_lab.basics import devices
from collectives_lab.parallel import problem
from collectives_lab.parallel.problem import Batch
from collectives_lab.parallel.schedules import (
    Action,
    Schedule,
    compute_event,
    micro_batches,
    source,
    target,
)
from collectives_lab.trace import Trace

Loss = Callable[[Callable[[torch.Tensor], torch.Tensor], Batch, int], torch.Tensor]
"""As `problem.loss`: of a model, a share of the batch, and the batch's examples."""


class Computed(NamedTuple):
    """An action and when it was computed, in seconds from the rank's first call."""

    action: Action
    begin: float
    end: float


@dataclass(frozen=True)
class Step:
    """The log of one rank's step.

    loss: of the batch, on the last stage; None on the others. peak: the most
    micro-batches whose activations were kept at once. computed: all actions in order.
    """

    loss: float | None
    peak: int
    computed: list[Computed]


def cut(model: nn.Sequential, stages: int, stage: int) -> nn.Sequential:
    """Return the layers of one stage: neighbours, shared as evenly as `tensor_split`
    does.

    They are the model's own. Raises ValueError for a stage without a layer.
    """
    if not 0 <= stage < stages <= len(model):
        raise ValueError(
            f"stage {stage} of {stages} of a model with {len(model)} layers; need "
            "0 <= stage < stages, and a layer for each stage"
        )
    own_layers = torch.arange(len(model)).tensor_split(stages)[stage].tolist()
    return nn.Sequential(*list(model)[own_layers[0] : own_layers[-1] + 1])


def step(
    stage: nn.Module,
    examples: Batch,
    schedule: Schedule,
    shape: Sequence[int],
    loss: Loss = problem.loss,
    group: dist.ProcessGroup | None = None,
    ahead: bool = False,
) -> Step:
    """Add the gradients of one batch to the stage's parameters; all ranks call it.

    stage: this rank's layers. examples: the whole batch. shape: of one example of what
    stages hand on, the same at every border. loss: of a micro-batch, so that those of
    all micro-batches add up to the batch's. ahead: post each receive while the action
    before it is computed, instead of after it. A send is waited for only when its
    gradient has come, or at the end: two stages that send to each other and wait would
    wait for ever. Raises ValueError for a schedule, a batch or a shape that does not
    fit, and for a group of NCCL's; a schedule in which stages wait in a circle ends in
    a Deadlock.
    """
    devices.refuse_nccl(group, 'pass group=dist.new_group(backend="gloo")')
    worker = _Worker(stage, examples, schedule, tuple(shape), loss, group)
    actions = schedule[worker.stage]
    for i, action in enumerate(actions):
        worker.post(action)
        if ahead and i + 1 < len(actions):
            worker.post(actions[i + 1])
        worker.do(action)
    for work, _ in worker.sent.values():
        work.wait()
    return Step(worker.loss_sum, worker.peak, worker.computed())


class _Worker:
    """One stage while it goes through its actions.

    kept: by micro-batch, what came in and what went out, for the backward pass. posted,
    sent: works under way with their tensors, which must live until they end.
    """

    def __init__(
        self,
        module: nn.Module,
        examples: Batch,
        schedule: Schedule,
        shape: tuple[int, ...],
        loss: Loss,
        group: dist.ProcessGroup | None,
    ):
        self.stage, self.stages = dist.get_rank(group), dist.get_world_size(group)
        self.module, self.shape, self.group = module, shape, group
        self.loss, self.rows = loss, len(examples.inputs)
        micro = micro_batches(schedule)
        if len(schedule) != self.stages or micro > self.rows:
            raise ValueError(
                f"rank {self.stage}: the schedule is for {len(schedule)} stages and "
                f"{micro} micro-batches, with {self.stages} ranks and {self.rows} "
                "examples; need a rank for each stage and an example for each "
                "micro-batch"
            )
        self.parts = [examples.share(m, micro) for m in range(micro)]
        parameters = (p.dtype for p in module.parameters())
        self.dtype = next(parameters, torch.get_default_dtype())
        self.kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.posted: dict[Action, tuple[Any, torch.Tensor]] = {}
        self.sent: dict[Action, tuple[Any, torch.Tensor]] = {}
        self.notes: list[Computed] = []
        self.loss_sum = 0.0 if self.stage == self.stages - 1 else None
        self.peak = 0

    def do(self, action: Action) -> None:
        """Receive what the action needs, compute it, and send on what comes out."""
        received = self.received(action)
        if received is not None and action[0] == "B":
            self.sent.pop(("F", action[1]))[0].wait()  # ended: its gradient has come
        begin = recorder.now()
        produced = (self.forward if action[0] == "F" else self.backward)(
            action[1], received
        )
        self.notes.append(Computed(action, begin, recorder.now()))
        self.send(action, produced)

    def forward(self, m: int, received: torch.Tensor | None) -> torch.Tensor:
        part = self.parts[m]
        x = part.inputs if received is None else received.requires_grad_()
        if self.loss_sum is None:
            y = self.module(x)
        else:
            y = self.loss(lambda _: self.module(x), part, self.rows)
            self.loss_sum += y.item()
        self.kept[m] = x, y
        self.peak = max(self.peak, len(self.kept))
        return y.detach()

    def backward(self, m: int, received: torch.Tensor | None) -> torch.Tensor | None:
        x, y = self.kept.pop(m)
        y.backward(received)
        return x.grad

    def post(self, action: Action) -> None:
        """Be ready to receive what the action needs, if it needs anything."""
        src = source(action, self.stage, self.stages)
        if src is None or action in self.posted:
            return
        m = action[1]
        inputs = self.parts[m].inputs
        shape = (len(inputs), *self.shape)
        buffer = torch.empty(shape, dtype=self.dtype, device=inputs.device)
        work = dist.irecv(buffer, self._rank(src), self.group, tag=m)
        self.posted[action] = work, buffer

    def received(self, action: Action) -> torch.Tensor | None:
        if action not in self.posted:
            return None
        work, buffer = self.posted.pop(action)
        work.wait()
        return buffer

    def send(self, action: Action, tensor: torch.Tensor | None) -> None:
        """Send what an action gave to the stage that needs it, if one does."""
        dst = target(action, self.stage, self.stages)
        if dst is None:
            return
        assert tensor is not None
        if tensor.shape[1:] != self.shape:
            raise ValueError(
                f"rank {self.stage}: its stage gives {tuple(tensor.shape[1:])} for an "
                f"example; need {self.shape}, the shape that stages hand on"
            )
        tensor = tensor.contiguous()
        work = dist.isend(tensor, self._rank(dst), self.group, tag=action[1])
        self.sent[action] = work, tensor

    def _rank(self, stage: int) -> int:
        return stage if self.group is None else dist.get_global_rank(self.group, stage)

    def computed(self) -> list[Computed]:
        """Return the notes, with time from the first call that this rank recorded."""
        seen = recorder.current()
        first = seen.records[0].issued if seen and seen.records else self.notes[0].begin
        return [Computed(a, begin - first, end - first) for a, begin, end in self.notes]


def with_computing(
    trace: Trace,
    steps: Sequence[Sequence[Step]],
    seconds: Mapping[str, float] | None = None,
) -> Trace:
    """Put what was computed into the trace of a run, as `compute` events.

    steps: by rank, what its calls of `step` returned. seconds: `{"F": 1, "B": 2}` to
    say how long each takes in a replay, None for what it took. Raises ValueError unless
    there are steps of every rank.
    """
    if len(steps) != trace.world_size:
        raise ValueError(
            f"steps of {len(steps)} ranks for a trace of {trace.world_size}; need a "
            "list of steps for each rank"
        )
    events = []
    for rank, done in enumerate(steps):
        calls = trace.of_rank(rank)
        first = (calls[0].issued if calls else None) or 0.0
        computes = [
            compute_event(
                rank,
                action,
                first + begin,
                end - begin if seconds is None else seconds[action[0]],
                first + end,
            )
            for one in done
            for action, begin, end in one.computed
        ]
        events += sorted(calls + computes, key=lambda event: event.issued or 0.0)
    return Trace.from_events(
        events, trace.world_size, trace.groups, trace.wire, trace.meta
    )

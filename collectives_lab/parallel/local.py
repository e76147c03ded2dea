"""Local updates: ranks train alone for many steps, then agree on what they have learnt.

Here: `DiLoCo`, with its streaming and overlapped variants; `schedule`, which part of
the model begins and ends its synchronisation after a step; `train`, training with it.

    who owns what  every rank: its own copy of the parameters and its own inner Adam,
                   which nobody else ever sees; the parameters last agreed on and the
                   outer momentum, the same on all ranks
    at the start   broadcast of the parameters from rank 0, S in all
    inner step     nothing is sent: AdamW on the rank's own share of the batch
    every H steps  all_reduce of (agreed - own), S in all; its mean is a gradient for
                   the outer optimizer, SGD with Nesterov momentum, which moves what is
                   agreed on; every rank goes on from there

Each rank sends 2 S (P-1)/P every H steps, so 2 S (P-1)/P / H a step: H times less than
data parallelism. Two variants do not change the sum of the bytes, but when they go:

    streaming      fragments of the model take turns, so that a step sends at most a
                   fragment and not S at once
    overlapped     the all_reduce is waited for some steps after it was begun, so that
                   a slow network has that long; the average is then `delay` steps old,
                   and the rank mixes it with what it has learnt meanwhile

S is the bytes of the parameters. Sources: Douillard et al. 2023, DiLoCo, algorithm 1;
Douillard et al. 2025, Streaming DiLoCo, section 2 (streaming, overlap, mixing); Stich
2019, Local SGD Converges Fast and Communicates Little (the mean of the parameters).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from collectives_lab.parallel import data, problem


def schedule(
    step: int, every: int, fragments: int = 1, delay: int = 0
) -> tuple[list[int], list[int]]:
    """Return which fragments begin and which end their synchronisation after a step,
    from 1.

    Each begins once in `every` steps; their turns are spread evenly, and the last one's
    is with the last step. It ends `delay` steps later. Raises ValueError for what
    cannot be.
    """
    if every < 1 or fragments < 1:
        raise ValueError(
            f"every is {every}, fragments {fragments}; need 1 step or more between the "
            "synchronisations of 1 fragment or more"
        )
    if not 0 <= delay < every:
        raise ValueError(
            f"delay is {delay}, every {every}; need 0 <= delay < every: a fragment's "
            "synchronisation ends before its next one begins"
        )
    turns = [(k + 1) * every // fragments % every for k in range(fragments)]

    def due(step: int) -> list[int]:
        return [k for k, turn in enumerate(turns) if step > 0 and step % every == turn]

    return due(step), due(step - delay)


class Fragment:
    """A part of the model that is synchronised by itself.

    agreed: its parameters in one row, the same on all ranks. difference: how far this
    rank has come from there, and its sum over all ranks once the all_reduce has ended.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        rate: float,
        momentum: float,
        group: dist.ProcessGroup | None = None,
    ):
        self.parameters = list(parameters)
        self.group = group
        self.agreed = parameters_to_vector(self.parameters).detach().clone()
        self.outer = torch.optim.SGD(
            [self.agreed], lr=rate, momentum=momentum, nesterov=momentum > 0
        )
        self.difference = torch.empty_like(self.agreed)
        self.work: dist.Work | None = None

    def begin(self) -> None:
        """Begin to add up what all ranks have learnt: each sends 2 S (P-1)/P."""
        own = parameters_to_vector(self.parameters).detach()
        self.difference = self.agreed - own
        self.work = dist.all_reduce(self.difference, group=self.group, async_op=True)

    def end(self, keep: float = 0.0) -> None:
        """Wait for the sum, move what is agreed on, and go on from there.

        keep: the weight of this rank's own parameters in what it goes on from.
        """
        if self.work is None:
            raise RuntimeError(f"rank {dist.get_rank()}: end() needs a begin() before")
        self.work.wait()
        self.work = None
        self.agreed.grad = self.difference / dist.get_world_size(self.group)
        self.outer.step()
        self.load(keep)

    def load(self, keep: float = 0.0) -> None:
        """Take what is agreed on into the model."""
        own = parameters_to_vector(self.parameters).detach()
        vector_to_parameters(self.agreed.lerp(own, keep), self.parameters)


class DiLoCo:
    """Ranks that agree on their parameters every H steps, a fragment at a time.

    Call `step` after each step of the inner optimizer, and `finish` at the end. All
    ranks must start with the same parameters (`data.broadcast_parameters`).
    """

    def __init__(
        self,
        fragments: Sequence[Iterable[nn.Parameter]],
        every: int,
        rate: float = 0.7,
        momentum: float = 0.9,
        delay: int = 0,
        keep: float = 0.0,
        group: dist.ProcessGroup | None = None,
    ):
        """Take the parameters of each fragment; `[model.parameters()]` is plain DiLoCo.

        every: H. rate, momentum: of the outer SGD, the paper's; 1 and 0 average the
        parameters, Local SGD.
        delay: steps from the beginning of an all_reduce to its end. keep: the weight of
        a rank's own parameters when the average comes; Streaming DiLoCo takes a half,
        and with 0 what was learnt during the delay is lost. Raises ValueError for what
        cannot be.
        """
        schedule(1, every, len(fragments), delay)
        if not 0 <= keep < 1:
            raise ValueError(f"keep is {keep}; need 0 <= keep < 1")
        self.every, self.delay, self.keep = every, delay, keep
        self.fragments = [Fragment(f, rate, momentum, group) for f in fragments]
        self.steps = 0

    def step(self) -> None:
        """Begin and end what is due after this inner step."""
        self.steps += 1
        count = len(self.fragments)
        begins, ends = schedule(self.steps, self.every, count, self.delay)
        for number in begins:
            self.fragments[number].begin()
        for number in ends:
            self.fragments[number].end(self.keep)

    def finish(self) -> None:
        """End what is under way, and take what is agreed on: the same on all ranks.

        What a rank has learnt since a fragment's last turn is given up.
        """
        for fragment in self.fragments:
            if fragment.work is not None:
                fragment.end()
            fragment.load()


def train(
    every: int = 10,
    fragments: int = 1,
    delay: int = 0,
    keep: float = 0.0,
    steps: int = 100,
    batch_size: int = 32,
    rate: float = problem.RATE,
    outer_rate: float = 0.7,
    outer_momentum: float = 0.5,
    model: nn.Sequential | None = None,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Train by DiLoCo on shares of the batch; this rank's share of each step's loss.

    fragments: the model's layers in so many runs of neighbours. rate: of the inner
    AdamW. outer_momentum: the paper's 0.9 remembers ten synchronisations, more than a
    training of a hundred steps can use. Raises ValueError for fewer examples than
    ranks: everybody trains alone, so everybody needs some.
    """
    place = rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    if batch_size < world_size:
        raise ValueError(
            f"rank {rank}: a batch of {batch_size} examples for {world_size} ranks; "
            "need 1 or more for each, which it trains on alone"
        )
    model = problem.new_model() if model is None else model
    data.broadcast_parameters(model, group)
    inner = torch.optim.AdamW(model.parameters(), lr=rate)
    parts = in_fragments(model, fragments)
    outer = DiLoCo(parts, every, outer_rate, outer_momentum, delay, keep, group)

    def own(step: int) -> torch.Tensor:
        return problem.loss(model, problem.batch(step, batch_size).share(*place))

    losses = problem.descend(inner, own, steps, after=outer.step)
    outer.finish()
    count = len(problem.batch(0, batch_size).share(*place).inputs)
    return [loss * count / batch_size for loss in losses]


def in_fragments(model: nn.Sequential, fragments: int) -> list[list[nn.Parameter]]:
    """Return the parameters of a model's layers, in so many runs of neighbours.

    They differ by one layer at most. Raises ValueError for more fragments than layers.
    """
    if not 1 <= fragments <= len(model):
        raise ValueError(
            f"{fragments} fragments of {len(model)} layers; need 1 <= fragments <= "
            "layers"
        )
    layers = list(model)
    starts = [k * len(layers) // fragments for k in range(fragments + 1)]
    return [
        [p for layer in layers[begin:end] for p in layer.parameters()]
        for begin, end in pairwise(starts)
    ]

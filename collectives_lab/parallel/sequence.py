"""Sequence parallelism: tensor parallelism whose vectors are split by tokens meanwhile.

Here: `sequence_parallel`, a model in parts; `add_up_norms`, what it needs after the
backward pass; `train`.

    who owns what  the parts of `tensor`; between the pairs of layers, where norms and
                   sums go letter by letter, each rank has a P-th of every example's
                   letters: a P-th of the memory for x
    forward        before a pair and before the logits all_gather of x; behind the
                   embedding and behind a pair reduce_scatter
    backward       the other way round: reduce_scatter before a pair, all_gather behind
    then           all_reduce of the norms' gradients, of which each rank has the term
                   of its own letters
    update         nothing

An all_reduce is cut in its two halves, and each half moves to where x is needed whole:
all_gather and reduce_scatter together send what one all_reduce sends. P must divide
`problem.LENGTH`. Source: Korthikanti et al., Reducing activation recomputation in large
transformer models, 2022, section 4.2.2.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from collectives_lab.parallel import data, problem, vocabulary
from collectives_lab.parallel.conjugates import Gather, Group, Scatter
from collectives_lab.parallel.tensor import Split, cut

LETTERS = 1
"""The dim of x along which it is split: x is (examples, letters, width)."""


def sequence_parallel(model: nn.Sequential, group: Group = None) -> nn.Sequential:
    """Return this rank's part of a `problem.new_model`.

    It gives the logits of own letters.

    Call `add_up_norms` after the backward pass.
    """
    return cut(
        model,
        enter=lambda x: Gather.apply(x, LETTERS, group),
        leave=lambda x: Scatter.apply(x, LETTERS, group),
        group=group,
    )


def add_up_norms(model: nn.Module, group: Group = None) -> None:
    """Add up the gradients of what every rank has: one all_reduce, of all norms."""
    split = {
        parameter
        for module in model.modules()
        if isinstance(module, Split)
        for parameter in module.parameters()
    }
    everywhere = [p for p in model.parameters() if p not in split]
    flat = data.flat_gradient(everywhere)
    dist.all_reduce(flat, group=group)
    data.set_gradient(everywhere, flat)


def train(
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Sequential | None = None,
    rate: float = problem.RATE,
    group: Group = None,
) -> list[float]:
    """Train by Adam, all ranks on the same batch; each step's loss, on all ranks."""
    whole = problem.new_model() if model is None else model
    own_part = sequence_parallel(whole, group)
    optimizer = torch.optim.Adam(own_part.parameters(), lr=rate)

    def loss(step: int) -> torch.Tensor:
        return vocabulary.loss(own_part, problem.batch(step, batch_size), group=group)

    return problem.descend(
        optimizer, loss, steps, lambda: add_up_norms(own_part, group)
    )

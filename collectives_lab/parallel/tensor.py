"""Tensor parallelism: every layer in parts, each rank computes with its own.

Here: `columns` and `rows` of a linear layer; `heads` of an attention and `hidden` units
of an MLP; `tensor_parallel`, a whole model in parts; `train`.

    who owns what  columns of the first matrix of a pair and the matching rows of the
                   second, that is whole heads and whole hidden units; rows of the
                   embedding and the logits of as many letters. Every rank has the
                   norms, the batch and x, the vectors between the layers
    forward        an all_reduce of x behind the embedding and behind each pair, two a
                   block; in the loss one number a letter, then two
    backward       an all_reduce of the gradient of x before each pair and before the
                   logits
    update         nothing: each rank updates its parts, and the norms, whose gradients
                   are the same everywhere

A column is an output of a layer and a row an input: x A in print, where torch keeps the
transpose. Uneven parts are right. Source: Shoeybi et al., Megatron-LM, 2019, section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from collectives_lab.parallel import problem, vocabulary
from collectives_lab.parallel.conjugates import Copy, Group, Sum
from collectives_lab.parallel.vocabulary import Rows, share

Verb = Callable[[torch.Tensor], torch.Tensor]


def columns(linear: nn.Linear, part: slice) -> nn.Linear:
    """Return the layer that gives only these outputs."""
    bias = None if linear.bias is None else linear.bias[part]
    return _linear(linear.weight[part], bias)


def rows(linear: nn.Linear, part: slice) -> nn.Linear:
    """Return the layer that takes only these inputs: a term of a sum, without the
    bias.
    """
    return _linear(linear.weight[:, part], None)


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer


class Split(nn.Module):
    """This rank's part of some layers, between the verbs that enter and leave them."""

    def __init__(self, part: nn.Module, enter: Verb | None, leave: Verb | None):
        super().__init__()
        self.part = part
        self.enter = enter
        self.leave = leave

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.enter is None else self.enter(x)
        y = self.part(x)
        return y if self.leave is None else self.leave(y)


def heads(attention: problem.Attention, group: Group = None) -> problem.Attention:
    """Return this rank's heads: columns of query, key and value, and rows of out."""
    own = share(attention.heads, "heads", group)
    width = attention.query.out_features // attention.heads
    part = slice(own.start * width, own.stop * width)
    own_part = copy.deepcopy(attention)
    own_part.heads = own.stop - own.start
    own_part.query, own_part.key, own_part.value = (
        columns(layer, part) for layer in (own_part.query, own_part.key, own_part.value)
    )
    own_part.out = rows(own_part.out, part)
    return own_part


def hidden(mlp: problem.MLP, group: Group = None) -> problem.MLP:
    """Return this rank's hidden units: columns of up and rows of down."""
    part = share(mlp.up.out_features, "hidden units", group)
    own_part = copy.deepcopy(mlp)
    own_part.up, own_part.down = columns(own_part.up, part), rows(own_part.down, part)
    return own_part


def tensor_parallel(model: nn.Sequential, group: Group = None) -> nn.Sequential:
    """Return this rank's part of a `problem.new_model`.

    It gives the logits of own letters.

    The model is the same on all ranks, and is left as it is. Raises ValueError for more
    ranks than heads.
    """
    return cut(
        model,
        enter=lambda x: Copy.apply(x, group),
        leave=lambda x: Sum.apply(x, group),
        group=group,
    )


def cut(
    model: nn.Sequential, enter: Verb, leave: Verb, group: Group = None
) -> nn.Sequential:
    """Return this rank's part of a model, with these verbs before and behind each
    pair.
    """
    own_part: Any = copy.deepcopy(model)
    embedding, *blocks, head = own_part
    for name in ("tokens", "positions"):
        table = getattr(embedding, name)
        own = share(table.num_embeddings, name, group)
        setattr(embedding, name, Rows(table, own))
    for block in blocks:
        block.attention = Split(heads(block.attention, group), enter, leave)
        block.mlp = Split(hidden(block.mlp, group), enter, leave)
    letters = share(head.logits.out_features, "letters", group)
    head.logits = Split(columns(head.logits, letters), enter, None)
    own_part[0] = Split(embedding, None, leave)
    return own_part


def train(
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Sequential | None = None,
    rate: float = problem.RATE,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Train by Adam, all ranks on the same batch; each step's loss, on all ranks."""
    whole = problem.new_model() if model is None else model
    own_part = tensor_parallel(whole, group)
    optimizer = torch.optim.Adam(own_part.parameters(), lr=rate)

    def loss(step: int) -> torch.Tensor:
        return vocabulary.loss(own_part, problem.batch(step, batch_size), group=group)

    return problem.descend(optimizer, loss, steps)

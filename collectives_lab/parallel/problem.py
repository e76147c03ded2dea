"""The small real problem that every system here trains on: the next letter of a text.

Here: `corpus`, Python's help texts as numbers; `new_model`, a transformer
of some 34 000 parameters; `batch`, the examples of a step; `loss`; and `train`, the
single process that each system's curve is laid over; `added_up` makes a curve of the
losses of many ranks. Everything follows from seeds, so
all ranks can make the same model and batch without a word.

    loss   the mean over a batch of -log p(next letter); ln 128 = 4.85 at the start
    model  Sequential(Embedding, Block, Block, Head): a pipeline stage is a slice of it,
           a block's heads, hidden units and the vocabulary can be split among ranks,
           and an mlp can be replaced by experts
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from collectives_lab.basics import devices
from collectives_lab.data import shipped

VOCABULARY = 128
"""Letters: ASCII."""

LENGTH = 32
"""Letters that a prediction sees at most."""

RATE = 0.01
"""The learning rate of Adam."""


@cache
def corpus() -> torch.Tensor:
    """Return the help texts of Python 3.11, 464 473 letters of English and Python, in
    uint8.

    They ship with this package, as every version of Python has a text of its own. They
    are the PSF's; `data/python_help_license.txt` is their licence.
    """
    letters = gzip.decompress(shipped("python_help.txt.gz").read_bytes())
    return torch.frombuffer(bytearray(letters), dtype=torch.uint8)


class Batch(NamedTuple):
    """Examples: inputs and targets, int64 of (examples, LENGTH)."""

    inputs: torch.Tensor
    targets: torch.Tensor

    def share(self, index: int, count: int) -> Batch:
        """Return the part number `index` of `count`.

        Sizes differ by one example at most.
        """
        inputs, targets = (t.tensor_split(count)[index] for t in self)
        return Batch(inputs, targets)


def batch(step: int, batch_size: int = 32) -> Batch:
    """Return the examples of one step, the same on whoever asks."""
    text = corpus()
    random = torch.Generator().manual_seed(step)
    starts = torch.randint(len(text) - LENGTH, (batch_size, 1), generator=random)
    windows = text[starts + torch.arange(LENGTH + 1)].long()
    windows = windows.to(devices.own())
    return Batch(windows[:, :-1], windows[:, 1:])


class Embedding(nn.Module):
    """Letters (examples, length) -> vectors (examples, length, width)."""

    def __init__(self, width: int):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.tokens(letters) + self.positions(places)


class Attention(nn.Module):
    """Causal self-attention; `heads` is how many heads the three projections hold."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Two linear layers with a GELU between them, for each letter by itself."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """A transformer layer: vectors -> vectors of the same shape."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, bias=False)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, bias=False)
        self.mlp: nn.Module = MLP(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Head(nn.Module):
    """Vectors -> a logit for each letter of the vocabulary."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width, bias=False)
        self.logits = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits(self.norm(x))


def new_model(
    width: int = 32,
    heads: int = 4,
    blocks: int = 2,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> nn.Sequential:
    """Return a transformer, the same for the same seed; letters -> logits.

    float64 for tests of equality. Every size is a multiple of 8, so 2, 4 and 8 ranks
    share the parameters without a rest.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [Block(width, heads) for _ in range(blocks)]
        model = nn.Sequential(Embedding(width), *layers, Head(width))
    return model.to(devices.own(), dtype)


def loss(
    model: Callable[[torch.Tensor], torch.Tensor],
    examples: Batch,
    whole: int | None = None,
) -> torch.Tensor:
    """Return the sum of the cross-entropies, divided by the number of letters in the
    batch.

    whole: examples in the whole batch, of which these may be a share; without it, these
    are all. The losses of the shares add up to that of the batch, and so do their
    gradients, however uneven the shares are: a mean of means would not.
    """
    logits = model(examples.inputs)
    rows = len(examples.inputs) if whole is None else whole
    total = F.cross_entropy(
        logits.flatten(0, -2), examples.targets.flatten(), reduction="sum"
    )
    return total / (rows * examples.targets.shape[1])


def train(
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Module | None = None,
    rate: float = RATE,
) -> list[float]:
    """Train in one process by Adam; the loss of each step, before its update."""
    model = new_model() if model is None else model
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    return descend(optimizer, lambda step: loss(model, batch(step, batch_size)), steps)


class Optimizer(Protocol):
    """An optimizer: one of torch's, or of a system here."""

    def zero_grad(self) -> None:
        """Forget the gradients."""

    def step(self) -> Any:
        """Update the weights."""


def descend(
    optimizer: Optimizer,
    loss_of: Callable[[int], torch.Tensor],
    steps: int,
    between: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> list[float]:
    """Take so many steps; what `loss_of(step)` was in each, before its update.

    between: what is done with the gradients after the backward pass, before the update.
    after: what is done with the weights after it.
    """
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss_of(step)
        value.backward()
        between()
        optimizer.step()
        after()
        losses.append(value.item())
    return losses


def loss_of_share(
    model: nn.Module, batch_size: int, group: dist.ProcessGroup | None = None
) -> Callable[[int], torch.Tensor]:
    """Return the loss by step of what is this rank's of each batch; see `loss`."""
    place = dist.get_rank(group), dist.get_world_size(group)
    return lambda step: loss(model, batch(step, batch_size).share(*place), batch_size)


def added_up(shares: Sequence[Sequence[float]]) -> list[float]:
    """Return the losses of the whole batch by step, from those of the shares by
    rank.
    """
    return [sum(step) for step in zip(*shares, strict=True)]

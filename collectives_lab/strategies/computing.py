"""What a GPU computes in a step: matrices by their size, and passes over the memory.

Here you can ask for a `Pace`, the rates at which a GPU works, and what one block
(`block_work`) or the head (`head_work`) takes of it for a micro-batch, and the
optimizer for a step (`optimizer_bytes`).

A product of m x k by k x n numbers is made in tiles, each by a processor, so the last
round of tiles may leave processors idle, and it takes no less than reading and writing
its three matrices. Between products lie norms, sums, activations and, where attention
writes its scores, a softmax and a dropout. They take as long as the memory needs for
what they read and write. Backward, each product is two.

    numbers read and written, forward + backward    fused      an operation each
    norm of layers (biases), of h                   2 + 3      2 + 3
    norm of squares, of h                           2 + 3      18 + 30
    sum with what went around the pair, of h        3 + 3      3 + 3
    rotation of queries and keys                    10 + 10    10 + 10
    activation of f                                 2 + 3      2 + 3
    gated activation of f                           3 + 5      5 + 8
    softmax and dropout of scores                   4.5 + 5.5  4.5 + 5.5
    gradient of biases                              0 + 1      0 + 1
    loss, of the vocabulary                         8 + 9      8 + 9
    float8: largest number and cast of a factor     2.5        2.5

Rotations are complex products, which torch.compile leaves as they are (torchtitan issue
15), and losses are in float32, outside of what is compiled (torchtitan@9dec370,
train.py). Sources: tiles and rounds, NVIDIA, Matrix multiplication background user
guide; the passes are counted, those of Megatron-LM after Korthikanti et al. 2022,
figure 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from collectives_lab.strategies.clusters import Cluster
from collectives_lab.strategies.strategy import Strategy

TILES = ((128, 256), (256, 128), (128, 128))
MASK_AND_LARGEST = 2.5
"""Numbers of 2 bytes that a cast to float8 reads and writes for each: to find the
largest one, and to cast it."""


@dataclass(frozen=True)
class Pace:
    """Rates of one GPU: matrix, matrix8 and attention in operations a second, memory in
    bytes a second; processors that make tiles.
    """

    matrix: float
    matrix8: float
    attention: float
    memory: float
    processors: int

    @classmethod
    def of(cls, cluster: Cluster, matrix: float, memory: float) -> Pace:
        """Return a GPU's, with shares of the peak and of the memory's rate attained."""
        for name in ("bandwidth", "processors", "flash"):
            if not getattr(cluster, name):
                raise ValueError(
                    f"{cluster.name} says no {name}, which a forecast needs; set it in "
                    "its Cluster"
                )
        return cls(
            matrix * cluster.peak,
            matrix * (cluster.peak8 or cluster.peak),
            cluster.flash * cluster.peak,
            memory * cluster.bandwidth,
            cluster.processors,
        )


class Work(NamedTuple):
    """Seconds of a micro-batch: products of matrices and passes over the memory."""

    matrix: float = 0.0
    memory: float = 0.0

    def plus(self, other: Work, times: float = 1.0) -> Work:
        return Work(
            self.matrix + times * other.matrix, self.memory + times * other.memory
        )

    @property
    def seconds(self) -> float:
        return self.matrix + self.memory


class Passes(NamedTuple):
    """Numbers read and written, forward and backward."""

    forward: float
    backward: float


def product_seconds(m: int, n: int, k: int, pace: Pace, nbytes: int = 2) -> float:
    """Return the seconds of a product of m x k by k x n numbers of so many bytes."""
    rate = (pace.matrix8 if nbytes == 1 else pace.matrix) / pace.processors
    rounds = (
        math.ceil(math.ceil(m / a) * math.ceil(n / b) / pace.processors) * a * b
        for a, b in TILES
    )
    moved = nbytes * (m * k + k * n) + 2 * m * n
    return max(2 * k * min(rounds) / rate, moved / pace.memory)


# -- a block --------------------------------------------------------------------------


def block_work(s: Strategy, pace: Pace) -> tuple[Work, Work]:
    """Return what a block takes forward and backward, with what is computed again."""
    forward, backward = _products(s, pace)
    attention = _attention(s, pace)
    passes = Passes(*map(sum, zip(*_passes(s), strict=True)))
    scale = s.precision.activation * s.tokens / pace.memory
    between = Work(0.0, passes.forward * scale)
    ahead = forward.plus(attention[0]).plus(between)
    back = backward.plus(attention[1]).plus(Work(0.0, passes.backward * scale))
    if s.recompute == "full":
        back = back.plus(ahead)
    elif s.recompute == "alternate":
        share = sum(t.read * t.numel for t in s.model.matrices[1::2]) * 2
        back = back.plus(forward, share / s.model.block_flops).plus(between)
    elif s.attention == "scores" and s.recompute == "selective":
        back = back.plus(attention[0])
    return ahead, back


def _shapes(s: Strategy) -> Iterator[tuple[int, int, int, int]]:
    """Yield tokens, outputs, inputs and number of the products of a block, forward.

    Queries, keys and values are one product, and so are the two of a gated activation.
    """
    model, t = s.model, s.tensor
    inner = (model.query_width + 2 * model.key_width) // t
    yield s.tokens, inner, model.hidden, 1
    yield s.tokens, model.hidden, model.query_width // t, 1
    tokens, alike = s.tokens, 1
    if model.experts:
        tokens = math.ceil(s.tokens * model.top_k * s.expert / model.experts)
        alike = model.experts // s.expert
    ups = 2 if model.gated else 1
    yield tokens, ups * model.ffn // t, model.hidden, alike
    yield tokens, model.hidden, model.ffn // t, alike


def _products(s: Strategy, pace: Pace) -> tuple[Work, Work]:
    forward = backward = 0.0
    nbytes = s.precision.matrix
    for m, n, k, times in _shapes(s):
        forward += times * product_seconds(m, n, k, pace, nbytes)
        backward += times * product_seconds(m, k, n, pace, nbytes)
        backward += times * product_seconds(n, k, m, pace, nbytes)
    return Work(forward), Work(backward)


def _attention(s: Strategy, pace: Pace) -> tuple[Work, Work]:
    """Return the scores and the mixing: backward twice, and as flash once more half."""
    flash = s.attention == "flash"
    flops = s.model.attention_flops(s.sequence, causal=flash) * s.tokens / s.tensor
    if flash:
        seconds = flops / pace.attention
        return Work(seconds), Work(2.5 * seconds)
    scores = s.model.heads / s.tensor * s.sequence * s.tokens * s.precision.activation
    products = max(flops / pace.matrix, 2 * scores / pace.memory)
    ahead = Work(products, 4.5 * scores / pace.memory)
    return ahead, Work(2 * products, 5.5 * scores / pace.memory)


def _passes(s: Strategy) -> Iterator[Passes]:
    """Yield what is read and written between products, in numbers a token and rank."""
    model, t, plain = s.model, s.tensor, not s.fused
    whole = model.hidden / (t if s.sequence_parallel else 1)
    routed = max(model.top_k, 1)
    norm = Passes(2, 3) if model.biases or s.fused else Passes(18, 30)
    yield Passes(2 * norm.forward * whole, 2 * norm.backward * whole)
    yield Passes(2 * 3 * whole, 2 * 3 * whole)
    if not model.positions:
        turned = (model.query_width + model.key_width) / t
        yield Passes(10 * turned, 10 * turned)
    gated = Passes(5, 8) if plain else Passes(3, 5)
    active = gated if model.gated else Passes(2, 3)
    width = routed * model.ffn / t
    yield Passes(active.forward * width, active.backward * width)
    if model.biases:
        outputs = (model.query_width + 2 * model.key_width + model.ffn) / t
        yield Passes(0, outputs + 2 * whole)
    if s.precision.matrix == 1:
        yield _casts(s)


def _casts(s: Strategy) -> Passes:
    """Return the casts of both factors of each product."""
    forward = backward = 0.0
    for m, n, k, times in _shapes(s):
        share = times / s.tokens
        forward += share * (m * k + k * n)
        backward += share * m * n
    return Passes(MASK_AND_LARGEST * forward, MASK_AND_LARGEST * backward)


# -- the head and the optimizer --------------------------------------------------------


def head_work(s: Strategy, pace: Pace) -> tuple[Work, Work]:
    """Return what the last norm, the logits and the loss take, forward and backward."""
    m, n, k = s.tokens, s.model.vocabulary // s.tensor, s.model.hidden
    scale = s.precision.activation * m / pace.memory
    loss = Passes(8, 9)
    forward = product_seconds(m, n, k, pace)
    backward = product_seconds(m, k, n, pace) + product_seconds(n, k, m, pace)
    return (
        Work(forward, (loss.forward * n + 2 * k) * scale),
        Work(backward, (loss.backward * n + 3 * k) * scale),
    )


def accumulating_bytes(s: Strategy, numbers: int) -> float:
    """Return the bytes that adding a micro-batch's gradients to the others moves."""
    if s.micro_batches == 1 or s.fused_accumulation:
        return 0.0
    return numbers * (s.precision.parameter + 2.0 * s.precision.gradient)


def sharding_bytes(s: Strategy, numbers: int) -> float:
    """Return the bytes that FSDP moves beside its calls for a micro-batch.

    What is gathered is copied out of the call's buffer, forward and backward, and
    gradients into one, cast to the bytes that are summed. PyTorch 2.6,
    torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py.
    """
    if s.zero < 3 or not s.reshard:
        return 0.0
    parameter, gradient = s.precision.parameter, s.precision.gradient
    return numbers * (4.0 * parameter + parameter + gradient)


def optimizer_bytes(s: Strategy, numbers: int) -> float:
    """Return the bytes that updating so many parameters moves, in a step.

    State and parameters are read or written once each way; gradients are read for their
    norm and for the update, and cleared.
    """
    each = s.precision
    return numbers * (2.0 * each.optimizer + 3.0 * each.gradient + each.parameter)

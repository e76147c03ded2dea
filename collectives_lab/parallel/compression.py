"""Sums over ranks in fewer bytes: numbers travel as int8, or as nothing but signs.

Here: `Int8` and `Signs`, two ways to write numbers as bytes; `compressed_all_reduce`,
the sum of all ranks' tensors in such bytes; `Errors`, what was left out and is made up
for later; `bytes_sent`, what a sum costs; `train`, data parallel training with it.

    who owns what  data parallel: parameters, gradients and Adam's state on every rank,
                   and, with error feedback, what its messages left out: as many
                   numbers as the gradient, and a P-th of them
    at the start   broadcast of the parameters from rank 0, S in all
    forward        nothing is sent
    backward       nothing is sent
    sum, phase 1   every rank cuts its numbers in P parts and encodes each; all_to_all
                   brings the owner of a part P messages, which it decodes and adds up
                   in float: sums of codes would overflow, and scales differ
    sum, phase 2   the owner encodes the sum, and all_gather brings it to all ranks
    update         nothing: all ranks decode the same messages

Each rank sends 2 (P-1) messages of `codec.nbytes` of a part, where an all_reduce sends
2 (P-1) parts of four bytes a number. Numbers are rounded twice, and no more than twice
however many ranks there are: a ring would round at every hop. What the rounding leaves
out is lost, or with `Errors` added to the numbers of the next step.

Sources: Wang et al. 2023, ZeRO++, section 3.3 (all-to-all in place of a ring, a scale
a block); Seide et al. 2014, 1-Bit Stochastic Gradient Descent, section 3 (signs and
error feedback); Tang et al. 2021, 1-bit Adam, section 4.3 (both phases have errors).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from collectives_lab.parallel import data, problem


class Codec(Protocol):
    """A way to write numbers as bytes, and to read them again, not quite the same."""

    def nbytes(self, count: int) -> int:
        """Return the length of a message of so many numbers."""

    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return a message, in uint8, from numbers of one dimension."""

    def decode(self, message: torch.Tensor, count: int) -> torch.Tensor:
        """Return the numbers of a message, in float32.

        What follows them does not count.
        """


@dataclass(frozen=True)
class Int8:
    """A byte a number and a float32 a chunk: its greatest number is 127 scales.

    The error of a number is at most half a scale. An inf or NaN makes its chunk NaN.
    """

    chunk: int = 256

    def __post_init__(self) -> None:
        _check_chunk(self.chunk)

    def nbytes(self, count: int) -> int:
        """Return the length of a message of so many numbers."""
        return 4 * _chunks(count, self.chunk) + count

    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return all scales, then all codes."""
        rows = _rows(numbers.float(), self.chunk)
        scales = rows.abs().amax(1) / 127
        # 0 scales divide by 1: all their numbers are 0. NaN has no code but 0.
        codes = rows / scales.where(scales > 0, 1)[:, None]
        codes = codes.round().nan_to_num().clamp(-127, 127).to(torch.int8)
        codes = codes.flatten()[: len(numbers)]
        return torch.cat([scales.view(torch.uint8), codes.view(torch.uint8)])

    def decode(self, message: torch.Tensor, count: int) -> torch.Tensor:
        """Return codes times scales."""
        scales, codes = _cut(message, _chunks(count, self.chunk))
        rows = _rows(codes[:count].view(torch.int8).float(), self.chunk)
        return (rows * scales[:, None]).flatten()[:count]


@dataclass(frozen=True)
class Signs:
    """A bit a number and a float32 a chunk: the mean of its numbers without signs.

    Of all scales this one leaves out the least. There is no sign for 0: it is read as
    + scale. An inf or NaN makes its chunk inf or NaN.
    """

    chunk: int = 1024

    def __post_init__(self) -> None:
        _check_chunk(self.chunk)

    def nbytes(self, count: int) -> int:
        """Return the length of a message of so many numbers."""
        return 4 * _chunks(count, self.chunk) + -(-count // 8)

    def encode(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return all scales, then the signs, eight to a byte.

        The last byte is filled up.
        """
        sums = _rows(numbers.float().abs(), self.chunk).sum(1)
        counts = _rows(torch.ones_like(numbers), self.chunk).sum(1)
        scales = (sums / counts).float()
        bits = _rows((numbers < 0).to(torch.uint8), 8)
        packed = (bits << _places(bits)).sum(1, dtype=torch.uint8)
        return torch.cat([scales.view(torch.uint8), packed])

    def decode(self, message: torch.Tensor, count: int) -> torch.Tensor:
        """Return for each number plus or minus the scale of its chunk."""
        scales, packed = _cut(message, _chunks(count, self.chunk))
        bits = (packed[:, None] >> _places(packed)) & 1
        signs = 1 - 2 * bits.flatten()[:count].float()
        return (_rows(signs, self.chunk) * scales[:, None]).flatten()[:count]


def _places(like: torch.Tensor) -> torch.Tensor:
    return torch.arange(8, dtype=torch.uint8, device=like.device)


def _check_chunk(chunk: int) -> None:
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; need 1 or more numbers a scale")


def _chunks(count: int, chunk: int) -> int:
    return -(-count // chunk)


def _rows(numbers: torch.Tensor, width: int) -> torch.Tensor:
    """Return numbers in rows of this width; zeros fill up the last one."""
    filled = F.pad(numbers, (0, -len(numbers) % width))
    return filled.view(len(filled) // width, width)


def _cut(message: torch.Tensor, scales: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scales of a message, and the rest of it."""
    head, rest = message[: 4 * scales], message[4 * scales :]
    return head.clone().view(torch.float32), rest


@dataclass
class Errors:
    """The errors of a rank's messages so far: error feedback adds them to the next.

    given: of its own numbers, in phase 1. kept: of the sum of its part, in phase 2.
    """

    given: torch.Tensor
    kept: torch.Tensor

    @classmethod
    def none(
        cls, tensor: torch.Tensor, group: dist.ProcessGroup | None = None
    ) -> Errors:
        """Return errors of 0, for sums of tensors like this one."""
        own = _counts(tensor.numel(), dist.get_world_size(group))
        zeros = tensor.new_zeros(tensor.numel())
        return cls(zeros, zeros[: own[dist.get_rank(group)]].clone())


def _counts(count: int, world_size: int) -> list[int]:
    """Return how many numbers each rank owns: a P-th, rounded up, and the last ones
    less.
    """
    part = -(-count // world_size)
    return [max(0, min(part, count - rank * part)) for rank in range(world_size)]


def bytes_sent(count: int, codec: Codec, world_size: int) -> int:
    """Return bytes that each rank sends for a compressed sum of so many numbers.

    All messages are as long as that of a whole part, as all_gather wants it.
    """
    return 2 * (world_size - 1) * codec.nbytes(-(-count // world_size))


def compressed_all_reduce(
    tensor: torch.Tensor,
    codec: Codec | None = None,
    errors: Errors | None = None,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Replace a tensor by the sum of all ranks' ones, nearly; the same on all ranks.

    tensor: of floats, any shape and number. codec: `Int8()` without one. errors: of
    the sums before, and then of this one too. Sends `bytes_sent` bytes a rank. Raises
    ValueError for other types and for errors of another size.
    """
    codec = Int8() if codec is None else codec
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    counts = _counts(tensor.numel(), world_size)
    _check(tensor, errors, rank)
    # 1. A message to the owner of each part, who adds up what has come.
    exact = torch.promote_types(tensor.dtype, torch.float32)
    flat = tensor.detach().flatten().to(exact)
    if errors is not None:
        flat = flat + errors.given
    parts = flat.split(counts)
    messages = torch.stack([_message(codec, part, counts[0]) for part in parts])
    if errors is not None:
        errors.given = flat - _numbers(codec, messages, counts).to(flat)
    received = torch.empty_like(messages)
    dist.all_to_all_single(received, messages, group=group)
    given = [codec.decode(message, counts[rank]).to(flat) for message in received]
    own = torch.stack(given).sum(0)
    # 2. The sum of each part from its owner to all.
    if errors is not None:
        own = own + errors.kept
    message = _message(codec, own, counts[0])
    if errors is not None:
        errors.kept = own - codec.decode(message, counts[rank]).to(own)
    dist.all_gather(list(received), message, group=group)
    sums = _numbers(codec, received, counts)
    tensor.data.copy_(sums.view_as(tensor))


def _message(codec: Codec, part: torch.Tensor, count: int) -> torch.Tensor:
    """Return a part in bytes, filled up to the length of a message of `count`
    numbers.
    """
    message = codec.encode(part)
    return F.pad(message, (0, codec.nbytes(count) - len(message)))


def _numbers(codec: Codec, messages: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """Return the numbers of a message a part, in one row."""
    pairs = zip(messages, counts, strict=True)
    return torch.cat([codec.decode(message, count) for message, count in pairs])


def _check(tensor: torch.Tensor, errors: Errors | None, rank: int) -> None:
    if not tensor.is_floating_point():
        raise ValueError(f"rank {rank}: a tensor of {tensor.dtype}; need floats")
    if errors is not None and len(errors.given) != tensor.numel():
        raise ValueError(
            f"rank {rank}: errors of {len(errors.given)} numbers for a tensor of "
            f"{tensor.numel()}; need Errors.none(tensor) once for each tensor that is "
            "summed step by step"
        )


def train(
    codec: Codec | None = None,
    feedback: bool = True,
    steps: int = 100,
    batch_size: int = 32,
    model: nn.Module | None = None,
    rate: float = problem.RATE,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Train by Adam on compressed sums; this rank's share of each step's loss.

    codec: `Int8()` without one. feedback: make up for what was left out.
    """
    model = problem.new_model() if model is None else model
    data.broadcast_parameters(model, group)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    errors: Errors | None = None

    def sum_up() -> None:
        nonlocal errors
        gradient = data.flat_gradient(model.parameters())
        if feedback and errors is None:
            errors = Errors.none(gradient, group)
        compressed_all_reduce(gradient, codec, errors, group)
        data.set_gradient(model.parameters(), gradient)

    share = problem.loss_of_share(model, batch_size, group)
    return problem.descend(optimizer, share, steps, sum_up)

"""What a reduction does to numbers: combine two tensors, and the average at the end.

Here you can ask how an op combines (`combination`), finish an average (`average`), and
reduce a tensor of any layout in place (`reducing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

Combine = Callable[..., torch.Tensor]
"""`combine(a, b, out=c)`, element by element; c may be a or b."""

_COMBINE: list[tuple[ReduceOp.RedOpType, Any]] = [
    (ReduceOp.SUM, torch.add),
    (ReduceOp.AVG, torch.add),
    (ReduceOp.PRODUCT, torch.mul),
    (ReduceOp.MIN, torch.minimum),
    (ReduceOp.MAX, torch.maximum),
    (ReduceOp.BAND, torch.bitwise_and),
    (ReduceOp.BOR, torch.bitwise_or),
    (ReduceOp.BXOR, torch.bitwise_xor),
]


def combination(op: ReduceOp.RedOpType, dtype: torch.dtype) -> Combine:
    """Return the function of two tensors that an op stands for.

    It computes in dtype; MIN and MAX of a NaN are NaN. Raises before anything is sent,
    as torch does: RuntimeError for AVG of integers and for bits of other dtypes,
    ValueError for all but SUM and AVG of complex numbers. And ValueError for an op
    that is none of these eight.
    """
    rank = dist.get_rank()
    combine = next((f for known, f in _COMBINE if op == known), None)
    if combine is None:
        names = ", ".join(known.name for known, _ in _COMBINE)
        raise ValueError(f"rank {rank}: cannot reduce by {op}; need one of {names}")
    is_integral = not (dtype.is_floating_point or dtype.is_complex)
    if op == ReduceOp.AVG and is_integral:
        raise RuntimeError(
            f"rank {rank}: {dtype} cannot hold an average; use SUM, or a floating dtype"
        )
    if dtype.is_complex and combine is not torch.add:
        raise ValueError(f"rank {rank}: {dtype} is reduced by SUM and AVG, not by {op}")
    if "bitwise" in combine.__name__ and not is_integral:
        raise RuntimeError(f"rank {rank}: {op} needs an integral dtype, not {dtype}")
    return combine


def average(op: ReduceOp.RedOpType, total: torch.Tensor, world_size: int) -> None:
    """Divide the sum of all ranks by their number if the op is AVG."""
    if op == ReduceOp.AVG:
        total.div_(world_size)


@contextmanager
def reducing(
    tensor: torch.Tensor, op: ReduceOp.RedOpType, world_size: int
) -> Iterator[tuple[torch.Tensor, Combine]]:
    """Give the elements of a tensor in a row, and how to combine them.

    The row is the tensor itself where that is contiguous. At the end the row is
    averaged if the op is AVG, and is what the tensor holds.
    """
    combine = combination(op, tensor.dtype)
    tensor = tensor.detach()
    data = tensor.contiguous()
    yield data.view(-1), combine
    average(op, data, world_size)
    tensor.copy_(data)

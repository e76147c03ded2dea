"""Tensors for cases, and the differences of those that a solution returns.

Inputs are random integers, so sums are exact, nobody can guess the input of another
rank, and a wrong sum shows which ranks it lacks or counts twice (`checking.causes`). A
`layout` makes a view with other memory around it, which must stay as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from collectives_lab.wire import Other, Strided
from collectives_lab.wire.codec import raw_bytes

LARGEST = {torch.float32: 2**20, torch.float64: 2**49, torch.int64: 2**59}
"""Integers up to this are summed exactly over 8 ranks; those of the wider dtypes are
beyond what a cast to the next narrower one could hold."""


def integers(
    random: Random, shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Draw random whole numbers, of both signs, large for their dtype."""
    generator = torch.Generator().manual_seed(random.getrandbits(60))
    most = LARGEST[dtype]
    numbers = torch.randint(-most, most, tuple(shape), generator=generator)
    # Odd numbers: no power of two, so that none passes through a narrower dtype.
    return (numbers | 1).to(dtype)


def normals(
    random: Random, shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Draw numbers of a normal distribution, whose sum depends on its order."""
    generator = torch.Generator().manual_seed(random.getrandbits(60))
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)


def layout(kind: str, tensor: torch.Tensor) -> Strided:
    """Return a 2-D tensor as a view of other memory, of one of three kinds.

    kind: `transposed`, `columns` or `rows`.
    """
    rows, columns = tensor.shape
    if kind == "transposed":
        view = Strided(
            torch.empty(tensor.numel(), dtype=tensor.dtype), (rows, columns), (1, rows)
        )
    elif kind == "columns":  # every second column of a wider matrix
        storage = _filled(2 * rows * columns + 3, tensor)
        view = Strided(storage, (rows, columns), (2 * columns, 2), 1)
    elif kind == "rows":  # some rows in the middle of a longer matrix
        storage = _filled((rows + 2) * columns, tensor)
        view = Strided(storage, (rows, columns), (columns, 1), columns)
    else:
        raise ValueError(f"layout {kind!r}; need transposed, columns or rows")
    view.view.copy_(tensor)
    return view


def _filled(count: int, tensor: torch.Tensor) -> torch.Tensor:
    """Return memory that differs from rank to rank, as the tensors do."""
    return torch.arange(count).to(tensor.dtype) + tensor.flatten()[0]


def returned(argument: Any, memory: Any) -> tuple[torch.Tensor | None, str]:
    """Return the tensor that an argument has become, or None and the reason.

    argument: as the solution got it. memory: what came back for it. Of a view, the
    memory beside it must be unchanged.
    """
    if not isinstance(memory, torch.Tensor):
        return None, f"what came back is no tensor but {kind_of(memory)}"
    if not isinstance(argument, Strided):
        return memory, ""
    before = argument.storage
    if memory.shape != before.shape or memory.dtype != before.dtype:
        return None, "its memory has another size than before"
    returned = Strided(memory, argument.size, argument.stride, argument.offset)
    beside = before.clone()
    Strided(beside, returned.size, returned.stride, returned.offset).view.copy_(
        returned.view
    )
    if not torch.equal(_bits(beside), _bits(memory)):
        return None, "it is a view, and memory beside it was written to"
    return returned.view, ""


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def as_argument(kind: str, tensor: torch.Tensor) -> torch.Tensor | Strided:
    """Return a copy of a tensor to call a solution with; kind: a layout, or empty."""
    return layout(kind, tensor) if kind else tensor.clone()


def describe(shape: Sequence[int], dtype: torch.dtype, layout: str = "") -> str:
    """Describe a tensor in a case's label: `3 x 5 of float32, a view (columns)`."""
    size = " x ".join(map(str, shape)) if shape else "one element, 0-dim,"
    return f"{size} of {name_of(dtype)}" + (f", a view ({layout})" if layout else "")


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype without its module: `float32`."""
    return str(dtype).removeprefix("torch.")


def kind_of(value: Any) -> str:
    """Return the kind of a value for a message: `a tensor of float32 (3,)`."""
    if isinstance(value, Other):
        return value.type_name
    if isinstance(value, torch.Tensor):
        return f"a tensor of {name_of(value.dtype)} {tuple(value.shape)}"
    return "None" if value is None else type(value).__name__


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two tensors are equal to the last bit."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return torch.equal(_bits(left), _bits(right))


def contains(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether a tensor has these numbers in a row, whatever its shape."""
    if actual.dtype != expected.dtype or not expected.numel():
        return False
    return raw_bytes(expected) in raw_bytes(actual)  # without a copy for each place


def first_difference(
    actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 0.0
) -> tuple[int, ...] | None:
    """Return the first index at which two tensors of one shape differ, or None.

    tolerance: relative to the larger of 1 and the expected value. NaN equals NaN.
    """
    if tolerance:
        far = (actual - expected).abs() > tolerance * expected.abs().clamp(min=1)
        far |= actual.isnan() != expected.isnan()
        far |= actual.isinf() & (actual != expected)
    else:
        far = actual != expected
        if actual.dtype.is_floating_point:
            far &= ~(actual.isnan() & expected.isnan())
    places = far.nonzero()
    return tuple(places[0].tolist()) if len(places) else None


def compare(
    actual: Any, expected: torch.Tensor, name: str, tolerance: float = 0.0
) -> tuple[str, tuple[int, ...] | None]:
    """Describe how `actual` differs from `expected`, and at which index.

    The text is empty if they are equal; there is no index if the kinds differ.
    """
    if not isinstance(actual, torch.Tensor):
        return f"{name} is {kind_of(actual)}, not {kind_of(expected)}", None
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{name} is {kind_of(actual)}, not {kind_of(expected)}", None
    at = first_difference(actual, expected, tolerance)
    if at is None:
        return "", None
    place = "".join(f"[{i}]" for i in at)
    return f"{name}{place} is {_apart(actual[at].item(), expected[at].item())}", at


def _apart(actual: float | int, expected: float | int) -> str:
    """Return `2.5, not 3`, with the digits that it takes to tell them apart."""
    numbers = actual, expected
    short = [f"{x:.8g}" if isinstance(x, float) else f"{x}" for x in numbers]
    return ", not ".join(short if short[0] != short[1] else map(repr, numbers))

"""Tensors for cases, and what is wrong with those that come back.

Inputs are random integers, so that sums are exact, nobody can guess another rank's, and
a wrong sum names what it lacks or counts twice (`check.causes`). A `layout` makes a
view with other memory around it, which must stay as it is.
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
    """Random whole numbers, of both signs, large for their dtype."""
    generator = torch.Generator().manual_seed(random.getrandbits(60))
    most = LARGEST[dtype]
    drawn = torch.randint(-most, most, tuple(shape), generator=generator)
    # Odd numbers: no power of two, so that none passes through a narrower dtype.
    return (drawn | 1).to(dtype)


def normals(
    random: Random, shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Numbers of a normal distribution, whose sum depends on its order."""
    generator = torch.Generator().manual_seed(random.getrandbits(60))
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)


def layout(kind: str, tensor: torch.Tensor) -> Strided:
    """A 2-D tensor as a view of other memory: `transposed`, `columns` or `rows`."""
    rows, columns = tensor.shape
    if kind == "transposed":
        made = Strided(
            torch.empty(tensor.numel(), dtype=tensor.dtype), (rows, columns), (1, rows)
        )
    elif kind == "columns":  # every second column of a wider matrix
        storage = _filled(2 * rows * columns + 3, tensor)
        made = Strided(storage, (rows, columns), (2 * columns, 2), 1)
    elif kind == "rows":  # some rows in the middle of a longer matrix
        storage = _filled((rows + 2) * columns, tensor)
        made = Strided(storage, (rows, columns), (columns, 1), columns)
    else:
        raise ValueError(f"layout {kind!r}; need transposed, columns or rows")
    made.view.copy_(tensor)
    return made


def _filled(count: int, tensor: torch.Tensor) -> torch.Tensor:
    """Memory that differs from rank to rank, as the tensors do."""
    return torch.arange(count).to(tensor.dtype) + tensor.flatten()[0]


def arrived(argument: Any, after: Any) -> tuple[torch.Tensor | None, str]:
    """The tensor that an argument is now, or why it is none; memory beside it checked.

    argument: as it was given; after: what came back for it.
    """
    if not isinstance(after, torch.Tensor):
        return None, f"what came back is no tensor but {kind_of(after)}"
    if not isinstance(argument, Strided):
        return after, ""
    before = argument.storage
    if after.shape != before.shape or after.dtype != before.dtype:
        return None, "its memory has another size than before"
    now = Strided(after, argument.size, argument.stride, argument.offset)
    beside = before.clone()
    Strided(beside, now.size, now.stride, now.offset).view.copy_(now.view)
    if not torch.equal(_bits(beside), _bits(after)):
        return None, "it is a view, and memory beside it was written to"
    return now.view, ""


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def given(kind: str, tensor: torch.Tensor) -> torch.Tensor | Strided:
    """A copy of a tensor to call a solution with, as a view if a layout is named."""
    return layout(kind, tensor) if kind else tensor.clone()


def described(shape: Sequence[int], dtype: torch.dtype, layout: str = "") -> str:
    """A tensor in a case's label: `3 x 5 of float32, a view (columns)`."""
    size = " x ".join(map(str, shape)) if shape else "one element, 0-dim,"
    return f"{size} of {name_of(dtype)}" + (f", a view ({layout})" if layout else "")


def name_of(dtype: torch.dtype) -> str:
    """`float32`, as one says it."""
    return str(dtype).removeprefix("torch.")


def kind_of(value: Any) -> str:
    """What a value is, for a message."""
    if isinstance(value, Other):
        return value.type_name
    if isinstance(value, torch.Tensor):
        return f"a tensor of {name_of(value.dtype)} {tuple(value.shape)}"
    return "None" if value is None else type(value).__name__


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are alike to the last bit."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return torch.equal(_bits(left), _bits(right))


def holds(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether a tensor has these numbers in a row somewhere, whatever its shape."""
    if found.dtype != expected.dtype or not expected.numel():
        return False
    return raw_bytes(expected) in raw_bytes(found)  # without a copy for each place


def first_difference(
    found: torch.Tensor, expected: torch.Tensor, tolerance: float = 0.0
) -> tuple[int, ...] | None:
    """The first index at which two tensors of one shape differ; None if none does.

    tolerance: relative to the larger of 1 and the expected value. NaN equals NaN.
    """
    if tolerance:
        far = (found - expected).abs() > tolerance * expected.abs().clamp(min=1)
        far |= found.isnan() != expected.isnan()
        far |= found.isinf() & (found != expected)
    else:
        far = found != expected
        if found.dtype.is_floating_point:
            far &= ~(found.isnan() & expected.isnan())
    places = far.nonzero()
    return tuple(places[0].tolist()) if len(places) else None


def compared(
    found: Any, expected: torch.Tensor, what: str, tolerance: float = 0.0
) -> tuple[str, tuple[int, ...] | None]:
    """Say how `found` differs from what was expected, and where; empty: it does not."""
    if not isinstance(found, torch.Tensor):
        return f"{what} is {kind_of(found)}, not {kind_of(expected)}", None
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{what} is {kind_of(found)}, not {kind_of(expected)}", None
    at = first_difference(found, expected, tolerance)
    if at is None:
        return "", None
    place = "".join(f"[{i}]" for i in at)
    return f"{what}{place} is {_apart(found[at].item(), expected[at].item())}", at


def _apart(found: float | int, expected: float | int) -> str:
    """`2.5, not 3`: two numbers, with as many digits as it takes to see them differ."""
    both = found, expected
    short = [f"{x:.8g}" if isinstance(x, float) else f"{x}" for x in both]
    return ", not ".join(short if short[0] != short[1] else map(repr, both))

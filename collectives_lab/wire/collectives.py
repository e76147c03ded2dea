"""The results of collectives, computed by the switch from the ranks' data.

The sums are made in the order of the ranks, so a run can be repeated bit by bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from collectives_lab.wire.carried import size_of
from collectives_lab.wire.codec import DTYPES, raw_bytes, tensor_of
from collectives_lab.wire.posted import Posted

_REDUCE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
    # As Gloo's std::min and std::max: the first stays unless it is beaten, so that of a
    # NaN and a number either may come out.
    "MIN": lambda a, b: torch.where(b < a, b, a),
    "MAX": lambda a, b: torch.where(a < b, b, a),
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


def carry_out(ops: Sequence[Posted]) -> list[bytes]:
    """Return what each rank takes of what all have given, in the order of `ops`.

    Raises ValueError for a reduce op that the dtype does not have.
    """
    verb, size, data = ops[0].verb, len(ops), [op.data for op in ops]
    place = next((i for i, op in enumerate(ops) if op.rank == op.root), 0)
    if verb == "barrier":
        return [b""] * size
    if verb == "broadcast":
        return [b"" if i == place else data[place] for i in range(size)]
    if verb == "all_reduce":
        return [_reduced(ops, data)] * size
    if verb == "reduce":
        return [_on_the_way(ops, data, i, place) for i in range(size)]
    if verb == "all_gather":
        return [b"".join(data)] * size
    if verb == "gather":
        return [b"".join(data) if i == place else b"" for i in range(size)]
    if verb == "scatter":
        return _cut(data[place], [size_of(op.sides[1]) for op in ops])
    if verb == "reduce_scatter":
        whole = _reduced(ops, data)
        return _cut(whole, [size_of(op.sides[1]) for op in ops])
    parts = [
        _cut(d, [n for _, n in op.sides[0]]) for op, d in zip(ops, data, strict=True)
    ]
    return [b"".join(row[i] for row in parts) for i in range(size)]


def _on_the_way(
    ops: Sequence[Posted], data: Sequence[bytes], i: int, place: int
) -> bytes:
    """Return what a reduce leaves with the i-th rank.

    place: of the root, which has it all.

    The others hold partial sums, as after Gloo's: those that come to them by the chain
    to the root for which `event.bound` counts the bytes.
    """
    hops = (place - i) % len(ops) or len(ops)
    chain = sorted((i + hop) % len(ops) for hop in range(hops))
    return _reduced([ops[j] for j in chain], [data[j] for j in chain])


def _cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [data[end - n : end] for end, n in zip(ends, sizes, strict=True)]


def _reduced(ops: Sequence[Posted], data: Sequence[bytes]) -> bytes:
    code = ops[0].sides[0][0][0] if ops[0].sides[0] else 0
    dtype, name = DTYPES[code], ops[0].reduce_op
    if not data[0]:
        return b""
    rows = [tensor_of(d, dtype, (len(d) // dtype.itemsize,)) for d in data]
    if name == "AVG" and not dtype.is_floating_point:
        raise ValueError(f"AVG of {dtype}; need a floating dtype")
    try:
        whole = functools.reduce(_REDUCE[name], rows)
    except RuntimeError as error:
        raise ValueError(f"{name} of {dtype}: {error}") from None
    return raw_bytes(whole / len(rows) if name == "AVG" else whole)

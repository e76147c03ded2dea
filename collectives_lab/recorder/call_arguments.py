"""The arguments of a call of torch.distributed: bytes, ranks, types, and their errors.

An `Operator` says where they stand. Here you can read those of any operator
(`describe`), which raises ValueError for a rank that is not in the group and for memory
that Gloo would overwrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from collectives_lab.deadlock.status_board import digest


@dataclass(frozen=True)
class Operator:
    """One operator `c10d::name` and where its arguments stand.

    is_announced: whether its arguments say if the caller waits; in torch 2.6 they do
    not. inputs, outputs: the places of the tensors that go in and come out. reduces: it
    takes a reduce op. is_message: it is a send or a recv. is_simple: its first argument
    is a list of tensors, the same in and out. plain: where its numbers stand.
    """

    name: str
    verb: str
    variant: str
    at: dict[str, int]
    group_at: int = 0
    inputs: int | None = None
    outputs: int | None = None
    reduces: bool = False
    is_message: bool = False
    is_simple: bool = False
    plain: tuple[int, ...] = ()
    is_announced: bool = True

    def get(self, args: tuple, name: str, default: Any = None) -> Any:
        """Return the argument of this name.

        The dispatcher leaves trailing defaults out.
        """
        i = self.at.get(name)
        return default if i is None or i >= len(args) else args[i]


NO_OPERATOR = Operator("", "", "", {})
"""Stands for a call that does not come to the dispatcher."""


_WHOLE_IS_OUTPUT = {"all_gather", "gather"}
"""Verbs whose full tensor is what comes out; of the others it is what goes in."""


class Call(NamedTuple):
    """The arguments of an operator's call, read.

    nbytes: as in `trace.Event`. count, dtype: elements and type, for messages to
    people. peer, root: ranks within the group, None where there is none. signature: a
    digest of what must be the same on every rank that takes part. splits: bytes to
    and from each rank of the group, for an all_to_all. waits: whether the caller waits
    for the end before it goes on. on_cpu: whether the tensors are the CPU's. timeout:
    seconds that the caller allows, None if it does not say.
    """

    nbytes: int
    count: int  # type: ignore[assignment]  # a tuple has a method of this name
    dtype: str
    peer: int | None
    root: int | None
    tag: int
    reduce_op: str
    signature: int
    splits: tuple[tuple[int, ...], tuple[int, ...]] | None
    waits: bool
    on_cpu: bool
    timeout: float | None


def device_of(operator: Operator, args: tuple) -> int:
    """Return the number of the GPU that the tensors of a call are on."""
    sides = (operator.inputs, operator.outputs)
    tensors = (_flat(args[i]) for i in sides if i is not None)
    return next(some[0].device.index for some in tensors if some)


def _flat(tensors: Any) -> Sequence[torch.Tensor]:
    """Return a tensor, a list of tensors or a list of such lists, as one list."""
    if isinstance(tensors, torch.Tensor):
        return (tensors,)
    if not tensors or isinstance(tensors[0], torch.Tensor):
        return tensors
    return [t for inner in tensors for t in inner]


def _count(tensors: Sequence[torch.Tensor]) -> int:
    return tensors[0].numel() if len(tensors) == 1 else sum(t.numel() for t in tensors)


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return _size(tensors[0]) if len(tensors) == 1 else sum(map(_size, tensors))


def _size(tensor: torch.Tensor) -> int:
    """Return bytes of a tensor; of a sparse one those of its indices and values."""
    if not tensor.is_sparse:
        return tensor.nbytes
    return tensor._indices().nbytes + tensor._values().nbytes


_REDUCE_OPS: dict[str, Any] = {
    name: getattr(dist.ReduceOp, name)
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
    if hasattr(dist.ReduceOp, name)
}

_REDUCE_NAMES = {id(op): name for name, op in _REDUCE_OPS.items()}
"""By identity: torch compares its reduce ops in a microsecond each."""


def reduce_name(value: Any) -> str:
    """Return `"SUM"` for ReduceOp.SUM, `"sum"` and the like; else an empty text."""
    known = _REDUCE_NAMES.get(id(value))
    if known is not None:
        return known
    if isinstance(value, str):
        return value.upper()
    for name, op in _REDUCE_OPS.items():
        if value == op:
            return name
    return "PREMUL_SUM" if isinstance(value, dist.ReduceOp) else ""


_calls: dict[tuple, Call] = {}


def describe(op: Operator, args: tuple, size: int, reduce_op: str = "") -> Call:
    """Read the arguments of a call in a group of `size` ranks.

    reduce_op: its name, which must come from the caller: an operator gets it in a box
    that Python cannot open. A call on one tensor that is like one before is not read
    again: training makes the same calls over and over.
    """
    tensors = args[0]
    if not op.is_simple or len(tensors) != 1:
        return _read(op, args, size, reduce_op)
    one = tensors[0]
    count = len(args)
    rest = tuple([args[i] for i in op.plain if i < count])
    layout = one.layout is torch.strided and one.stride()
    key = (op.name, one.shape, layout, one.dtype, one.is_cpu, rest, size, reduce_op)
    call = _calls.get(key)
    if call is None:
        if len(_calls) > 4096:
            _calls.clear()
        call = _calls[key] = _read(op, args, size, reduce_op)
    return call


_NAMES = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}
"""What torch's functions call the operators' `root_rank`."""


def _check_ranks(op: Operator, args: tuple, size: int) -> None:
    """Raise ValueError for a rank that the group does not have; Gloo's words do not."""
    for name in ("src", "dst", "root_rank"):
        rank = op.get(args, name)
        if rank is not None and not 0 <= rank < size:
            name = _NAMES.get(op.verb, name)
            raise ValueError(
                f"{op.verb}: {name}={rank} is no rank of its group of {size}; they are "
                f"0 to {size - 1}"
            )


_BY_ADDRESS = {
    "allreduce_",
    "broadcast_",
    "reduce_",
    "scatter_",
    "reduce_scatter_",
    "alltoall_base_",
}
"""Operators in which Gloo takes the elements of a tensor one after the other from its
address on, wherever they are; torch does not check."""


def _check_memory(op: Operator, inputs: Sequence, outputs: Sequence) -> None:
    """Raise ValueError for a tensor with gaps, of which Gloo would write others'
    memory.

    In place any order of the elements will do, if it is the same on all ranks.
    """
    in_place = op.inputs == op.outputs
    for tensor in (*outputs, *(inputs if op.verb == "scatter" else ())):
        if tensor.layout is not torch.strided or tensor.is_contiguous():
            continue
        if not (in_place and torch.ops.aten.is_non_overlapping_and_dense(tensor)):
            raise ValueError(
                f"{op.verb}: a tensor of shape {tuple(tensor.shape)} and strides "
                f"{tensor.stride()} has gaps; it must be contiguous"
            )


def _read(op: Operator, args: tuple, size: int, reduce_op: str) -> Call:
    _check_ranks(op, args, size)
    inputs = () if op.inputs is None else _flat(args[op.inputs])
    outputs = () if op.outputs is None else _flat(args[op.outputs])
    if op.name in _BY_ADDRESS:
        _check_memory(op, inputs, outputs)
    whole = outputs if op.verb in _WHOLE_IS_OUTPUT else inputs
    nbytes = _bytes(whole)
    if op.verb in ("scatter", "gather"):
        # Off the root only one share is at hand: the whole is `size` of them.
        inputs = inputs if op.verb == "gather" else outputs
        nbytes = size * _bytes(inputs)
    shown = inputs or outputs
    on_cpu = not shown or shown[0].is_cpu
    if op.verb == "barrier":
        nbytes, shown = 0, ()
    count = _count(shown)
    dtype = _dtype_name(shown[0].dtype) if shown else ""
    root = op.get(args, "root_rank")
    milliseconds = op.get(args, "timeout", -1)
    if op.is_message:
        like: tuple = (count, dtype)
    else:
        uneven = op.verb == "all_to_all" or _is_uneven(op, inputs, outputs)
        like = (op.verb, None if uneven else count, dtype, root, reduce_op)
    return Call(
        nbytes,
        count,
        dtype,
        op.get(args, "dst", op.get(args, "src")) if op.is_message else None,
        root,
        op.get(args, "tag", 0) if op.is_message else 0,
        reduce_op,
        digest(*like),
        _splits(op, args, inputs, outputs, size) if op.verb == "all_to_all" else None,
        not op.get(args, "async_op", True),
        on_cpu,
        milliseconds / 1000 if milliseconds >= 0 else None,
    )


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_uneven(op: Operator, inputs: Sequence, outputs: Sequence) -> bool:
    """Return whether the parts of a list differ in size, which some libraries allow."""
    if op.name not in ("allgather_", "reduce_scatter_"):
        return False
    parts = outputs if op.verb == "all_gather" else inputs
    return len({t.numel() for t in parts}) > 1


def _splits(
    op: Operator, args: tuple, inputs: Sequence, outputs: Sequence, size: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return bytes to and from each rank of the group in an all_to_all, parts even or
    not.
    """
    sides = []
    named = ((inputs, "input_split_sizes"), (outputs, "output_split_sizes"))
    for tensors, name in named:
        if len(tensors) == size and op.variant == "all_to_all":
            sides.append(tuple(t.nbytes for t in tensors))
        elif sizes := op.get(args, name):
            row = tensors[0][:1].nbytes if tensors else 0
            sides.append(tuple(row * n for n in sizes))
        else:
            sides.append((_bytes(tensors) // size,) * size)
    return sides[0], sides[1]

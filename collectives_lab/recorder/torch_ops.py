"""The private names of torch.distributed that we rely on, all in one place.

Every communication call ends in an operator `c10d::...` of torch's dispatcher. Here you
can put a function in front of all of them (`interpose`), and read an operator's
arguments (`describe`) and the work it returns (`work_of`). Held for torch 2.6 to 2.15:
the operators are asked of the dispatcher and their arguments are found by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout
from torch.library import Library

from collectives_lab.deadlock.status_board import digest

_world = dist.distributed_c10d._world
_work_of_future = torch._C._distributed_c10d._create_work_from_future  # type: ignore[attr-defined] # has no stub
_unbox_group = dist.ProcessGroup.unbox

Work = dist.Work if hasattr(dist, "Work") else dist.distributed_c10d.Work

_VERBS = {
    "send": ("send", "send"),
    "recv_": ("recv", "recv"),
    "recv_any_source_": ("recv", "recv"),
    "broadcast_": ("broadcast", "broadcast"),
    "allreduce_": ("all_reduce", "all_reduce"),
    "allreduce_coalesced_": ("all_reduce", "all_reduce_coalesced"),
    "reduce_": ("reduce", "reduce"),
    "scatter_": ("scatter", "scatter"),
    "gather_": ("gather", "gather"),
    "gather_into_tensor_": ("gather", "gather_into_tensor"),
    "allgather_": ("all_gather", "all_gather"),
    "_allgather_base_": ("all_gather", "all_gather_into_tensor"),
    "allgather_coalesced_": ("all_gather", "all_gather_coalesced"),
    "allgather_into_tensor_coalesced_": (
        "all_gather",
        "all_gather_into_tensor_coalesced",
    ),
    "reduce_scatter_": ("reduce_scatter", "reduce_scatter"),
    "_reduce_scatter_base_": ("reduce_scatter", "reduce_scatter_tensor"),
    "reduce_scatter_tensor_coalesced_": (
        "reduce_scatter",
        "reduce_scatter_tensor_coalesced",
    ),
    "alltoall_": ("all_to_all", "all_to_all"),
    "alltoall_base_": ("all_to_all", "all_to_all_single"),
    "barrier": ("barrier", "barrier"),
    "monitored_barrier_": ("barrier", "monitored_barrier"),
}
"""Operator -> the verb in torch's spelling, and the function that calls it."""

_WHOLE_IS_OUTPUT = {"all_gather", "gather"}
"""Verbs whose full tensor is what comes out; of the others it is what goes in."""


class Call(NamedTuple):
    """The arguments of an operator's call, read.

    nbytes: as in `trace.Event`. count, dtype: elements and type, for messages to
    people. peer, root: ranks within the group, None where there is none. signature: a
    digest of what must be the same on every rank that takes part. splits: bytes to
    and from each rank of the group, for an all_to_all. waits: whether the caller waits
    for the end before it goes on. on_cpu: whether the tensors are the CPU's.
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


_NUMBERS = ("dst", "src", "root_rank", "tag", "async_op")

_ARGUMENTS = {
    "in": ("input_tensors", "input_tensor", "input_list", "inputs", "input"),
    "out": ("output_tensors", "output_tensor", "output_lists", "outputs", "output"),
    "both": ("tensors", "tensor"),
}


def _operator(name: str, overload: Any) -> Operator | None:
    at = {arg.name: i for i, arg in enumerate(overload._schema.arguments)}
    if "process_group" not in at:
        return None
    verb, variant = _VERBS.get(name, (name.strip("_"), name.strip("_")))
    inputs, outputs, both = (
        next((at[n] for n in names if n in at), None) for names in _ARGUMENTS.values()
    )
    if inputs is None and outputs is None:
        inputs = outputs = both
    is_message = verb in ("send", "recv")
    return Operator(
        name,
        verb,
        variant,
        at,
        group_at=at["process_group"],
        inputs=inputs,
        outputs=outputs,
        reduces="reduce_op" in at,
        is_message=is_message,
        is_simple="tensors" in at,
        plain=tuple(at[n] for n in _NUMBERS if n in at),
        is_announced=is_message or "async_op" in at,
    )


Handler = Callable[[Operator, tuple, Callable[[], Any]], Any]
"""Takes the operator, its arguments, and a function that goes on with the call."""


class Seat:
    """Whoever sits here handles the calls of this process; None: they go on alone."""

    handler: Handler | None = None


Detour = Callable[[Operator, Callable], Callable]
"""Takes an operator and what goes on with it, given keys and arguments; returns what
shall do so instead."""


def interpose(seat: Seat, detour: Detour, only: Sequence[str] = ()) -> Library:
    """Call who sits there for each c10d operator of any thread, while the result lives.

    Its frame is two below the first one of torch's or the reader's. detour: what each
    operator goes on by. only: the operators, if not all.
    """
    library = Library("c10d", "IMPL")
    select = torch._C.DispatchKey.BackendSelect
    after = torch._C._dispatch_keyset_full_after(select)
    for full_name in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full_name.partition("::")
        if namespace != "c10d" or "." in name or (only and name not in only):
            continue
        overload = getattr(torch.ops.c10d, name).default
        operator = _operator(name, overload)
        if operator is not None:
            go_on = detour(operator, overload._handle.redispatch_boxed)
            kernel = _kernel(seat, operator, go_on, after)
            library.impl(name, kernel, "BackendSelect", with_keyset=True)
    return library


def hidden_from_dynamo(function: Callable) -> Callable:
    """Let torch.compile run a function as it is, with all that it calls.

    Without importing torch._dynamo, as `torch.compiler.disable` would: seconds a rank.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        strategy = frames._FrameExecStrategy(skip, skip)
        frames.set_code_exec_strategy(function.__code__, strategy)
    elif hasattr(frames, "skip_code"):  # torch 2.6
        frames.skip_code(function.__code__)
    return function


def _kernel(seat: Seat, operator: Operator, go_on: Callable, after: Any) -> Callable:
    @hidden_from_dynamo
    def kernel(keyset: Any, *args: Any) -> Any:
        handler = seat.handler
        if handler is None:
            return go_on(keyset & after, *args)
        return handler(operator, args, partial(go_on, keyset & after, *args))

    return kernel


def has_work(result: Any) -> bool:
    """Return whether an operator returned a Work, without a look at it."""
    return (result[-1] if isinstance(result, tuple) else result) is not None


def work_of(result: Any) -> Any:
    """Return the Work an operator returned: the very object that the caller will
    hold.
    """
    boxed = result[-1] if isinstance(result, tuple) else result
    return None if boxed is None else Work.unbox(boxed)


def boxed_work(future: torch.futures.Future) -> Any:
    """Return a Work that ends with the future, boxed as an operator returns it."""
    return _work_of_future(future).boxed()


def group_of(operator: Operator, args: tuple) -> Any:
    """Return the process group a call is for."""
    return _unbox_group(args[operator.group_at])


def ranks_of(group: Any) -> dict[int, int] | None:
    """Return a group's ranks by rank in the world: the very dict that torch keeps."""
    return _world.pg_group_ranks.get(group)


def group_number() -> int:
    """Return the number that the next group of this process will have."""
    return getattr(_world, "group_count", 0)


def store_of_world() -> Any:
    """Return the store in which the ranks of the world find each other."""
    return dist.distributed_c10d._get_default_store()


def timeout_of(group: Any) -> float:
    """Return the seconds after which a Gloo group ends a call; infinite if unknown.

    Infinite for torch's default too: nobody has chosen those 30 minutes in order to
    catch the error.
    """
    try:
        timeout = group._get_backend(torch.device("cpu")).options._timeout
    except (AttributeError, RuntimeError):  # another backend, or an older torch
        return math.inf
    return math.inf if timeout == default_pg_timeout else timeout.total_seconds()


def device_of(operator: Operator, args: tuple) -> int:
    """Return the number of the GPU that the tensors of a call are on."""
    sides = (operator.inputs, operator.outputs)
    tensors = (_flat(args[i]) for i in sides if i is not None)
    return next(some[0].device.index for some in tensors if some)


def is_coalescing(group: Any) -> bool:
    """Return whether calls of this group wait for the end of a coalescing block."""
    return group in getattr(_world, "pg_coalesce_state", {})


def abort() -> None:
    """Abort every group: what NCCL still waits for on a GPU ends."""
    dist.distributed_c10d._abort_process_group()


def forget_coalescing() -> None:
    """Drop what a failed coalescing block has left, or later calls would do nothing."""
    state = getattr(_world, "pg_coalesce_state", None)
    if state:
        state.clear()


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
    """`"SUM"` for ReduceOp.SUM, `"sum"` and the like; empty for anything else."""
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

"""The private names of torch.distributed that recording relies on, all in one place.

Every communication call ends in an operator `c10d::...` of torch's dispatcher. Here you
can put a function in front of all of them (`interpose`), and take the group of a call
(`group_of`) and the work it returns (`work_of`). `call_arguments` reads the other
arguments. This holds for torch 2.6 to 2.15: the dispatcher lists the operators, and
their arguments are identified by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout
from torch.library import Library

from collectives_lab.recorder.call_arguments import Operator

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


_NUMBERS = ("dst", "src", "root_rank", "tag", "async_op", "timeout")

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

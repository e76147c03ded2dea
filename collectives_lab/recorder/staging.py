"""Messages between GPUs by way of the CPU, where the library cannot carry them.

Gloo's collectives take CUDA tensors and copy them themselves; its send and recv do not.
Here a `detour` for these operators sends a copy in the memory of the CPU, and receives
into one that is copied to the GPU when the message has been waited for (`wait`). The
sender waits for the copy, so an isend is not free; times contain both copies. Without
a GPU the tests send it tensors of the CPU.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from collectives_lab.basics import devices
from collectives_lab.recorder import torch_ops
from collectives_lab.recorder.call_arguments import Operator

MESSAGES = ("send", "recv_", "recv_any_source_")
"""The operators that are staged."""

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

_wait = torch_ops.Work.wait
"""torch's own."""


def is_needed(tensor: torch.Tensor, group: Any) -> bool:
    """Return whether the library of this group cannot send this tensor."""
    return tensor.is_cuda and not devices.runs_on_nccl(group)


_fresh: dict[int, Any] = {}
"""By thread its last work: nobody else holds it before the verb returns."""

landings: dict[weakref.ref, tuple[torch.Tensor, torch.Tensor]] = {}
"""By the work of a recv: the tensor, and the copy in which the message arrives."""


def detour(operator: Operator, redispatch: Callable) -> Callable:
    """Return what a message goes on by: as it is, or by the CPU.

    Other operators as they are.

    What is sent is what the tensor holds now, whatever is written to it later.
    """
    if operator.name not in MESSAGES:
        return redispatch

    def go_on(keyset: Any, tensors: list[torch.Tensor], *args: Any) -> Any:
        (tensor,) = tensors
        group = torch_ops.group_of(operator, (tensors, *args))
        if not is_needed(tensor, group):
            return redispatch(keyset, tensors, *args)
        on_cpu = torch.empty_like(tensor, device="cpu", requires_grad=False)
        if operator.verb == "send":
            on_cpu.copy_(tensor.detach())
            return redispatch(_CPU, [on_cpu], *args)
        result = redispatch(_CPU, [on_cpu], *args)
        work = _fresh[threading.get_ident()] = torch_ops.work_of(result)
        landings[weakref.ref(work, _forget)] = tensor.detach(), on_cpu
        return result

    return go_on


def _forget(work: weakref.ref) -> None:
    landings.pop(work, None)


def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
    """Do torch's `Work.wait`, after which what was received is where it belongs."""
    result = _wait(work, *args, **kwargs)
    if landings:
        _fresh.pop(threading.get_ident(), None)
        landing = landings.pop(weakref.ref(work), None)
        if landing is not None:
            tensor, on_cpu = landing
            tensor.copy_(on_cpu)
    return result


@contextlib.contextmanager
def alone(needed: bool | None = None) -> Iterator[None]:
    """Stage messages where no recorder stands in the dispatcher; for measuring.

    needed: None finds out; a process that has not used CUDA has nothing to stage.
    """
    if not (torch.cuda.is_initialized() if needed is None else needed):
        yield
        return
    wait_of_torch = torch_ops.Work.wait
    library = torch_ops.interpose(torch_ops.Seat(), detour, MESSAGES)
    torch_ops.Work.wait = wait  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        torch_ops.Work.wait = wait_of_torch  # type: ignore[method-assign]
        del library  # with its last reference its kernels are gone

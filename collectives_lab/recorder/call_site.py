"""The call site of a communication call: the reader's code, or torch's, or between.

Here you can find the reader's line under a call (`find_reader`), ask whether the call
`waits` for its own end, and whether a thread that does not wait may come to a
communication call by itself (`may_call`; an `OwnThread` says so).
"""

from __future__ import annotations

import os
import sysconfig
import threading
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.recorder.call_arguments import Operator, reduce_name

_TORCH = os.path.dirname(torch.__file__) + os.sep
_DISTRIBUTED = os.path.dirname(dist.__file__) + os.sep
_HOUSE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_SPEAKS_FOR_ITSELF = ("distributed_c10d.py", "_functional_collectives.py")
WRAPPERS = {"contextlib.py", "typing_extensions.py", "warnings.py"}
"""Where the wrappers come from that torch has around its functions."""

_LIBRARIES = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")
)
_JOIN = threading.Thread.join.__code__


def find_reader(
    op: Operator, frame: FrameType | None
) -> tuple[tuple[str, int] | None, str, str]:
    """Return the reader's line, the torch.distributed function there, its reduce op.

    frame: the first that may be torch's or the reader's.
    """
    variant, reduce_op = op.variant, ""
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        kind = _kind_of(file)
        if kind == "reader":
            return (file, frame.f_lineno), variant, reduce_op
        if kind == "verbs" and code.co_name[0] != "_":
            variant = code.co_name
            if op.reduces and not reduce_op:
                reduce_op = _reduce_op_of(frame.f_locals)
        frame = frame.f_back
    return None, variant, reduce_op


def waits(frame: FrameType | None) -> bool:
    """Return whether the torch.distributed function below the reader will wait for its
    end.

    For a torch whose operators do not get that argument. frame: as for `find_reader`.
    """
    while frame is not None:
        kind = _kind_of(frame.f_code.co_filename)
        if kind == "reader":
            return False
        if kind == "verbs" and "async_op" in frame.f_locals:
            return not frame.f_locals["async_op"]
        frame = frame.f_back
    return False


def _reduce_op_of(variables: dict[str, Any]) -> str:
    op = variables.get("op", variables.get("reduceOp"))
    return "" if op is None else reduce_name(op)


@cache
def _kind_of(file: str) -> str:
    """Say whose a file is: the reader's, torch.distributed's with verbs, or neither."""
    inside = file.startswith((_TORCH, _HOUSE)) or os.path.basename(file) in WRAPPERS
    if not inside:
        return "reader"
    return "verbs" if file.endswith(_SPEAKS_FOR_ITSELF) else "inside"


class OwnThread(threading.Thread):
    """A thread of this package, which says whether it may come to a reader's call.

    Nobody reads its frames, as `may_call` does those of others. It may end meanwhile,
    and a frame that is read as its thread ends has crashed CPython 3.11.
    """

    def __init__(
        self,
        target: Callable[..., Any],
        *args: Any,
        name: str,
        runs_readers_code: bool = False,
    ) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)
        self.runs_readers_code = runs_readers_code


def may_call(thread: threading.Thread, frame: FrameType | None) -> bool:
    """Return whether a thread that does not wait may come to a communication call by
    itself.

    It may if it runs the reader's code, or a timer or an event loop that may; a helper
    thread of a library does not, nor does one that waits for another thread to end.
    """
    if isinstance(thread, threading.Timer):
        return True
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code is _JOIN and frame.f_locals.get("timeout") is None:
            return False
        if file.startswith(_DISTRIBUTED) or f"{os.sep}asyncio{os.sep}" in file:
            return True
        if not file.startswith((*_LIBRARIES, _TORCH, _HOUSE, "<frozen")):
            return True
        frame = frame.f_back
    return False

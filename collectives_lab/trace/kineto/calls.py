"""Calls of torch.distributed in a profile: verb, bytes, dtype, group.

NCCL's calls say all this themselves (`record_param_comms`); of Gloo's, and of NCCL's
before torch 2.2, the shapes of their arguments say it. Here `calls_of` gives the calls
of one rank, each with what its file knows.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from collectives_lab.trace.kineto.names import dtype_of, itemsize, verb_of
from collectives_lab.trace.kineto.profile import Profile, Slice

_BUFFERS = {
    "allgather": (1, True),
    "allgather_base": (0, False),
    "allgather_coalesced": (1, True),
    "reduce_scatter": (0, True),
    "reduce_scatter_base": (1, False),
    "reduce_scatter_tensor_coalesced": (1, False),
    "gather": (1, True),
    "scatter": (0, True),
    "alltoall": (1, False),
    "alltoall_base": (1, False),
}
"""By c10d op: the argument that has the bytes, and whether it is one rank's share.

The first argument has all of them for the others.
"""

ROOT = {"broadcast": 2, "reduce": 3, "gather": 3, "scatter": 3}
PEER, TAG, IN_SPLITS = 2, 3, 4
"""The arguments of a c10d op that are numbers."""

SHARES = {"all_gather", "gather"}
"""Verbs whose input is one rank's share."""

THREADS = 8
"""Calls that are looked at for a kernel, as many as run at one time in a rank."""


@dataclass
class Call:
    """One call on one rank; None and "" for what the file does not say.

    op: the verb, empty for the record of a wait. elements: of the full logical tensor,
    as `trace.Event` counts its bytes, or of one rank's share. splits: of an all_to_all,
    a number for each rank that is proportional to its bytes. root, peer: numbers in the
    group, whose name and ranks are `group` and `ranks`; size: how many they are.
    is_async: whether the caller goes on at once. kernel: what runs it on the GPU.
    """

    span: Slice
    op: str
    variant: str = ""
    dtype: str = ""
    elements: int | None = None
    is_share: bool = False
    group: str = ""
    ranks: tuple[int, ...] = ()
    size: int = 0
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    splits: list[int] = field(default_factory=list)
    is_async: bool | None = None
    kernel: Slice | None = None

    @property
    def nbytes(self) -> int | None:
        """Return the bytes, as in `trace.Event`; None where the file lacks them.

        Without a dtype they are as many as the elements.
        """
        if self.op == "barrier":
            return 0
        if self.elements is None:
            return None
        shares = self.size if self.is_share else 1
        return self.elements * shares * itemsize(self.dtype)


def calls_of(profile: Profile) -> list[Call]:
    """Return the calls of a rank in their order, and the records of its waits.

    The events of one call lie within each other: the op, the record of its parameters,
    and NCCL's annotation.
    """
    calls = []
    for slices in _nested(profile.calls):
        if slices[0].name.startswith("emulated:"):
            calls.append(Call(slices[0], ""))
        elif call := _call(slices):
            calls.append(call)
    _take_kernels(profile, calls)
    return calls


def gloo_spans(profile: Profile) -> list[Slice]:
    """Return when Gloo carried out collectives: its annotations, in their order."""
    messages = ("gloo:send", "gloo:recv")
    return [
        s
        for s in profile.calls
        if s.name.startswith("gloo:") and not s.name.startswith(messages)
    ]


def read_annotation(call: Call, annotation: Slice) -> None:
    """Take dtype and elements from the library's annotation, where no op has them."""
    dims, types = (annotation.args.get(f"Input {n}") for n in ("Dims", "type"))
    if not dims or not types:
        return
    call.dtype = call.dtype or dtype_of(types[0])
    if call.elements is None:
        _read_shape(call, types[0], dims, call.op in SHARES)


def _nested(slices: list[Slice]) -> Iterator[list[Slice]]:
    """Yield the events of each call: one of a thread, and those that lie within it."""
    open_calls: dict[Any, list[Slice]] = {}
    order: list[list[Slice]] = []
    for one in slices:
        if one.name.startswith("gloo:"):
            continue
        outer = open_calls.get(one.lane)
        if outer and one.begin < outer[0].end:
            outer.append(one)
        else:
            open_calls[one.lane] = [one]
            order.append(open_calls[one.lane])
    yield from order


def _call(slices: list[Slice]) -> Call | None:
    """Return the call that some nested events belong to; None if they are none."""
    params = [s for s in slices if s.args.get("Collective name")]
    verbs = [(verb_of(s.args["Collective name"]), s) for s in params]
    verbs += [(verb_of(s.name), s) for s in slices if s not in params]
    op, named = next(((v, s) for v, s in verbs if v), ("", slices[0]))
    if not op:
        is_wait = any(
            s.args.get("Collective name", "wait") == "wait" for s in slices
        ) and all(s.name == "record_param_comms" for s in slices)
        return Call(slices[0], "") if is_wait else None
    variant = slices[0].name.rpartition(":")[2].strip("_")
    call = Call(slices[0], op, op if variant == "record_param_comms" else variant)
    for one in slices:
        if one.name.startswith("c10d::"):
            _read_op(call, one.args)
        elif one.name.startswith("nccl:"):
            read_annotation(call, one)
    if named.args.get("Collective name"):
        _read_parameters(call, named.args)
    return call


def _read_parameters(call: Call, args: dict[str, Any]) -> None:
    """Take what the record of NCCL's parameters says."""
    call.dtype = dtype_of(args.get("dtype", ""))
    given, got = (int(args.get(f"{side} msg nelems", 0)) for side in ("In", "Out"))
    call.size = int(args.get("Group size") or 0)
    call.is_share = False
    call.elements = {
        "all_gather": max(got, given * call.size),
        "reduce_scatter": max(given, got * call.size),
        "gather": given * call.size,
        "scatter": got * call.size,
        "recv": got,
    }.get(call.op, given)
    call.group = str(args.get("Process Group Name", args.get("Process Group ID", "")))
    call.ranks = _ranks(args)
    if call.op in ROOT and "Rank" in args:
        call.root = int(args["Rank"])
    if call.op in ("send", "recv"):
        peer = args.get("Dst Rank" if call.op == "send" else "Src Rank")
        call.peer = None if peer is None else int(peer)
    if "Is asynchronized op" in args:
        call.is_async = str(args["Is asynchronized op"]).lower() in ("true", "1")
    if call.op == "all_to_all":
        call.splits = _numbers(args.get("In split size", ""))


def _ranks(args: dict[str, Any]) -> tuple[int, ...]:
    """Return the ranks of a group, of which a long list is cut short in the file."""
    text, size = str(args.get("Process Group Ranks", "")), int(args["Group size"])
    if "..." not in text:
        return tuple(_numbers(text))
    first, stride = (int(args.get(f"Global rank {n}", -1)) for n in ("start", "stride"))
    if first < 0 or stride < 1:
        return ()
    return tuple(range(first, first + stride * size, stride))


def _read_op(call: Call, args: dict[str, Any]) -> None:
    """Take what the arguments of a c10d op say, if the profiler wrote them."""
    dims, types = args.get("Input Dims"), args.get("Input type")
    values = args.get("Concrete Inputs") or []
    if not dims or not types:
        return
    number, is_share = _BUFFERS.get(call.variant, (0, False))
    _read_shape(call, types[number], dims[number], is_share)
    flags = [v for v in values if v in ("True", "False")]
    if flags:
        call.is_async = flags[-1] == "True"
    if call.op in ROOT:
        call.root = _number(values, ROOT[call.op])
    if call.op in ("send", "recv"):
        call.peer = _number(values, PEER)
        call.tag = _number(values, TAG) or 0
    if call.variant == "alltoall":
        call.splits = [_elements(shape) or 0 for shape in dims[1]]
    elif call.op == "all_to_all" and len(values) > IN_SPLITS:
        call.splits = _numbers(values[IN_SPLITS])


def _read_shape(call: Call, dtype: str, dims: list, is_share: bool) -> None:
    """Take dtype and elements from the shape of a tensor, or of a list of them."""
    elements = _elements(dims)
    if elements is not None:
        call.elements, call.is_share = elements, is_share
        call.dtype = dtype_of(dtype) or call.dtype


def _elements(dims: list) -> int | None:
    """Return the elements of a shape, or of a list of shapes; None without a shape."""
    if not dims:
        return None
    if isinstance(dims[0], list):
        return sum(_elements(shape) or 0 for shape in dims)
    return math.prod(int(n) for n in dims)


def _number(values: list[str], place: int) -> int | None:
    text = values[place] if place < len(values) else ""
    return int(text) if re.fullmatch(r"-?\d+", str(text)) else None


def _numbers(text: Any) -> list[int]:
    """Return a list of numbers that is written as text; empty if it is cut short."""
    try:
        value = json.loads(str(text))
    except json.JSONDecodeError:
        return []
    return value if isinstance(value, list) else []


def _take_kernels(profile: Profile, calls: list[Call]) -> None:
    """Give each call its kernel: it was launched during the call."""
    begin, _, correlation = profile.launches.columns()
    launched = dict(zip(correlation.tolist(), begin.tolist(), strict=True))
    verbs = [call for call in calls if call.op]
    begins = [call.span.begin for call in verbs]
    for kernel in profile.kernels:
        at = launched.get(kernel.correlation, math.nan)
        # Of calls in several threads at once it is the last to have begun, mostly.
        for number in range(bisect_right(begins, at) - 1, -1, -1)[:THREADS]:
            call = verbs[number]
            if at <= call.span.end and not call.kernel:
                call.kernel = kernel
                break

"""The sealed process group: torch.distributed in a rank, each call a frame.

`connect` makes it torch's default group, so that student code is plain
torch.distributed. Uses torch's Python `ProcessGroup`, which is semi-private: all of it
is here, but for what torch hands out for a call (`pending`).
"""

from __future__ import annotations

import datetime
import functools
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.wire.codec import DTYPES, decode, encode
from collectives_lab.wire.frames import Kind
from collectives_lab.wire.operations import ANY, REDUCE_OPS, REDUCING, VERBS
from collectives_lab.wire.pending import Operation, Several, Tensors
from collectives_lab.wire.rank_client import Wire, student_line

_BLOCKING = {"send", "recv"}
# Without its types, whose signatures differ from release to release.
_Group: Any = dist.ProcessGroup


def shape_of(*sides: Tensors) -> bytes:
    """Return what the switch must know of a collective: dtypes and sizes, in and
    out.
    """
    words = []
    for side in sides:
        words += [len(side), *(n for t in side for n in (_code(t), t.nbytes))]
    return struct.pack(f"<{len(words)}q", *words)


def _code(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided or tensor.dtype not in DTYPES:
        raise TypeError(f"the wire carries no {tensor.dtype} with {tensor.layout}")
    return DTYPES.index(tensor.dtype)


def _reduce_code(op: Any) -> int:
    for code, name in enumerate(REDUCE_OPS):
        if op == getattr(dist.ReduceOp, name):
            return code
    raise ValueError(f"the wire cannot reduce by {op}; need one of {REDUCE_OPS}")


class SealedGroup(_Group):
    """torch's process group, each call of it a frame to the switch."""

    wire: Wire

    def __init__(self, rank: int, size: int, number: int):
        super().__init__(rank, size)
        self._place, self._size, self._number = rank, size, number
        self._name = ""
        self.members: Sequence[int] = range(size)

    def getBackendName(self) -> str:
        return "sealed"

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def getRank(self) -> int:
        return self._place

    def getSize(self) -> int:
        return self._size

    def _get_backend(self, device: Any) -> SealedGroup:
        """Return what carries the messages; torch 2.15 asks it whether it coalesces."""
        return self

    # -- messages ------------------------------------------------------------------

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Operation:
        return self._message(Kind.SEND, tensors, self._member("dst", dst), tag)

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> Operation:
        return self._message(Kind.RECV, tensors, self._member("src", src), tag)

    def _member(self, name: str, rank: int) -> int:
        if not 0 <= rank < self._size:  # Gloo waits forever for rank -1
            raise ValueError(
                f"{name} is {rank}; need 0 <= {name} < world_size, which is "
                f"{self._size}: does a step of the ring lack its % world_size?"
            )
        return self.members[rank]

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Operation:
        return self._message(Kind.RECV, tensors, ANY, tag)

    def _message(self, kind: Kind, tensors: Tensors, peer: int, tag: int) -> Operation:
        (tensor,) = tensors
        if not tensor.is_contiguous():  # as Gloo does
            raise ValueError("input tensor has to be contiguous")
        code = _code(tensor)
        to_send, to_receive = (tensors, ()) if kind is Kind.SEND else ((), tensors)
        operation = Operation(self.wire, to_send, to_receive)
        blocks = sys._getframe(2).f_code.co_name in _BLOCKING
        group = self._number << 16 | blocks << 8 | code
        return self.wire.post(operation, kind, peer, tag, tensor.nbytes, group)

    # -- collectives ---------------------------------------------------------------

    def _collective(
        self,
        verb: str,
        to_send: Tensors,
        to_receive: Tensors,
        opts: Any = None,
        root: int | None = None,
        sends: bool = True,
        receives: bool = True,
    ) -> Operation:
        """Post a collective; what this rank does not give or take stays at home."""
        reduce_op = _reduce_code(opts.reduceOp) if verb in REDUCING else 0
        shape = shape_of(to_send, to_receive)
        operation = Operation(
            self.wire, to_send if sends else (), to_receive if receives else ()
        )
        at = ANY if root is None else self.members[root]
        numbers = (VERBS.index(verb), at, reduce_op, self._number << 16)
        return self.wire.post(operation, Kind.COLLECTIVE, *numbers, body=shape)

    def allreduce(self, tensors: Tensors, opts: Any) -> Operation:
        return self._collective("all_reduce", tensors, tensors, opts)

    def broadcast(self, tensors: Tensors, opts: Any) -> Operation:
        root = opts.rootRank
        is_root = root == self._place
        operation = self._collective(
            "broadcast", tensors, tensors, opts, root, is_root, not is_root
        )
        operation.outputs = tensors
        return operation

    def reduce(self, tensors: Tensors, opts: Any) -> Operation:
        return self._collective("reduce", tensors, tensors, opts, opts.rootRank)

    def scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any
    ) -> Operation:
        to_send, root = (inputs[0] if inputs else ()), opts.rootRank
        return self._collective("scatter", to_send, outputs, opts, root)

    def gather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any
    ) -> Operation:
        to_receive, root = (outputs[0] if outputs else ()), opts.rootRank
        return self._collective("gather", inputs, to_receive, opts, root)

    def allgather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> Operation:
        return self._collective("all_gather", inputs, outputs[0])

    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Operation:
        return self._collective("all_gather", [input], [output])

    _allgather_base = all_gather_single

    def reduce_scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any
    ) -> Operation:
        return self._collective("reduce_scatter", inputs[0], outputs, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any
    ) -> Operation:
        return self._collective("reduce_scatter", [input], [output], opts)

    _reduce_scatter_base = reduce_scatter_single

    def alltoall(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Operation:
        return self._collective("all_to_all", inputs, outputs)

    def alltoall_base(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Operation:
        parts = [
            list(t.split(list(splits) or [t.shape[0] // self._size] * self._size))
            for t, splits in ((output, output_splits), (input, input_splits))
        ]
        operation = self._collective("all_to_all", parts[1], parts[0])
        operation.outputs = [output]
        return operation

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Operation:
        return self._collective("barrier", (), ())

    def _each(
        self, call: Callable, outputs: Sequence, inputs: Sequence, *rest: Any
    ) -> Several:
        operations = [call(o, i, *rest) for o, i in zip(outputs, inputs, strict=True)]
        return Several(operations)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Operation:
        """Reduce several tensors in one operation, as Gloo does: they travel as one."""
        if len({t.dtype for t in tensors}) > 1:
            raise ValueError("tensors must all have the same type")
        return self._collective("all_reduce", tensors, tensors, opts)

    def allgather_into_tensor_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        return self._each(self.all_gather_single, outputs, inputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def reduce_scatter_tensor_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any
    ) -> Any:
        return self._each(self.reduce_scatter_single, outputs, inputs, opts)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


class _NoStore(dist.Store):
    """A store that answers what torch asks while it makes groups.

    Groups form by what each rank knows by itself: nothing is agreed upon here.
    """

    def __init__(self, world_size: int):
        super().__init__()
        self._world_size = world_size

    def set(self, key: str, value: Any) -> None:
        pass

    def get(self, key: str) -> bytes:
        return b""

    def add(self, key: str, amount: int) -> int:
        return self._world_size  # a barrier that counts ranks finds all of them

    def wait(self, keys: Any, timeout: Any = None) -> None:
        pass

    def check(self, keys: Any) -> bool:
        return True

    def delete_key(self, key: str) -> bool:
        return True

    def num_keys(self) -> int:
        return 0

    def set_timeout(self, timeout: Any) -> None:
        pass


class _Backend:
    """The backend from which torch makes groups: this process's wire and its groups."""

    wire: Wire
    groups: dict[tuple[int, ...], int]

    @classmethod
    def make(cls, options: Any, _: Any = None) -> SealedGroup:
        """Return a group and report it to the switch.

        It is the n-th of its members, who all count alike.
        """
        wire = cls.wire
        members = tuple(options.global_ranks_in_group) or tuple(range(wire.world_size))
        nth = cls.groups[members] = cls.groups.get(members, -1) + 1
        number = sum(cls.groups.values()) + len(cls.groups) - 1
        group = SealedGroup(options.group_rank, options.group_size, number)
        group.wire, group.members = wire, members
        body = struct.pack(f"<{len(members)}q", *members)
        wire.send_frame(Kind.GROUP, 0, number, nth, body=body)
        return group


dist.Backend.register_backend(
    "sealed", _Backend.make, extended_api=True, devices=["cpu"]
)


def compute(seconds: float) -> None:
    """Declare that this rank computes for so long: a replay counts it, nobody waits."""
    if not dist.is_initialized():
        raise RuntimeError("compute() is for ranks, and here is none yet")
    _Backend.wire.send_frame(
        Kind.COMPUTE, 0, round(seconds * 1e9), where=student_line()
    )


def ask(number: int, value: Any) -> Any:
    """Return what a function of the checker's makes of a value: number n of this
    rank's.
    """
    return decode(_Backend.wire.ask(number, encode(value)))


def put_on() -> None:
    """Let torch's own functions that ask for Gloo be content with the wire."""
    real = dist.new_group

    @functools.wraps(real)
    def new_group(*args: Any, **options: Any) -> Any:
        options.pop("backend", None)
        return real(*args[:2], *([None] if args[2:] else []), *args[3:], **options)

    def monitored_barrier(group: Any = None, *_: Any, **__: Any) -> None:
        dist.barrier(group)

    for module in (dist, dist.distributed_c10d):
        vars(module).update(new_group=new_group, monitored_barrier=monitored_barrier)


def connect(wire: Wire) -> None:
    """Make the sealed group torch's default; all calls go over this wire."""
    if dist.is_initialized():  # by a cell of a notebook
        dist.destroy_process_group()
    _Backend.wire, _Backend.groups = wire, {}
    dist.init_process_group(
        "sealed",
        store=_NoStore(wire.world_size),
        rank=wire.rank,
        world_size=wire.world_size,
        timeout=datetime.timedelta(days=1),
    )

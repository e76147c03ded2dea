"""The sealed process group: torch.distributed in a rank, over one socket to the switch.

A `Wire` is a rank's end of the socket, and `connect` makes it torch's default group,
so
that student code is plain torch.distributed. Nothing is sent before the switch asks for
it: the buffer of a send is read when its recv is matched, as late as any library may,
so that one reused early shows. We have no thread: frames are answered while one of the
student's threads waits. Uses torch's Python `ProcessGroup`, which is semi-private: all
of it is here.
"""

from __future__ import annotations

import datetime
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.wire import frames
from collectives_lab.wire.frames import Frame, Kind
from collectives_lab.wire.operations import ANY, REDUCE_OPS, REDUCING, VERBS
from collectives_lab.wire.values import DTYPES, raw_bytes, tensor_of

Tensors = Sequence[torch.Tensor]

_OWN = (os.path.dirname(__file__) + os.sep, os.path.dirname(torch.__file__) + os.sep)
ASKS = 64
"""How often a rank asks in vain whether something has ended before it polls."""

_BLOCKING = {"send", "recv"}
# Without their types, whose signatures differ from release to release.
_Work: Any = dist._Work if hasattr(dist, "_Work") else dist.Work
_Group: Any = dist.ProcessGroup


class Refused(RuntimeError):
    """The exercise does not allow this call."""


class Waitable(_Work):
    """What torch hands out for a call; no thread of ours ends it: it is waited for."""

    taken: Tensors

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[torch.Tensor]:
        return list(self.taken)

    def get_future(self) -> torch.futures.Future:
        """A future that is done when it is returned."""
        self.wait()
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self.result())
        return future


class Operation(Waitable):
    """One call on the way: what to give when asked, and where the answer goes."""

    def __init__(
        self,
        wire: Wire,
        given: Tensors = (),
        taken: Tensors = (),
    ):
        super().__init__()
        self.wire, self.given, self.taken = wire, given, taken
        self.id = 0
        self.source = ANY
        self.done = False
        self.waited = False
        self.polled = False
        self._future: _Future | None = None
        self.refused = ""

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the end; the switch ends the run if that never comes."""
        self.wire.wait(self)
        return True

    def is_completed(self) -> bool:
        """Whether it has ended; who asks again and again until it has, has waited."""
        self.wire.look()
        if not self.done:
            self.polled = self.wire.asked_in_vain()
        elif self.polled:
            self.wire.tell_of_waiting(self)
        return self.done

    def is_success(self) -> bool:
        return self.is_completed() and not self.refused

    def exception(self) -> None:
        return None

    def get_future(self) -> torch.futures.Future:
        """A future whose callbacks run when this has ended; it can be waited for."""
        if self._future is None:
            self._future = _Future()
            self._future.operation = self
            if self.done:
                self._future.set_result(self.result())
        return self._future

    def source_rank(self) -> int:
        """The rank that a recv from any rank has heard."""
        return self.source

    _source_rank = source_rank

    def finish(self, frame: Frame) -> None:
        """Store what came: the bytes of all that is taken, one after the other."""
        at = 0
        for tensor in self.taken:
            size = tensor.nbytes
            part = tensor_of(frame.body[at : at + size], tensor.dtype, tensor.shape)
            with torch.no_grad():
                tensor.detach().copy_(part)
            at += size
        self.source = frame.a
        self.done = True
        if self._future is not None:
            self._future.set_result(self.result())


class _Future(torch.futures.Future):
    """Torch's future, which is waited for on the wire: no thread of ours ends it."""

    operation: Operation

    def wait(self) -> Any:
        self.operation.wait()
        return super().wait()


class Wire:
    """A rank's end of the socket; any thread may use it, and one of them reads."""

    def __init__(self, sock: socket.socket, rank: int, world_size: int):
        self.sock, self.rank, self.world_size = sock, rank, world_size
        self.pending: dict[int, Operation] = {}
        self._numbers = 0
        self._in_vain = 0
        self._writing = threading.RLock()
        self._changed = threading.Condition()
        self._is_reading = False

    def tell(
        self, kind: Kind, id: int = 0, *numbers: int, where: str = "", body: bytes = b""
    ) -> None:
        """Send a frame: an operation's number, then up to four integers."""
        with self._writing:
            a, b, c, d, *_ = *numbers, 0, 0, 0, 0
            frame = Frame(kind, id, a, b, c, d, where, body)
            self.sock.sendall(frames.pack(frame))

    def post(
        self, operation: Operation, kind: Kind, *numbers: int, body: bytes = b""
    ) -> Operation:
        """Number an operation and tell the switch of it."""
        with self._writing:
            self._in_vain = 0
            self._numbers += 1
            operation.id = self._numbers
            self.pending[operation.id] = operation
            self.tell(kind, operation.id, *numbers, where=student_line(), body=body)
        return operation

    def wait(self, operation: Operation) -> None:
        """Answer the switch until this operation has ended."""
        self.tell_of_waiting(operation)
        while not operation.done:
            self._turn(operation)
        if operation.refused:
            raise Refused(operation.refused)

    def asked_in_vain(self) -> bool:
        """Tell, after some asking, that this rank does nothing else; whether it did."""
        self._in_vain += 1
        if self._in_vain == ASKS:
            self.tell(Kind.POLL)
        return self._in_vain >= ASKS

    def tell_of_waiting(self, operation: Operation) -> None:
        """Once, even where it has ended already: a trace says what is waited for."""
        if not operation.waited:
            operation.waited = True
            threads = threading.active_count()
            self.tell(Kind.WAIT, operation.id, threads, where=student_line())

    def _turn(self, operation: Operation) -> None:
        """Answer one frame, or let the thread that reads do so."""
        with self._changed:
            if self._is_reading:
                self._changed.wait_for(lambda: operation.done or not self._is_reading)
                return
            self._is_reading = True
        try:
            self.answer(frames.read(self.sock))
        finally:
            self._read_no_more()

    def _read_no_more(self) -> None:
        with self._changed:
            self._is_reading = False
            self._changed.notify_all()

    def look(self) -> None:
        """Answer what has come already, unless another thread does."""
        with self._changed:
            if self._is_reading:
                return
            self._is_reading = True
        try:
            while self._has_come():
                self.answer(frames.read(self.sock))
        finally:
            self._read_no_more()

    def _has_come(self) -> bool:
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def answer(self, frame: Frame) -> None:
        """Give the data of an operation, or end it."""
        self._in_vain = 0
        operation = self.pending.get(frame.id)
        if operation is None:
            return
        if frame.kind == Kind.READ:
            data = b"".join(map(raw_bytes, operation.given))
            self.tell(Kind.DATA, frame.id, body=data)
            return
        del self.pending[frame.id]
        if frame.kind == Kind.REFUSED:
            operation.refused, operation.done = frame.body.decode(), True
        else:
            operation.finish(frame)


def student_line() -> str:
    """`file:line` of the innermost frame that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def shape_of(*sides: Tensors) -> bytes:
    """What the switch must know of a collective: dtypes and sizes, in and out."""
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
        given, taken = (tensors, ()) if kind is Kind.SEND else ((), tensors)
        operation = Operation(self.wire, given, taken)
        blocks = sys._getframe(2).f_code.co_name in _BLOCKING
        group = self._number << 16 | blocks << 8 | code
        return self.wire.post(operation, kind, peer, tag, tensor.nbytes, group)

    # -- collectives ---------------------------------------------------------------

    def _collective(
        self,
        verb: str,
        given: Tensors,
        taken: Tensors,
        opts: Any = None,
        root: int | None = None,
        given_here: bool = True,
        taken_here: bool = True,
    ) -> Operation:
        """Post a collective; what this rank does not give or take stays at home."""
        reduce_op = _reduce_code(opts.reduceOp) if verb in REDUCING else 0
        shape = shape_of(given, taken)
        operation = Operation(
            self.wire, given if given_here else (), taken if taken_here else ()
        )
        at = ANY if root is None else self.members[root]
        numbers = (VERBS.index(verb), at, reduce_op, self._number << 16)
        return self.wire.post(operation, Kind.COLLECTIVE, *numbers, body=shape)

    def allreduce(self, tensors: Tensors, opts: Any) -> Operation:
        return self._collective("all_reduce", tensors, tensors, opts)

    def broadcast(self, tensors: Tensors, opts: Any) -> Operation:
        root = opts.rootRank
        mine = root == self._place
        return self._collective(
            "broadcast", tensors, tensors, opts, root, mine, not mine
        )

    def reduce(self, tensors: Tensors, opts: Any) -> Operation:
        return self._collective("reduce", tensors, tensors, opts, opts.rootRank)

    def scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any
    ) -> Operation:
        given, root = (inputs[0] if inputs else ()), opts.rootRank
        return self._collective("scatter", given, outputs, opts, root)

    def gather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any
    ) -> Operation:
        taken, root = (outputs[0] if outputs else ()), opts.rootRank
        return self._collective("gather", inputs, taken, opts, root)

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
            list(t.split(list(splits) or t.shape[0] // self._size))
            for t, splits in ((output, output_splits), (input, input_splits))
        ]
        return self._collective("all_to_all", parts[1], parts[0])

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Operation:
        return self._collective("barrier", (), ())

    def _each(
        self, call: Callable, outputs: Sequence, inputs: Sequence, *rest: Any
    ) -> Several:
        operations = [call(o, i, *rest) for o, i in zip(outputs, inputs, strict=True)]
        return Several(operations)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Several:
        return Several([self.allreduce([t], opts) for t in tensors])

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


class Several(Waitable):
    """Operations that one call has begun."""

    def __init__(self, operations: Sequence[Operation]):
        super().__init__()
        self.operations = operations
        self.taken = [tensor for each in operations for tensor in each.taken]

    def wait(self, timeout: Any = None) -> bool:
        for operation in self.operations:
            operation.wait()
        return True

    def is_completed(self) -> bool:
        return all(operation.is_completed() for operation in self.operations)


class _NoStore(dist.Store):
    """What torch asks a store for while it makes groups; every answer is at hand.

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
    """What torch makes groups from: the wire of this process and its groups so far."""

    wire: Wire
    groups: dict[tuple[int, ...], int]

    @classmethod
    def make(cls, options: Any, _: Any = None) -> SealedGroup:
        """A group, told to the switch: the n-th of its members, who all count alike."""
        wire = cls.wire
        members = tuple(options.global_ranks_in_group) or tuple(range(wire.world_size))
        nth = cls.groups[members] = cls.groups.get(members, -1) + 1
        number = sum(cls.groups.values()) + len(cls.groups) - 1
        group = SealedGroup(options.group_rank, options.group_size, number)
        group.wire, group.members = wire, members
        body = struct.pack(f"<{len(members)}q", *members)
        wire.tell(Kind.GROUP, 0, number, nth, body=body)
        return group


dist.Backend.register_backend(
    "sealed", _Backend.make, extended_api=True, devices=["cpu"]
)


def compute(seconds: float) -> None:
    """Declare that this rank computes for so long: a replay counts it, nobody waits."""
    _Backend.wire.tell(Kind.COMPUTE, 0, round(seconds * 1e9), where=student_line())


def connect(sock: socket.socket, rank: int, world_size: int) -> Wire:
    """Make the sealed group torch's default; all calls go over this socket."""
    _Backend.wire, _Backend.groups = Wire(sock, rank, world_size), {}
    dist.init_process_group(
        "sealed",
        store=_NoStore(world_size),
        rank=rank,
        world_size=world_size,
        timeout=datetime.timedelta(days=1),
    )
    return _Backend.wire

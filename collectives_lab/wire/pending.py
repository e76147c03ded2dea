"""Calls on the way: what torch hands out for one, and a rank's end of the socket.

Nothing is sent before the switch asks for it: the buffer of a send is read when its
recv is matched, as late as any library may, so that one reused early shows. That alone
would make a program right that posts a send first and fills its buffer then, so a
strict call (`Wire.strict`) compares what is read with what was there at first. We have
no thread: frames are answered while one of the student's threads waits.
"""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
import threading
import zlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.wire import frames
from collectives_lab.wire.frames import Frame, Kind
from collectives_lab.wire.operations import ANY
from collectives_lab.wire.values import raw_bytes, tensor_of

Tensors = Sequence[torch.Tensor]

ASKS = 64
"""How often a rank asks in vain whether something has ended before it polls."""


_OWN = (
    os.path.dirname(__file__) + os.sep,
    *(
        os.path.join(folder, "")
        for folder in (
            # where torch is installed is what wraps its functions: typing_extensions
            os.path.dirname(os.path.dirname(torch.__file__)),
            *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        )
    ),
)
"""Where code lies that is not the student's."""

# Without its types, whose signatures differ from release to release.
_Work: Any = dist._Work if hasattr(dist, "_Work") else dist.Work


class Refused(RuntimeError):
    """The exercise does not allow this call."""


class TensorInUse(RuntimeError):
    """A tensor was written to while it was being sent."""


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
        self.where = ""
        self.sum: int | None = None
        """Of what is given, in a strict call until it has been read."""

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


class Wire:
    """A rank's end of the socket; any thread may use it, and one of them reads."""

    def __init__(self, sock: socket.socket, rank: int, world_size: int):
        self.sock, self.rank, self.world_size = sock, rank, world_size
        self.pending: dict[int, Operation] = {}
        self.strict = False
        """Whether a tensor must stay as it is from a call until its data is read."""
        self._overwritten = ""
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
        operation.where = student_line()
        if self.strict:
            operation.sum = zlib.crc32(_data(operation))
        with self._writing:
            self._in_vain = 0
            self._numbers += 1
            operation.id = self._numbers
            self.pending[operation.id] = operation
            self.tell(kind, operation.id, *numbers, where=operation.where, body=body)
        return operation

    def wait(self, operation: Operation) -> None:
        """Answer the switch until this operation has ended."""
        self.tell_of_waiting(operation)
        while not operation.done:
            self._refuse_overwritten()
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
            data = _data(operation)
            self.tell(Kind.DATA, frame.id, body=data)
            self._compare(operation, data)
            return
        del self.pending[frame.id]
        if frame.kind == Kind.REFUSED:
            operation.refused, operation.done = frame.body.decode(), True
        else:
            operation.finish(frame)

    def _compare(self, operation: Operation, data: bytes) -> None:
        """Raise TensorInUse if, in a strict call, the data is not what was posted."""
        if self.strict and operation.sum not in (None, zlib.crc32(data)):
            self._overwritten = operation.where
            self._refuse_overwritten()
        operation.sum = None

    def _refuse_overwritten(self) -> None:
        """Again in every thread, and where the student's code has caught it."""
        if self._overwritten:
            raise TensorInUse(
                "a tensor was written to while it was being sent "
                f"({self._overwritten}). It belongs to the library from the call until "
                "its wait returns: read at once, what it held is sent; read late, what "
                "was written then"
            )

    def compare_unread(self) -> None:
        """The same for what nobody has waited for, once the function has returned."""
        self._refuse_overwritten()
        for operation in list(self.pending.values()):
            if operation.sum is not None:
                self._compare(operation, _data(operation))


def _data(operation: Operation) -> bytes:
    return b"".join(map(raw_bytes, operation.given))


def student_line() -> str:
    """`file:line` of the innermost frame that is neither a library's nor ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

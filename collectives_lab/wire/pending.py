"""Calls on the way: what torch hands out for one, to be waited for.

No thread of ours ends an operation: whoever waits for it answers the switch meanwhile
(`rank_client.Wire`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

from collectives_lab.wire.codec import tensor_of
from collectives_lab.wire.frames import Frame
from collectives_lab.wire.futures import Future
from collectives_lab.wire.operations import ANY

Tensors = Sequence[torch.Tensor]

# Without its types, whose signatures differ from release to release.
_Work: Any = dist._Work if hasattr(dist, "_Work") else dist.Work


class Wire(Protocol):
    """The protocol of a rank's wire, as far as an operation needs it."""

    def wait(self, operation: Operation) -> None: ...
    def receive_frames(self) -> None: ...
    def poll(self, operation: Operation) -> None: ...
    def tend(self) -> None: ...


class Waitable(_Work):
    """The work that torch hands out for a call; it ends when somebody waits for it."""

    to_receive: Tensors

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[torch.Tensor]:
        return list(self.to_receive)

    def get_future(self) -> torch.futures.Future:
        """Return a future that is done when it is returned."""
        self.wait()
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self.result())
        return future


class Operation(Waitable):
    """One call on the way: what to give when asked, and where the answer goes."""

    def __init__(
        self,
        wire: Wire,
        to_send: Tensors = (),
        to_receive: Tensors = (),
    ):
        super().__init__()
        self.wire, self.to_send, self.to_receive = wire, to_send, to_receive
        self.outputs = to_receive
        """The caller's tensors that hold the result; `taken` may be parts of them."""
        self.id = 0
        self.source = ANY
        self.done = False
        self.waited = False
        self.polled = False
        self._future: Future | None = None
        self.refused = ""
        self.where = ""
        self.room: int | None = None
        """Of what is taken, in a strict call, as it was before anything came."""

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the end; the switch ends the run if that never comes."""
        self.wire.wait(self)
        return True

    def is_completed(self) -> bool:
        """Return whether it has ended and its data is here.

        Asks the switch for it if not.
        """
        self.wire.receive_frames()
        if not self.done:
            self.wire.poll(self)
        return self.done

    def is_success(self) -> bool:
        return self.is_completed() and not self.refused

    def result(self) -> list[torch.Tensor]:
        return list(self.outputs)

    def exception(self) -> None:
        return None

    @property
    def has_future(self) -> bool:
        """Whether its end may concern somebody."""
        return self._future is not None

    def get_future(self) -> torch.futures.Future:
        """Return a future whose callbacks run when this has ended.

        It can be waited for.
        """
        if self._future is None:
            self._future = Future()
            self._future.operations = [self]
            self._future.tend = self.wire.tend
            if self.done:
                self.settle()
        return self._future

    def source_rank(self) -> int:
        """Return the rank that a recv from any rank has received from."""
        return self.source

    _source_rank = source_rank

    def finish(self, frame: Frame) -> None:
        """Store what came: the bytes of all that is taken, one after the other."""
        at = 0
        for tensor in self.to_receive:
            size = tensor.nbytes
            part = tensor_of(frame.body[at : at + size], tensor.dtype, tensor.shape)
            with torch.no_grad():
                tensor.detach().copy_(part)
            at += size
        self.source = frame.a
        self.done = True

    def settle(self) -> None:
        """Let its future go on; callbacks may call the library again."""
        if self._future is not None and not self._future.has_result:
            self._future.has_result = True
            self._future.set_result(self.result())


class Question:
    """A rank's question to the checker, and the answer once it is there."""

    to_send: Tensors = ()
    to_receive: Tensors = ()
    room = None

    where = ""

    def __init__(self) -> None:
        self.done, self.refused, self.answer = False, "", b""

    def finish(self, frame: Frame) -> None:
        """Take the answer."""
        self.answer, self.done = frame.body, True

    def settle(self) -> None:
        """Do nothing: no callback hangs on it."""


class Several(Waitable):
    """Operations that one call has begun."""

    def __init__(self, operations: Sequence[Operation]):
        super().__init__()
        self.operations = operations
        self.to_receive = [tensor for each in operations for tensor in each.to_receive]

    def wait(self, timeout: Any = None) -> bool:
        for operation in self.operations:
            operation.wait()
        return True

    def is_completed(self) -> bool:
        return all(operation.is_completed() for operation in self.operations)

"""A rank's end of the socket: it reports calls to the switch and answers its questions.

What a call gives goes with it, so no rank can give what it gets later. A library may
read a tensor as late as its receiver takes it, so the switch asks then for the digest
of what it holds. Where something is received, the rank looks itself, in a strict call
(`Wire.strict`), whether the tensor is as it was. A program that hides that it is not
has kept a copy of what it sends, and apart what it receives, and then it is right. We
have no thread: frames are answered while one of the student's threads waits.
"""

from __future__ import annotations

import collections
import contextlib
import os
import socket
import sys
import sysconfig
import threading
import time
import zlib
from collections.abc import Callable
from typing import TypeGuard

import torch

from collectives_lab.wire import frames
from collectives_lab.wire.codec import raw_bytes
from collectives_lab.wire.frames import Frame, Kind
from collectives_lab.wire.pending import Operation, Question, Tensors

ASKS, FEW, LONG = 64, 4, 0.1
"""How often a rank asks in vain whether something has ended before it rests; a few
times are enough over so many seconds."""

TEND = 0.2
"""Seconds without a frame after which futures that have callbacks are waited for, as a
library's own thread would: the thread that they are for may wait for anything."""

PAUSE = 2e-4
"""Seconds that a question takes which was asked in vain again and again: such a loop
would keep a core from the rank that it waits for, and eat up the own CPU seconds."""

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


class Refused(RuntimeError):
    """The exercise does not allow this call."""


class TensorInUse(RuntimeError):
    """A tensor was written to while the library received into it."""


class Wire:
    """A rank's end of the socket; any thread may use it, and one of them reads."""

    def __init__(self, sock: socket.socket, rank: int, world_size: int):
        self.sock, self.rank, self.world_size = sock, rank, world_size
        self.pending: dict[int, Operation | Question] = {}
        self.strict = self.is_called = False
        """Whether nothing may be written to where something is being received."""
        self.commands: collections.deque[Frame] = collections.deque()
        """Programs and calls that have come."""
        self._overwritten = ""
        self._numbers = 0
        self._in_vain, self._since, self._rests = 0, 0.0, False
        self._ended: collections.deque[Operation | Question] = collections.deque()
        self._tender: threading.Thread | None = None
        self._frames = 0
        self._writing = threading.RLock()
        self._changed = threading.Condition()
        self._is_reading = False

    def send_frame(
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
        """Number an operation and report it to the switch."""
        operation.where = student_line()
        if kind is not Kind.RECV:
            body += _data(operation.to_send)
        if self.strict:
            operation.room = _sum(operation.to_receive)
        with self._writing:
            self._in_vain, self._rests = 0, False
            operation.id = self._number(operation)
            self.send_frame(
                kind, operation.id, *numbers, where=operation.where, body=body
            )
        return operation

    def _number(self, what: Operation | Question) -> int:
        self._numbers += 1
        self.pending[self._numbers] = what
        return self._numbers

    def ask(self, number: int, body: bytes) -> bytes:
        """Ask the checker for what a function of its own makes of a value.

        Raises ValueError where that function does not take it.
        """
        question = Question()
        with self._writing:
            self.send_frame(Kind.ASK, self._number(question), number, body=body)
        while not question.done:
            self._turn(lambda: question.done)
        if question.refused:
            raise ValueError(question.refused)
        return question.answer

    def wait(self, operation: Operation) -> None:
        """Answer the switch until this operation has ended."""
        self.report_wait(operation)
        while not operation.done:
            self.refuse_overwritten()
            self._turn(lambda: operation.done)
        if operation.refused:
            raise Refused(operation.refused)

    def poll(self, operation: Operation) -> None:
        """Ask the switch for what comes of an operation; after many questions, pause.

        A rank gets only what it waits or asks for. The answer comes later, to `look`.
        """
        now = time.monotonic()
        self._since = self._since if self._in_vain else now
        self._in_vain += 1
        rests = self._in_vain >= (FEW if now - self._since >= LONG else ASKS)
        if not operation.polled or rests > self._rests:
            operation.polled, self._rests = True, rests
            self.send_frame(Kind.POLL, operation.id, rests)
        if rests:
            time.sleep(PAUSE)

    def report_wait(self, operation: Operation) -> None:
        """Report a wait for a call, once, even if the call has ended already."""
        if not operation.waited:
            operation.waited = True
            threads = threading.active_count() - (self._tender is not None)
            self.send_frame(Kind.WAIT, operation.id, threads, where=student_line())

    def command(self) -> Frame:
        """Return the next program or call; raises EOFError when the switch has left."""
        while not self.commands:
            self._turn(lambda: bool(self.commands))
        return self.commands.popleft()

    def _turn(self, over: Callable[[], bool]) -> None:
        """Answer one frame, or let the thread that reads do so; over: nobody need."""
        with self._changed:
            if self._is_reading:
                self._changed.wait_for(lambda: over() or not self._is_reading)
                return
            if over():
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
        while self._ended:
            self._ended.popleft().settle()

    def leave(self) -> None:
        """Let nobody wait from here on, as the call has ended."""
        with self._writing:
            self.strict = self.is_called = False

    def tend(self) -> None:
        """Wait for futures with callbacks where the rank does nothing else."""
        if self._tender is None:
            self._tender = threading.Thread(target=self._tend, daemon=True)
            self._tender.start()

    def _tend(self) -> None:
        """Wait for what has a future once no frame has come or gone for a while."""
        seen = (-1, -1)
        while True:
            time.sleep(TEND)
            hangs = [op for op in list(self.pending.values()) if has_future(op)]
            before, seen = seen, (self._frames, self._numbers)
            if not hangs or seen != before or self._is_reading:
                continue
            with self._writing:
                if not self.is_called:
                    continue
                self.report_wait(hangs[0])
            with contextlib.suppress(Exception):  # the student's wait raises it
                self.wait(hangs[0])

    def receive_frames(self) -> None:
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
        """Tell what an operation gives by now, or end it; keep a command."""
        self._in_vain, self._rests = 0, False
        self._frames += 1
        if frame.kind in (Kind.LOAD, Kind.CALL):
            self.commands.append(frame)
            return
        operation = self.pending.get(frame.id)
        if operation is None:
            return
        if frame.kind == Kind.READ:
            self.send_frame(
                Kind.DIGEST, frame.id, body=frames.digest(_data(operation.to_send))
            )
            return
        del self.pending[frame.id]
        if frame.kind == Kind.REFUSED:
            operation.refused, operation.done = frame.body.decode(), True
        else:
            self._compare_received(operation)
            operation.finish(frame)
        self._ended.append(operation)

    def _compare_received(self, operation: Operation | Question) -> None:
        """Raise TensorInUse if, in a strict call, its room has been written to."""
        before = operation.room if self.strict else None
        if before is not None and before != _sum(operation.to_receive):
            self._overwritten = (
                f"while something was being received into it ({operation.where}). It "
                "belongs to the library from the call until its wait returns: what "
                "comes early is overwritten, and what comes late overwrites"
            )
            self.refuse_overwritten()

    def refuse_overwritten(self) -> None:
        """Raise again, in every thread, what the student's code may have caught."""
        if self._overwritten:
            raise TensorInUse(f"a tensor was written to {self._overwritten}")


def has_future(what: Operation | Question) -> TypeGuard[Operation]:
    """Return whether its end may concern somebody."""
    return isinstance(what, Operation) and what.has_future


def _data(tensors: Tensors) -> bytes:
    return b"".join(map(raw_bytes, tensors))


def _sum(tensors: Tensors) -> int:
    return zlib.crc32(_data(tensors))


def student_line() -> str:
    """Return `file:line` of the innermost frame that is no library's and not ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

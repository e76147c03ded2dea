"""The switch's ends of the wires: what ranks send and print, as it comes."""

from __future__ import annotations

import contextlib
import os
import selectors
from collections.abc import Sequence
from functools import partial

from collectives_lab.wire import frames
from collectives_lab.wire.frames import Frame
from collectives_lab.wire.line import Line
from collectives_lab.wire.outcome import Broken, Failure

MOST_UNSENT = 64 << 20
"""Bytes that wait for all ranks together: one result may go to each of them."""

MOST_PRINTED = 4096
"""Bytes of what a rank prints that are kept."""

LARGEST_READ = 1 << 18


class Wires:
    """The sockets of `lines`, their ranks' `outputs`, and what else may wake us.

    No rank is waited for: what they do not read is kept, up to MOST_UNSENT bytes.
    """

    def __init__(
        self, lines: Sequence[Line], outputs: Sequence[int], beside: Sequence[int]
    ):
        self._lines = lines
        self._printed = [bytearray() for _ in lines]
        self._selector = selectors.DefaultSelector()
        for line in lines:
            line.sock.setblocking(False)
            self._selector.register(line.sock, selectors.EVENT_READ, line)
        for fd, printed in zip(outputs, self._printed, strict=True):
            read = partial(self._hear_output, fd, printed)
            self._selector.register(fd, selectors.EVENT_READ, read)
        for fd in beside:
            self._selector.register(fd, selectors.EVENT_READ, lambda: None)

    def close(self) -> None:
        """Close them; ranks that live end."""
        self._selector.close()
        for line in self._lines:
            line.sock.close()

    def ready(self, seconds: float) -> list[Line]:
        """Return the lines that have something to read, waited for at most that
        long.
        """
        readable = []
        for key, events in self._selector.select(seconds):
            if not isinstance(key.data, Line):
                key.data()
                continue
            if events & selectors.EVENT_WRITE:
                self._flush(key.data)
            if events & selectors.EVENT_READ:
                readable.append(key.data)
        return readable

    def read(self, line: Line) -> bytes | None:
        """Return what a rank has sent.

        None if nothing, b"" once its process has ended.
        """
        try:
            data = line.sock.recv(LARGEST_READ)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(line.sock)
        return data

    def send(self, line: Line, frame: Frame) -> None:
        """Send a frame to a rank, or keep it until the rank reads."""
        # A program and arguments are the checker's own, and read before anything runs.
        is_own = frame.kind in (frames.Kind.LOAD, frames.Kind.CALL)
        waiting = 0 if is_own else sum(len(each.unsent) for each in self._lines)
        if waiting + len(frame.body) > MOST_UNSENT:
            text = "more is to go to the ranks than they read"
            raise Broken(Failure("flood", text, line.rank))
        line.unsent += frames.pack(frame)
        self._flush(line)

    def _flush(self, line: Line) -> None:
        try:
            while line.unsent:
                del line.unsent[: line.sock.send(line.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            line.unsent.clear()  # it has ended, which reading will show
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.unsent else 0)
        with contextlib.suppress(KeyError):
            self._selector.modify(line.sock, events, line)

    def _hear_output(self, fd: int, printed: bytearray) -> None:
        data = os.read(fd, LARGEST_READ)
        printed += data[: MOST_PRINTED - len(printed)]
        if not data:
            self._selector.unregister(fd)

    def printed(self) -> str:
        """Return what ranks have printed, once where it is the same for all."""
        self.ready(0)  # what came between the last look and the last frame
        texts = [printed.decode("utf-8", "replace") for printed in self._printed]
        if len(set(texts)) == 1:
            return texts[0]
        return "".join(f"rank {r}: {text}\n" for r, text in enumerate(texts) if text)

    def forget_printed(self) -> None:
        """Keep only what is printed from now on."""
        for printed in self._printed:
            printed.clear()

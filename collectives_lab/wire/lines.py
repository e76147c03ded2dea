"""The switch's ends of the wires: what each rank sends, prints, and is given.

A `Line` is the end of one rank's socket, with what is known of that rank; `Wires` waits
on all of them. A rank that had its data before it says that it waits could use it
unseen, and a replay would take its next calls for calls that need nothing of it. So
what has come for it is kept (`Line.keep`) until it may use it (`Wires.hand_over`).
Asking for it now and then is no waiting: what is there by then is a matter of the
clock.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any

from collectives_lab.wire import frames
from collectives_lab.wire.frames import Frame, Ran
from collectives_lab.wire.outcome import Broken, Failure
from collectives_lab.wire.posted import Posted, World

MOST_UNSENT = 64 << 20
"""Bytes that wait for all ranks together: one result may go to each of them."""

MOST_PRINTED = 4096
"""Bytes of what a rank prints that are kept."""

LARGEST_READ = 1 << 18


@dataclass(eq=False)
class Line:
    """The switch's end of a rank's socket, and what is known of the rank."""

    rank: int
    sock: socket.socket
    reader: frames.Reader = field(default_factory=frames.Reader)
    unsent: bytearray = field(default_factory=bytearray)
    waits_for: set[int] = field(default_factory=set)
    threads: int = 1
    polls: bool = False
    answered: bool = True
    has_ended: bool = False
    answer: Any = None
    arguments: int = 0
    after: tuple | None = None
    returned: int = 0
    """Bytes of what it has returned."""
    groups: dict[int, str] = field(default_factory=lambda: {0: World})
    posted: dict[int, Posted] = field(default_factory=dict)
    undelivered: dict[str, dict[int, Frame]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By lane, what has come of its operations and has not been asked for."""
    holds: int = 0
    last_id: int = 0
    at: tuple[str, int] | None = None
    """The statement of a notebook that it says it runs: cell, the how manieth."""
    ran: Sequence[Ran] = ()

    def begin(self) -> None:
        """Forget what the call before has left."""
        self.answered, self.answer, self.after = False, None, None
        self.waits_for.clear()
        self.polls = False
        self.posted.clear()
        self.undelivered.clear()
        self.holds = self.returned = 0

    @property
    def keeps(self) -> int:
        """Bytes of it that the switch keeps; for what is to go, `Wires` has a bound."""
        return len(self.reader) + self.holds + self.returned

    @property
    def rests(self) -> bool:
        """Whether it does nothing by itself: it has returned, waits or polls."""
        return self.answered or self.polls or len(self.waits_for) >= self.threads

    @property
    def may_rest(self) -> bool:
        """Whether some thread of it waits; what the others do is not known."""
        return self.rests or bool(self.waits_for)

    def keep(self, op: Posted, done: Frame) -> None:
        """Keep what has come of an operation; raises Broken if it never takes any."""
        self.undelivered[op.lane][op.id] = done
        self.holds += len(done.body)
        if self.holds > MOST_UNSENT:
            text = "it waits for nothing of what it gets"
            raise Broken(Failure("flood", text, op.rank))


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

    def hand_over(self, line: Line, op: Posted) -> None:
        """Give a rank what has come of an operation: from here on it may use it.

        With a collective go the earlier ones of its group, which run one by one.
        """
        undelivered = line.undelivered[op.lane]
        earlier = takewhile(lambda id: id < op.id, list(undelivered) if op.lane else ())
        for id in earlier:
            self._give(line, line.posted[id], op)
        if op.id in undelivered:
            self._give(line, op, op)

    def _give(self, line: Line, op: Posted, request: Posted) -> None:
        if op.waited is None and (request.polled or request.waited is not None):
            op.waited = time.monotonic()
        line.waits_for.discard(op.id)
        line.polls = False
        done = line.undelivered[op.lane].pop(op.id)
        line.holds -= len(done.body)
        self.send(line, done)

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

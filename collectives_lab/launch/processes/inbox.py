"""The inbox of a group's launcher: reports, answers, output and ends of its ranks.

`Inbox` waits on every channel and pipe at once and puts what it reads where it
belongs: into the outcome of the job, onto the reader's screen, or to who has asked.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from typing import Any

from collectives_lab.basics.live_area import LiveArea
from collectives_lab.deadlock.status_board import Board
from collectives_lab.launch.processes.handles import Processes
from collectives_lab.launch.processes.job import JobRequest, Outcome
from collectives_lab.launch.processes.printed_output import Decoder, Echo, Transcript
from collectives_lab.launch.rank.channel import ChannelClosed, Parts, unpack
from collectives_lab.launch.rank.replies import REPLIES

_CHUNK = 2**18


class Inbox:
    """The reader of all channels and pipes of a group.

    joined: the ranks in the group; gone: those that have ended; ungrouped: those whose
    last job has left them without a process group.
    """

    def __init__(self, processes: Processes, board: Board):
        self.processes = processes
        self.board = board
        self.outcome = Outcome([])
        self.joined: set[int] = set()
        self.gone: set[int] = set()
        self.ungrouped: set[int] = set()
        self.replies: dict[int, dict[int, Any]] = {}
        self._job = 0
        self._echo: Echo | None = None
        self._transcripts = [Transcript() for _ in processes.handles]
        self._decoders: dict[tuple[int, str], Decoder] = {}
        self._selector = selectors.DefaultSelector()
        read = selectors.EVENT_READ
        if processes.fileno() >= 0:
            self._selector.register(processes.fileno(), read, (self._ended, None))
        for rank, handles in enumerate(processes.handles):
            self._selector.register(
                handles.channel.fileno(), read, (self._receive, rank)
            )
            for fd, stream in ((handles.out, "stdout"), (handles.err, "stderr")):
                self._decoders[rank, stream] = Decoder()
                if fd is not None:
                    os.set_blocking(fd, False)
                    self._selector.register(fd, read, (self._read, (rank, stream, fd)))

    def expect(self, number: int, outcome: Outcome, request: JobRequest) -> None:
        """Begin a job: what ranks report and print from now on belongs to it."""
        self._job, self.outcome = number, outcome
        self._transcripts = [Transcript() for _ in self.processes.handles]
        outcome.output = self._transcripts
        self._echo = Echo(len(self._transcripts), display=request.display)

    def pump(self, seconds: float) -> None:
        """Take in whatever has come, waiting for it at most so long."""
        for key, _ in self._selector.select(seconds):
            if key.fd in self._selector.get_map():  # not stopped by one before it
                handle, argument = key.data
                handle(argument)
        if self.processes.fileno() < 0 or self.gone:
            self._ended(None)
        if self._echo is not None:
            self._echo.show()

    @property
    def live(self) -> LiveArea | None:
        """The live area of the job, if it has one that somebody sees."""
        live = None if self._echo is None else self._echo.live
        return live if live is not None and live.is_seen else None

    def flush(self) -> None:
        """Show what is left of the output of a job that is over."""
        self._drain_pipes()
        for (rank, stream), decoder in self._decoders.items():
            self._put(rank, stream, decoder.flush())
        if self._echo is not None:
            self._echo.show(all_of_it=True)

    def close(self) -> None:
        """Read nothing any more."""
        self._selector.close()

    # -- messages ------------------------------------------------------------------

    def _receive(self, rank: int) -> None:
        channel = self.processes.handles[rank].channel
        try:
            message, parts, _ = channel.recv()
        except ChannelClosed:
            self._stop_listening(channel.fileno())
            self.gone.add(rank)
            return
        kind, *rest = message
        if kind == "done":
            self._done(rank, rest[0], rest[1], parts)
        elif kind == "output":
            self._take(rank, *rest)
        elif kind == "ended":
            self.processes.ended[rank] = rest[0]
        elif kind == "board":
            self.board.post(rank, *rest)
        elif kind == "display" and self._echo is not None:
            self._drain_pipes(rank)
            self._echo.display(rank, unpack(parts))
            with contextlib.suppress(ChannelClosed):
                channel.send(("shown",))
        elif kind == "mismatch":
            self.outcome.mismatched[rank] = rest[0]
        elif kind == "leaving":
            self.outcome.leaving[rank] = tuple(rest)
        elif kind in (*REPLIES, "clock"):
            self.replies.get(rest[0], {})[rank] = rest[1]

    def _done(
        self, rank: int, number: int, report: dict[str, Any], parts: Parts
    ) -> None:
        if number == 0 and "kind" not in report:
            self.joined.add(rank)
        elif number in (0, self._job) and rank not in self.outcome.reports:
            if report.get("grouped"):
                self.ungrouped.discard(rank)
            else:
                self.ungrouped.add(rank)
            self.outcome.reports[rank] = report
            self.outcome.results[rank] = parts

    # -- deaths ----------------------------------------------------------------------

    def _ended(self, _: None) -> None:
        self.processes.poll()
        for rank, status in self.processes.ended.items():
            if rank in self.outcome.pending:
                self._drain_pipes(rank)
                self._drain_channel(rank)
                if rank in self.outcome.pending:
                    self.outcome.deaths[rank] = status
                    self.outcome.last_line[rank] = self.board.line[rank]
            self.gone.add(rank)

    def _drain_channel(self, rank: int) -> None:
        """Receive what a rank sent before it died."""
        channel = self.processes.handles[rank].channel
        with selectors.DefaultSelector() as selector:
            selector.register(channel, selectors.EVENT_READ)
            known = self._selector.get_map()
            while channel.fileno() in known and selector.select(0):
                self._receive(rank)

    # -- output --------------------------------------------------------------------

    def _read(self, source: tuple[int, str, int]) -> bool:
        """Take one chunk of output; False when there is none now."""
        rank, stream, fd = source
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._stop_listening(fd)
            return False
        self._take(rank, stream, data)
        return True

    def _take(self, rank: int, stream: str, data: bytes) -> None:
        self._put(rank, stream, self._decoders[rank, stream](data))

    def _put(self, rank: int, stream: str, text: str) -> None:
        self._transcripts[rank].add(text)
        if self._echo is not None:
            self._echo.add(rank, stream, text)

    def _stop_listening(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)

    def _drain_pipes(self, only: int | None = None) -> None:
        """Read what ranks have printed so far: a report comes after it was written."""
        for key in list(self._selector.get_map().values()):
            handle, source = key.data
            if handle == self._read and only in (None, source[0]):
                until = time.monotonic() + 2.0
                while self._read(source) and time.monotonic() < until:
                    pass

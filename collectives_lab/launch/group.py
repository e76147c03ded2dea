"""A group of ranks from the launcher's side: jobs go out, reports and output come in.

One thread, the caller's, does it all: it waits on every channel and pipe at once,
watches the status board for a deadlock, and keeps the deadline. Here a `Group` starts
ranks, does a `job` on them, frees those that are blocked (`recover`) and ends them
(`close`).
"""

from __future__ import annotations

import contextlib
import linecache
import os
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from collectives_lab import board as status_board
from collectives_lab import deadlock
from collectives_lab.launch import processes as rank_processes
from collectives_lab.launch.channel import ChannelClosed, Parts, unpack
from collectives_lab.launch.job import Asked, Outcome
from collectives_lab.launch.output import (
    Decoder,
    Echo,
    Transcript,
)
from collectives_lab.launch.watch import TICK, Watch

SETTLE = 0.1
"""Seconds that the others have to report too, once one rank has failed."""

FREED = 2.0
"""Seconds in which blocked ranks must be free again, or be ended."""

_CHUNK = 2**18
_ANSWERS = ("snapshot", "asleep", "peek", "describe")


class Group:
    """Ranks that can be given jobs, one job at a time."""

    def __init__(
        self,
        world_size: int,
        backend: str,
        start_method: str,
        env: Mapping[str, str] | None = None,
    ):
        self.world_size = world_size
        self.backend = backend
        self.alive = True
        self._number = self._job = 0
        self._transcripts = [Transcript() for _ in range(world_size)]
        self._echo: Echo | None = None
        self._replies: dict[int, dict[int, Any]] = {}
        self._outcome = Outcome([])
        self._gone: set[int] = set()
        self._joined: set[int] = set()
        self._ungrouped: set[int] = set()
        self._store_file: str | None = None
        self.processes = rank_processes.start(world_size, start_method)
        try:
            board = status_board.create(world_size)
            self.board = status_board.Board(board, world_size)
            self._listen()
            self._join(env or {}, board)
        except BaseException:
            self.close()
            raise

    # -- starting ------------------------------------------------------------------

    def _listen(self) -> None:
        self._selector = selectors.DefaultSelector()
        read = selectors.EVENT_READ
        if self.processes.fileno() >= 0:
            self._selector.register(self.processes.fileno(), read, (self._ended, None))
        for rank, ends in enumerate(self.processes.ends):
            self._selector.register(ends.channel.fileno(), read, (self._hear, rank))
            for fd, stream in ((ends.out, "stdout"), (ends.err, "stderr")):
                os.set_blocking(fd, False)
                source = (self._read, (rank, stream, fd, Decoder()))
                self._selector.register(fd, read, source)

    def _join(self, env: Mapping[str, str], board: int) -> None:
        """Tell each rank who it is; its first job need not wait for the answer."""
        fds = [board]
        if hasattr(os, "memfd_create"):
            fds.append(status_board.anonymous_file("collectives_lab-store"))
        else:
            handle, self._store_file = tempfile.mkstemp(prefix="collectives_lab-")
            os.close(handle)
        shared = {
            "world_size": self.world_size,
            "backend": self.backend,
            "path": sys.path,
            "cwd": _folder(),
            "store": self._store_file,
        }
        world = _environment(self.world_size, env)
        for rank, ends in enumerate(self.processes.ends):
            mine = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            options = shared | {"rank": rank, "env": world | mine}
            with contextlib.suppress(ChannelClosed):  # a dead rank is found as such
                ends.channel.send(("job", 0, "join", options), None, fds)
        for fd in fds:
            os.close(fd)

    # -- one job -------------------------------------------------------------------

    def job(self, asked: Asked) -> Outcome:
        """Do a job; wait until every rank has ended it, or surely not all will.

        Returns the outcome, good or bad; KeyboardInterrupt comes through.
        """
        if self._ungrouped and asked.ranks is None and asked.kind != "rejoin":
            self._rejoin()
        ranks = list(range(self.world_size) if asked.ranks is None else asked.ranks)
        self._number += 1
        self._job = self._number
        self._outcome = outcome = Outcome(ranks)
        self._transcripts = [Transcript() for _ in range(self.world_size)]
        outcome.output = self._transcripts
        self._echo = Echo(self.world_size, asked.write, asked.display)
        options = dict(asked.options)
        if asked.parts:
            options["sources"] = _cell_sources(asked.parts[0])
        message = ("job", self._job, asked.kind, options)
        for rank in ranks:
            self.board.line[rank] = 0
            with contextlib.suppress(ChannelClosed):
                self.processes.ends[rank].channel.send(message, asked.parts)
        try:
            self._attend(outcome, asked.timeout)
        finally:
            self._drain_pipes()
            self._echo.show(all_of_it=True)
        return outcome

    def _attend(self, outcome: Outcome, timeout: float) -> None:
        """Wait for the reports; stop early at a failure, a deadlock or the deadline."""
        begun = time.monotonic()
        latest = begun + rank_processes.START_DEADLINE
        watch = Watch(self)
        settled = None
        while outcome.pending:
            self._pump(TICK)
            now = time.monotonic()
            if len(self._joined) < self.world_size and now < latest:
                begun = now  # the job has its time from when all ranks are there
            if outcome.failed and settled is None:
                settled = now + SETTLE
            elif settled is not None and now >= settled:
                break
            elif settled is None and outcome.pending:
                watch.look(now)
                if not outcome.failed and now > begun + timeout:
                    outcome.late = True
                    break
        self._look_around(outcome)

    def _look_around(self, outcome: Outcome) -> None:
        """After a failure, ask the ranks that are still at it where they are."""
        if not outcome.failed:
            return
        outcome.seen = self.ask("peek", outcome.pending)
        calls = outcome.mismatched
        if calls:
            key = calls[min(calls)]["key"]
            found = self.ask("describe", outcome.pending, key)
            found |= {r: rep["call"] for r, rep in calls.items() if rep["key"] == key}
            outcome.described = {r: call for r, call in found.items() if call}

    def ask(self, question: str, ranks: Sequence[int], *args: Any) -> dict[int, Any]:
        """Ask ranks what they can answer while they work; those that can, do."""
        self._number += 1
        number, answers = self._number, self._replies.setdefault(self._number, {})
        asked = [r for r in ranks if r not in self._gone]
        for rank in asked:
            with contextlib.suppress(ChannelClosed):
                self.processes.ends[rank].channel.send((question, number, *args))
        until = time.monotonic() + 1.0
        while len(answers) < len(asked) and time.monotonic() < until:
            self._pump(TICK)
        return self._replies.pop(number)

    # -- what comes in -------------------------------------------------------------

    def _pump(self, seconds: float) -> None:
        """Take in whatever has come, waiting for it at most so long."""
        for key, _ in self._selector.select(seconds):
            if key.fd in self._selector.get_map():  # not stopped by one before it
                handle, argument = key.data
                handle(argument)
        if self.processes.fileno() < 0 or self._gone:
            self._ended(None)
        if self._echo is not None:
            self._echo.show()

    def _hear(self, rank: int) -> None:
        try:
            message, parts, _ = self.processes.ends[rank].channel.recv()
        except ChannelClosed:
            self._stop_listening(self.processes.ends[rank].channel.fileno())
            self._gone.add(rank)
            return
        kind, *rest = message
        if kind == "done":
            self._done(rank, rest[0], rest[1], parts)
        elif kind == "display" and self._echo is not None:
            self._drain_pipes(rank)
            self._echo.display(rank, unpack(parts))
            with contextlib.suppress(ChannelClosed):
                self.processes.ends[rank].channel.send(("shown",))
        elif kind == "mismatch":
            self._outcome.mismatched[rank] = rest[0]
        elif kind == "leaving":
            self._outcome.leaving[rank] = tuple(rest)
        elif kind in _ANSWERS:
            self._replies.get(rest[0], {})[rank] = rest[1]

    def _done(
        self, rank: int, number: int, report: dict[str, Any], parts: Parts
    ) -> None:
        if number == 0 and "kind" not in report:
            self._joined.add(rank)
        elif number in (0, self._job) and rank not in self._outcome.reports:
            if report.get("grouped"):
                self._ungrouped.discard(rank)
            else:
                self._ungrouped.add(rank)
            self._outcome.reports[rank] = report
            self._outcome.results[rank] = parts

    def _ended(self, _: None) -> None:
        self.processes.look()
        for rank, status in self.processes.ended.items():
            if rank in self._outcome.pending:
                self._drain_pipes(rank)
                self._drain_channel(rank)
                if rank in self._outcome.pending:
                    self._outcome.deaths[rank] = status
                    self._outcome.last_line[rank] = self.board.line[rank]
            self._gone.add(rank)

    def _drain_channel(self, rank: int) -> None:
        """Hear what a rank said before it died."""
        channel = self.processes.ends[rank].channel
        with selectors.DefaultSelector() as selector:
            selector.register(channel, selectors.EVENT_READ)
            known = self._selector.get_map()
            while channel.fileno() in known and selector.select(0):
                self._hear(rank)

    def _read(self, source: tuple[int, str, int, Decoder]) -> bool:
        """Take one chunk of output; False when there is none now."""
        rank, stream, fd, decode = source
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._stop_listening(fd)
            return False
        text = decode(data)
        self._transcripts[rank].add(text)
        if self._echo is not None:
            self._echo.add(rank, stream, text)
        return True

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

    # -- ending it -----------------------------------------------------------------

    def recover(self) -> bool:
        """Free ranks that did not end their job, and join them anew; False if it fails.

        True: every rank has its variables. False: the group has been closed.
        """
        try:
            if self._free() and self._rejoin():
                return True
        except BaseException:
            self.close()
            raise
        self.close()
        return False

    def _free(self) -> bool:
        """Get every rank out of the job: out of its waits, and out of its code."""
        until = time.monotonic() + FREED
        while self._outcome.pending and time.monotonic() < until and not self._gone:
            for rank in self._outcome.pending:
                with contextlib.suppress(ChannelClosed):
                    self.processes.ends[rank].channel.send(("cancel",))
            again = time.monotonic() + 0.3
            while self._outcome.pending and time.monotonic() < again:
                self._pump(TICK)
        return not (self._outcome.pending or self._gone)

    def _rejoin(self) -> bool:
        self.board.clear()
        again = self.job(Asked("rejoin", timeout=5.0))
        return not (again.failed or again.pending)

    def balanced(self) -> bool:
        """Whether nothing is on its way, so that the group is as good as new."""
        snapshots = self.ask("snapshot", range(self.world_size))
        return len(snapshots) == self.world_size and deadlock.balanced(
            snapshots.values()
        )

    def close(self) -> None:
        """End all ranks; returns when the last one has ended."""
        self.alive = False
        try:
            self.processes.close()
        finally:
            self._let_go()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # of a group that never came to be
            self.close()

    def _let_go(self) -> None:
        selector = getattr(self, "_selector", None)
        if selector is not None:
            selector.close()
        if self._store_file is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._store_file)


def _cell_sources(pickled: Any) -> dict[str, list[str]]:
    """The source of each notebook cell that a pickle comes from, for its tracebacks."""
    data = bytes(pickled)
    return {
        file: entry[2]
        for file, entry in list(linecache.cache.items())
        if len(entry) == 4 and entry[1] is None and file.encode() in data
    }


def _environment(world_size: int, env: Mapping[str, str]) -> dict[str, str]:
    """The launcher's environment, what torchrun sets, and what suits one machine."""
    default = {"OMP_NUM_THREADS": "1"}
    if sys.platform.startswith("linux"):
        default["GLOO_SOCKET_IFNAME"] = "lo"
    torchrun = {
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "MPLBACKEND": "agg",
    }
    return default | dict(os.environ) | torchrun | dict(env)


def _folder() -> str:
    """Where we are; the root, if that folder is no longer there."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def _free_port() -> int:
    """A port that was free a moment ago, for a script that makes its own store."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]

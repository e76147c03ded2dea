"""One rank: the process that joins a group, does jobs, and answers while it does them.

The first thread does the jobs. A second one listens to the launcher, so that a rank
which is blocked can still be freed, and say what it waits for (`answers`). Its group,
and what stands between it and torch, are its `Membership`. Here `main` is where a rank
begins, after a fork or in a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import faulthandler
import linecache
import math
import os
import queue
import select
import signal
import socket
import sys
import threading
from functools import cached_property
from typing import Any, TextIO

import torch.distributed as dist

from collectives_lab import recorder
from collectives_lab.basics.machine_limits import free_memory
from collectives_lab.launch.rank import mime, process_setup, this_rank, torch_patches
from collectives_lab.launch.rank.channel import (
    Channel,
    ChannelClosed,
    Parts,
    nbytes,
    pack,
    unpack,
)
from collectives_lab.launch.rank.library_imports import libraries
from collectives_lab.launch.rank.namespace import Namespace
from collectives_lab.launch.rank.process_group import Membership
from collectives_lab.launch.rank.replies import REPLIES
from collectives_lab.recorder import torch_ops
from collectives_lab.recorder.call_site import OwnThread
from collectives_lab.recorder.reader_traceback import Unsendable, describe, words
from collectives_lab.trace import table

FLUSHED = 200
"""Milliseconds after which what a job prints without `flush` is on its way."""

SMALL = 2**24
"""Bytes of a result that need no look at how much memory is free."""


class Rank:
    """The rank behind a channel to its launcher."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.jobs: queue.SimpleQueue = queue.SimpleQueue()
        self.shown = threading.Semaphore(0)
        self.busy = False
        self.jobs_received = self.jobs_done = 0
        self.cancelled = False
        self.started = recorder.now()
        self.membership = Membership(self._report_mismatch)
        self.main = threading.main_thread()
        self.known = set(sys.modules)
        self.widgets = 0

    @property
    def recording(self) -> recorder.Recorder | None:
        """The recorder of this process, once it has joined a group."""
        return self.membership.recorder

    def leaving(self, status: int, where: str) -> None:
        """Tell the launcher of an `os._exit` in the reader's code."""
        if self.busy and threading.current_thread() is self.main:
            self.channel.send(("leaving", status, where))

    # -- the thread that listens ---------------------------------------------------

    def listen(self) -> None:
        """Queue jobs for the first thread and answer everything else, to the end."""
        while True:
            try:
                message, parts, fds = self._message()
                kind, *rest = message
                if kind in REPLIES:
                    REPLIES[kind](self, *rest)
                elif kind == "cancel":
                    self._cancel()
                elif kind == "shown":
                    self.shown.release()
                else:
                    self.jobs_received += 1
                    self.jobs.put((message, parts, fds))
            except ChannelClosed:
                os._exit(1)  # the launcher has gone, and nobody else would end us

    def _message(self) -> tuple[Any, Parts, list[int]]:
        """Wait for a message; let out meanwhile what a job prints without `flush`."""
        arriving = select.poll()  # which takes no descriptor: there may be none left
        arriving.register(self.channel, select.POLLIN)
        while self.jobs_received > self.jobs_done and not arriving.poll(FLUSHED):
            _flush(sys.__stdout__, sys.__stderr__)
        return self.channel.recv()

    def _cancel(self) -> None:
        """Free the first thread from a wait in the library, or from Python code."""
        self.cancelled = True
        self.membership.cut()
        if self.busy and self.main.ident is not None:
            signal.pthread_kill(self.main.ident, signal.SIGINT)

    def _report_mismatch(self, record: recorder.Record) -> None:
        """Say at once that a call does not fit: the reader may catch what it raises."""
        call = {"key": record.key, "number": record.number, "call": record.described()}
        self.channel.send(("mismatch", call))

    # -- the thread that works -----------------------------------------------------

    def serve(self) -> None:
        """Do jobs until the launcher ends this process."""
        signal.signal(signal.SIGINT, self._interrupted)
        OwnThread(self.listen, name="launcher").start()
        while True:
            self._do(*self.jobs.get())
            self.jobs_done += 1

    def _interrupted(self, _signal: int, _frame: Any) -> None:
        if self.busy and self.cancelled:
            self.cancelled = False
            raise KeyboardInterrupt

    def _do(self, message: tuple, parts: Parts, fds: list[int]) -> None:
        """Do one job and report how it ended, whatever it raises."""
        number, kind, options = message[1:]
        self.started = recorder.now()
        report: dict[str, Any] = {"started": self.started}
        result: Parts = []
        self.cancelled = False
        signal.signal(signal.SIGINT, self._interrupted)  # a cell may have changed it
        self.busy = True
        try:
            if kind == "join":
                self.membership.join(options, *fds)
            elif kind == "emulate":
                self.membership.emulate(options["network"], *fds)
            else:
                report["wire_before"] = self.membership.counted_bytes()
                result = self._packed(self._run(kind, options, parts))
        except BaseException as error:
            self.busy = False
            self._blame(report, error)
            with contextlib.suppress(Exception):
                result = pack(error)
        self.busy = False
        _flush(sys.stdout, sys.stderr)
        self._close(report)
        try:
            self.channel.send(("done", number, report), result)
        except OSError as error:  # no descriptor or memory left for a large result
            self._blame(report, Unsendable(f"the result cannot be sent: {error}"))
            report["events"] = table.of(())
            self.channel.send(("done", number, report))

    def _run(self, kind: str, options: dict[str, Any], parts: Parts) -> Any:
        assert self.recording is not None
        self.recording.finished = False
        self.recording.deadline = recorder.now() + options.get("timeout", math.inf)
        for file, lines in options.get("sources", {}).items():
            linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
        if kind == "rejoin":
            return self.membership.rejoin()
        if kind == "call":
            fn, args = unpack(parts)
            return fn(*args)
        if kind == "exec":
            source, file, quiet = (options[n] for n in ("source", "file", "quiet"))
            return self.namespace.execute(source, file, quiet)
        if kind == "push":
            return self.namespace.push(unpack(parts))
        return self.namespace.pull(options["names"])

    @cached_property
    def namespace(self) -> Namespace:
        """The variables of cells, from the first one on."""
        group = self.membership
        variables = {"rank": group.rank, "world_size": group.world_size}
        return Namespace(variables | {"display": self.display})

    def display(self, *objects: Any) -> None:
        """Show objects under the cell that runs, as in a notebook."""
        for obj in objects:
            _flush(sys.stdout, sys.stderr)
            self.channel.send(("display",), pack(mime.bundle(obj)))
            # What is printed next must not overtake it: that takes another way.
            self.shown.acquire(timeout=1.0)

    def _packed(self, value: Any) -> Parts:
        try:
            parts = pack(value)
        except BaseException as error:
            raise Unsendable(_why_unsendable(value, error)) from None
        size = nbytes(parts)
        available = free_memory() if size > SMALL else 2**62
        if size > available // (self.membership.world_size + 1):
            raise Unsendable(
                f"the result has {size / 1e9:.1f} GB and the machine "
                f"{available / 1e9:.1f} GB of free memory; return a summary of it"
            )
        return parts

    def _blame(self, report: dict[str, Any], error: BaseException) -> None:
        """Describe an error: type, words, traceback from the reader's line on."""
        report["failed_at"] = recorder.now()
        report["kind"] = _kind_of(error)
        report["type"] = type(error).__name__
        report["message"] = words(error)
        report["where"], report["traceback"] = describe(error)

    def _close(self, report: dict[str, Any]) -> None:
        """Add to a report what was recorded, and be counted as finished."""
        report["ended"] = recorder.now()
        report |= self._imported()
        report["grouped"] = dist.is_initialized()
        if self.recording is not None:
            report["events"] = self.recording.drain()
            report["unwaited"] = self.recording.unwaited()
            before, self.widgets = self.widgets, _widgets()
            report["widgets"] = self.widgets > before
            report["groups"] = self.recording.group_ranks()
            report["collectives"] = dict(self.recording.counts.collectives)
            report["wire_after"] = self.membership.count_bytes()
            report["late"] = self.membership.lateness()
            self.recording.finished = True
            self.recording.step()
        torch_ops.forget_coalescing()

    def _imported(self) -> dict[str, list[str]]:
        """Return what was imported since the last job: the server can learn it.

        Parts of torch and rooms of this package, of which only the topmost ones, that
        bring the others; and other libraries, module by module. Where a rank draws, its
        rooms may be those that bring matplotlib, which is a library: they are left out.
        """
        if len(sys.modules) == len(self.known):
            return {}
        before, self.known = self.known, set(sys.modules)
        draws = {"matplotlib", "IPython"} & self.known
        parts = ("torch.",) if draws else ("torch.", "collectives_lab.")
        new = {name for name in self.known - before if name.startswith(parts)}
        topmost = sorted(name for name in new if name.rpartition(".")[0] not in new)
        return {"imported": topmost, "libraries": libraries(before)}


def _flush(*streams: TextIO | None) -> None:
    """Let everything reach the launcher that was printed to streams so far."""
    for stream in filter(None, streams):
        with contextlib.suppress(Exception):
            stream.flush()


def _widgets() -> int:
    """Return how many ipywidgets this process has made, and not closed."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    return len(getattr(module, "_instances", ()))


def _kind_of(error: BaseException) -> str:
    if isinstance(error, recorder.Mismatched):
        return "mismatch"
    if isinstance(error, SystemExit):
        return "exit"
    if isinstance(error, Unsendable):
        return "unsendable"
    return "stopped" if isinstance(error, KeyboardInterrupt) else "error"


def _why_unsendable(value: Any, error: BaseException) -> str:
    kind = type(value).__name__
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"the result, a {kind}, cannot be sent from the rank's process ({why}); return "
        "tensors, numbers, text, or lists and dicts of them"
    )


def main(fd: int) -> None:
    """Serve as a rank on the socket `fd` to the launcher; never returns."""
    rank = Rank(Channel(socket.socket(fileno=fd)))
    process_setup.open_streams()
    faulthandler.enable(all_threads=False)
    recorder.install()
    process_setup.adopt_orphans()
    this_rank.membership = rank.membership
    torch_patches.put_in_place(rank.leaving)
    os.register_at_fork(after_in_child=lambda: recorder.start(None))
    process_setup.send_definitions_by_value()
    process_setup.settle_in()
    rank.serve()

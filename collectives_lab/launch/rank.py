"""One rank: the process that joins a group, does jobs, and answers while it does them.

The first thread does the jobs. A second one listens to the launcher, so that a rank
which is blocked can still say what it waits for, and be freed. Here `main` is where a
rank begins, after a fork or in a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import linecache
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab import _c10d, devices, recorder, tcp_info
from collectives_lab.board import Board
from collectives_lab.emulation import Links, SharedNetwork
from collectives_lab.fabrics import Fabric
from collectives_lab.launch import own_process, rich, stand_ins
from collectives_lab.launch.channel import (
    Channel,
    ChannelClosed,
    Parts,
    nbytes,
    pack,
    unpack,
)
from collectives_lab.launch.keyboard import NoKeyboard
from collectives_lab.launch.limits import free_memory
from collectives_lab.launch.namespace import Namespace
from collectives_lab.launch.store import open_store
from collectives_lab.launch.telling import Unsendable, is_readers, tell, words

SMALL = 2**24
"""Bytes of a result that need no look at how much memory is free."""

FOREVER = datetime.timedelta(days=1)
"""The group's own time-out: the launcher's deadlines are shorter, and say more."""

_TORCH = os.path.dirname(torch.__file__) + os.sep

current: Rank | None = None
"""The rank that this process is; None in every other process."""


class Rank:
    """The rank behind a channel to its launcher."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.jobs: queue.SimpleQueue = queue.SimpleQueue()
        self.shown = threading.Semaphore(0)
        self.busy = False
        self.cancelled = False
        self.started = recorder.now()
        self.prepared = False
        self.joined = 0
        self.aborted = 0
        self.gpu: torch.device | None = None
        self.settings: dict[str, Any] = {}
        self.outside: set = set()
        self.counted: dict = {}
        self.namespace = Namespace({})
        self.recorder: recorder.Recorder | None = None
        self.network: SharedNetwork | None = None
        self.main = threading.main_thread()
        self.known = set(sys.modules)

    # -- the thread that listens ---------------------------------------------------

    def listen(self) -> None:
        """Queue jobs for the first thread and answer everything else, to the end."""
        answers: dict[str, Callable[..., Any]] = {
            "snapshot": self._snapshot,
            "asleep": self._asleep,
            "peek": self._peek,
            "describe": self._describe,
            "cancel": self._cancel,
            "shown": self.shown.release,
            "exit": self._exit,
        }
        while True:
            try:
                message, parts, fds = self.channel.recv()
                if message[0] in answers:
                    answers[message[0]](*message[1:])
                else:
                    self.jobs.put((message, parts, fds))
            except ChannelClosed:
                os._exit(1)  # the launcher has gone, and nobody else would end us

    def _snapshot(self, number: int) -> None:
        if self.recorder is not None:
            self.channel.send(("snapshot", number, self.recorder.snapshot()))

    def _asleep(self, number: int) -> None:
        """Processor time of the first thread, if it is in torch, and open calls.

        DDP and functional collectives wait in C++, unseen. A thread that is inside
        torch and uses no time can only be waiting there.
        """
        frame = sys._current_frames().get(self.main.ident or 0)
        if self.recorder and self.recorder.all_blocked():
            self.channel.send(("asleep", number, (0.0, self.recorder.snapshot())))
            return
        inside = frame is not None and frame.f_code.co_filename.startswith(_TORCH)
        if not (inside and self.recorder and hasattr(time, "pthread_getcpuclockid")):
            self.channel.send(("asleep", number, None))
            return
        clock = time.pthread_getcpuclockid(self.main.ident or 0)
        snapshot = self.recorder.snapshot(unfinished=True)
        self.channel.send(("asleep", number, (time.clock_gettime(clock), snapshot)))

    def _peek(self, number: int) -> None:
        """What has been recorded so far, and where the first thread is."""
        events = [] if self.recorder is None else self.recorder.peek()
        groups = {} if self.recorder is None else self.recorder.group_ranks()
        seen: dict[str, Any] = {"started": self.started, "ended": recorder.now()}
        seen |= {"events": events, "groups": groups, "where": self._where()}
        seen["waiting"] = self.recorder.snapshot().waiting if self.recorder else ()
        self.channel.send(("peek", number, seen))

    def _describe(self, number: int, key: int) -> None:
        found = None if self.recorder is None else self.recorder.described(key)
        self.channel.send(("describe", number, found))

    def _where(self) -> str:
        """The reader's line that the first thread is in; empty if it is in none."""
        frame = sys._current_frames().get(self.main.ident or 0)
        while frame is not None:
            file = frame.f_code.co_filename
            if is_readers(file):
                return f"{file}:{frame.f_lineno}" if self.busy else ""
            frame = frame.f_back
        return ""

    def _cancel(self) -> None:
        """Free the first thread from a wait in the library, or from Python code."""
        self.cancelled = True
        if self.recorder is not None and self.recorder.links is not None:
            self.recorder.links.cancel()
        tcp_info.shut_down(self.outside)
        self._abort_nccl()
        if self.busy and self.main.ident is not None:
            signal.pthread_kill(self.main.ident, signal.SIGINT)

    def _abort_nccl(self) -> None:
        """End the kernels in which NCCL waits for other ranks, once a group.

        The first thread then comes back from where it waits for its GPU. It has never
        run so far: `tests/gpu` has the check that needs it.
        """
        if self.gpu is not None and self.aborted != self.joined:
            self.aborted = self.joined
            with contextlib.suppress(Exception):  # what fails here is killed soon
                _c10d.abort()

    def _exit(self) -> None:
        own_process.flush()
        os._exit(0)

    # -- the thread that works -----------------------------------------------------

    def serve(self) -> None:
        """Do jobs until the launcher ends this process."""
        signal.signal(signal.SIGINT, self._interrupted)
        threading.Thread(target=self.listen, name="launcher", daemon=True).start()
        while True:
            self._do(*self.jobs.get())

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
                self._join(options, *fds)
            elif kind == "emulate":
                self._emulate(options["fabric"], *fds)
            else:
                report["wire_before"] = self.counted or self._connections()
                result = self._packed(self._run(kind, options, parts))
        except BaseException as error:
            self.busy = False
            self._blame(report, error)
            with contextlib.suppress(Exception):
                result = pack(error)
        self.busy = False
        own_process.flush()
        self._close(report)
        try:
            self.channel.send(("done", number, report), result)
        except OSError as error:  # no descriptor or memory left for a large result
            self._blame(report, Unsendable(f"the result cannot be sent: {error}"))
            report["events"] = []
            self.channel.send(("done", number, report))

    def _run(self, kind: str, options: dict[str, Any], parts: Parts) -> Any:
        assert self.recorder is not None
        self.recorder.finished = False
        for file, lines in options.get("sources", {}).items():
            linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
        if kind == "rejoin":
            return self._rejoin()
        if kind == "call":
            fn, args = unpack(parts)
            return fn(*args)
        if kind == "exec":
            source, file, quiet = (options[n] for n in ("source", "file", "quiet"))
            return self.namespace.execute(source, file, quiet)
        if kind == "push":
            return self.namespace.push(unpack(parts))
        return self.namespace.pull(options["names"])

    def display(self, *objects: Any) -> None:
        """Show objects under the cell that runs, as in a notebook."""
        for obj in objects:
            own_process.flush()
            self.channel.send(("display",), pack(rich.bundle(obj)))
            # What is printed next must not overtake it: that takes another way.
            self.shown.acquire(timeout=1.0)

    def _packed(self, value: Any) -> Parts:
        try:
            parts = pack(value)
        except BaseException as error:
            raise Unsendable(_why_unsendable(value, error)) from None
        size = nbytes(parts)
        available = free_memory() if size > SMALL else 2**62
        if size > available // (self.world_size + 1):
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
        report["where"], report["traceback"] = tell(error)

    def _close(self, report: dict[str, Any]) -> None:
        """Add to a report what was recorded, and be counted as finished."""
        report["ended"] = recorder.now()
        report["imported"] = self._imported()
        report["grouped"] = dist.is_initialized()
        if self.recorder is not None:
            report["events"] = self.recorder.drain()
            report["groups"] = self.recorder.group_ranks()
            report["collectives"] = dict(self.recorder.counts.collectives)
            self.counted = report["wire_after"] = self._connections()
            self.recorder.finished = True
            if self.recorder.board is not None:
                self.recorder.step()
        _c10d.forget_coalescing()

    def _connections(self) -> dict:
        """Bytes sent so far by connection; none where NCCL's bytes take another way."""
        by_sockets = self.gpu is None or "NCCL_HOSTID" in os.environ
        return tcp_info.connections() if by_sockets else {}

    def _imported(self) -> list[str]:
        """Parts of torch imported since the last job: the server can learn them.

        Only the topmost ones; they bring the others.
        """
        if len(sys.modules) == len(self.known):
            return []
        new = {name for name in sys.modules.keys() - self.known if "torch." in name[:6]}
        self.known = set(sys.modules)
        return sorted(name for name in new if name.rpartition(".")[0] not in new)

    # -- the group -----------------------------------------------------------------

    def _join(self, settings: dict[str, Any], board: int, *store: int) -> None:
        """Become rank `rank` of a group: environment, recorder, process group."""
        self.settings = settings
        self.rank, self.world_size = settings["rank"], settings["world_size"]
        os.environ.clear()
        os.environ.update(settings["env"])
        sys.path[:] = settings["path"]
        with contextlib.suppress(OSError):
            os.chdir(settings["cwd"])
        own_process.heed_environment()
        self._record(Board(board, self.world_size))
        os.close(board)
        self.store = f"/proc/self/fd/{store[0]}" if store else settings["store"]
        gpus = settings["gpus"] if "gpus" in settings else devices.count()
        local_rank = int(os.environ.get("LOCAL_RANK", self.rank))
        self.gpu = devices.take(local_rank, gpus, settings["backend"])
        self._join_group()
        recorder.start(self.recorder)
        given = {"rank": self.rank, "world_size": self.world_size}
        self.namespace = Namespace(given | {"display": self.display})

    def _emulate(self, fabric: Fabric, network: int) -> None:
        """Let all transfers from now on take the time that they take on a fabric."""
        self.network = SharedNetwork(network, fabric)
        assert self.recorder is not None and self.recorder.board is not None
        self._record(self.recorder.board)
        recorder.start(self.recorder)

    def _record(self, board: Board) -> None:
        if self.recorder is not None and self.recorder.links is not None:
            self.recorder.links.cancel()
        links = None
        if self.network is not None:
            links = Links(self.rank, self.network)
        self.recorder = recorder.Recorder(self.rank, board, links)
        self.recorder.on_mismatch = self._tell_mismatch

    def _tell_mismatch(self, record: recorder.Record) -> None:
        """Say at once that a call does not fit: the reader may catch what it raises."""
        call = {"key": record.key, "number": record.number, "call": record.told()}
        self.channel.send(("mismatch", call))

    def _join_group(self) -> None:
        self.outside = set(tcp_info.connections())
        self.joined += 1
        self.counted = {}
        backend = self.settings["backend"]
        self.open_store = store = open_store(self.store, self.world_size)
        stand_ins.real_init(
            "cpu:gloo,cuda:nccl" if backend == "nccl" else backend,
            store=dist.PrefixStore(f"group {self.joined}", store),
            rank=self.rank,
            world_size=self.world_size,
            timeout=FOREVER,
            device_id=self.gpu,  # so NCCL connects now, and barriers know their GPU
        )
        self.prepared = True

    def _rejoin(self) -> None:
        """Leave the group that a failed job has broken, and make a new one."""
        recorder.start(None)
        self._abort_nccl()  # or its end would wait for what still hangs
        if dist.is_initialized():
            dist.destroy_process_group()
        assert self.recorder is not None and self.recorder.board is not None
        if self.network is not None:
            self.network.clear()  # every rank does, before any of them has a job again
        self._record(self.recorder.board)
        self.joined = self.joined + 1000 - self.joined % 1000  # the same on every rank
        self._join_group()
        recorder.start(self.recorder)


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
    global current
    current = Rank(Channel(socket.socket(fileno=fd)))
    sys.stdin = sys.__stdin__ = NoKeyboard()  # type: ignore[assignment,misc]
    sys.stdout = sys.__stdout__ = own_process.stream(1)  # type: ignore[assignment,misc]
    sys.stderr = sys.__stderr__ = own_process.stream(2)  # type: ignore[assignment,misc]
    faulthandler.enable(all_threads=False)
    recorder.install()
    own_process.adopt_orphans()
    stand_ins.put_in_place(current)
    os.register_at_fork(after_in_child=lambda: recorder.start(None))
    own_process.settle_in()
    current.serve()

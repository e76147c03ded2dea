"""Recording of scripts: what torchrun, Slurm or mpirun has started.

`with lab.record("traces/run1"):` round plain torch.distributed code lets every rank
write what it calls to a part of its own in that folder, also where it fails or is
ended by SIGTERM; `lab.Trace.load("traces/run1")` joins the parts to one Trace.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab import recorder
from collectives_lab.basics.errors import LabError
from collectives_lab.basics.machine_limits import cores
from collectives_lab.recorder import clock_readings, tcp_info
from collectives_lab.recorder.reader_traceback import words
from collectives_lab.trace import join


def record(folder: str | Path) -> contextlib.AbstractContextManager[None]:
    """Record every torch.distributed call of this block into a folder.

    Every rank of the world enters the block, after init_process_group and before
    destroy_process_group, and writes `rank_R_of_P.npz` when it leaves it; parts of an
    earlier recording there are replaced. The folder may be one that all hosts share or
    one on each, to be copied together. Where it fails, the error passes and the part is
    written first. Costs some 20 us a call; entering and leaving, the ranks compare
    their clocks (`clock_readings`), so that leaving waits for the others. Raises
    LabError where there is no group yet, where the ranks are recorded already, where
    a rank stays outside until the group's timeout, on every rank where one of them
    cannot write to its folder, and at the end on a rank that could not write its part.
    """
    if callable(folder):
        raise LabError(
            "lab.record wants to know where to write: "
            '`with lab.record("traces/run1"):` round the calls, or '
            '`@lab.record("traces/run1")` above a function'
        )
    if not isinstance(folder, (str, os.PathLike)):
        raise LabError(
            f"folder={folder!r}; it is where the parts are written, as "
            '`with lab.record("traces/run1"):`'
        )
    return _recorded(Path(folder))


@contextlib.contextmanager
def _recorded(folder: Path) -> Iterator[None]:
    recording = _Recording(folder)
    try:
        yield
    except BaseException as error:
        recording.end(f"{type(error).__name__}: {words(error)}")
        if isinstance(error, Exception):
            error.add_note(recording.note("timed out" in str(error).lower()))
        raise
    recording.end()
    recording.read_again()
    if recording.path is None:
        raise LabError(f"{recording.saved()}; what came in the block has ended well")


class _Recording:
    """One rank's recording while it is under way."""

    def __init__(self, folder: Path):
        _check()
        self.folder = folder
        recorder.install()
        self.recorder = recorder.Recorder(dist.get_rank())
        self.part = _begun(folder)
        self.before = tcp_info.connections()
        self.lock = threading.Lock()
        self.written = False
        self.path: Path | None = None
        self.problem = ""
        self.guard = _Guard(self)
        recorder.start(self.recorder)

    def end(self, how: str = "") -> None:
        """Stop recording and write the part."""
        recorder.start(None)
        try:
            self.write(how)
        finally:  # not before it is written: SIGTERM comes soon where a rank fails
            self.guard.close()

    def write(self, how: str) -> None:
        """Write what there is, once."""
        with self.lock:
            if self.written:
                return
            self.written = True
            self.part.ended, self.part.how = recorder.now(), how
            self.part.wire = _sent(self.before, tcp_info.connections())
            self._save()

    def _save(self) -> None:
        groups, events = self.recorder.group_ranks(), self.recorder.peek()
        try:
            self.path = join.write(self.folder, self.part, events, groups)
        except OSError as error:  # a full disk is no reason to lose the reader's error
            self.problem = f"{type(error).__name__}: {error}"

    def saved(self) -> str:
        """Return where the part is, or why there is none."""
        if self.path is not None:
            return f"what it recorded is in {self.path}"
        part = self.part
        return (
            f"what rank {part.rank} of {part.world_size} on "
            f"{part.environment['host']} recorded is lost: it cannot write to its "
            f"folder {self.folder} ({self.problem})"
        )

    def read_again(self) -> None:
        """Read the clocks once more; without the others the first reading must do."""
        if not dist.is_initialized():
            return
        with contextlib.suppress(RuntimeError):
            self.part.readings.append(clock_readings.read())
            self._save()

    def note(self, is_late: bool) -> str:
        """Return what a reader of the error wants to know of this rank."""
        part, open_calls = self.part, self.open_calls()
        where = f" in {open_calls[-1]}" if open_calls else ""
        if is_late:
            where += ": another rank has not come to it, or the way there is cut"
        return (
            f"rank {part.rank} of {part.world_size} on {part.environment['host']} "
            f"failed after {part.ended - part.began:.1f} s{where}; {self.saved()}"
        )

    def open_calls(self) -> list[str]:
        """Return the calls that have not ended, in words, with their lines."""
        open_calls = [
            r.described() for r in self.recorder.records if r.completed is None
        ]
        return [f"{text}, {where}" if where else text for text, where in open_calls]


def _check() -> None:
    if not dist.is_initialized():
        raise LabError(
            "there is no process group to record; call dist.init_process_group() "
            "before `with lab.record(folder):`"
        )
    if recorder.current() is not None:
        raise LabError(
            "this rank is recorded already; under lab.run and %%ranks the trace is "
            "run.trace, and one lab.record cannot be inside another"
        )


def _begun(folder: Path) -> join.Part:
    """Agree with the other ranks that this recording begins."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    run = f"{_gathered(folder, secrets.randbits(62))[0]:016x}"
    if problems := [text for text in _gathered(folder, _cleared(folder, run)) if text]:
        more = f"; and {len(problems) - 3} more ranks" * (len(problems) > 3)
        raise LabError(f"nothing is recorded: {'; '.join(problems[:3])}{more}")
    with _everybody(folder):
        readings = [clock_readings.read()]
        dist.barrier()
    began, clock = recorder.now(), clock_readings.name()
    return join.Part(
        *(rank, world_size, run, clock, readings, began), environment=_environment()
    )


@contextlib.contextmanager
def _everybody(folder: Path) -> Iterator[None]:
    """Say why ranks that wait for each other here may fail to meet."""
    try:
        yield
    except Exception as error:
        raise LabError(
            f"rank {dist.get_rank()} of {dist.get_world_size()} on {platform.node()} "
            f"came to `with lab.record({str(folder)!r}):` and did not meet the others. "
            "Every rank of the world must enter this block, not only one, and none "
            f"may have failed before. {type(error).__name__}: {words(error)}"
        ) from error


def _gathered(folder: Path, value: Any) -> list[Any]:
    """Return the values of all ranks, by rank."""
    values = [None] * dist.get_world_size()
    with _everybody(folder):
        dist.all_gather_object(values, value)
    return values


def _cleared(folder: Path, run: str) -> str:
    """Make room for this rank's part; why that is impossible, if it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"no permission to write to {folder}")
        join.clear(folder, run)
    except OSError as error:
        return (
            f"rank {dist.get_rank()} on {platform.node()} cannot write to its folder "
            f"{folder} ({type(error).__name__}: {error})"
        )
    return ""


def _environment() -> dict[str, Any]:
    """Return what a recording is worth little without."""
    return {
        "host": platform.node(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores(),
        "backend": dist.get_backend(),
    }


def _sent(before: dict, after: dict) -> list:
    return [
        [*connection, sent - before.get(connection, 0)]
        for connection, sent in after.items()
    ]


class _Guard:
    """The guard that writes the part when SIGTERM ends this rank, even in C++.

    torchrun and Slurm send it to the other ranks when one has failed. Python's own
    handlers wait for the interpreter, which a rank in a collective never reaches; the
    number of the signal comes through a socket at once, to another thread. A handler
    that the reader sets meanwhile has SIGTERM for itself.
    """

    current: _Guard | None = None

    def __init__(self, recording: Any):
        self.recording = recording
        self.is_set = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        )
        if not self.is_set:
            return
        self.receiver, self.sender = socket.socketpair()
        self.sender.setblocking(False)
        sender = self.sender.fileno()
        self.previous_fd = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, _nothing)
        _Guard.current = self
        threading.Thread(target=self._watch, name="lab.record", daemon=True).start()

    def _watch(self) -> None:
        while number := self.receiver.recv(1):
            # Ours, or none once the block is left: else the reader's sees to it.
            is_ours = signal.getsignal(signal.SIGTERM) in (_nothing, signal.SIG_DFL)
            if number[0] == signal.SIGTERM and is_ours:
                try:
                    calls = self.recording.open_calls()
                    where = f" in {calls[-1]}" if calls else ""
                    self.recording.write(f"SIGTERM{where}")
                finally:  # nobody else obeys the signal
                    os._exit(128 + signal.SIGTERM)

    def close(self) -> None:
        """Let SIGTERM be what it was."""
        if not self.is_set:
            return
        self.is_set, _Guard.current = False, None
        _let_go()
        signal.set_wakeup_fd(self.previous_fd)
        self.sender.close()


def _let_go() -> None:
    if signal.getsignal(signal.SIGTERM) is _nothing:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_a_child() -> None:
    """Let SIGTERM end a child, as a pool does, and not the rank whose socket it has."""
    if _Guard.current is not None:
        signal.set_wakeup_fd(-1)
        _let_go()


os.register_at_fork(after_in_child=_in_a_child)


def _nothing(_signal: int, _frame: Any) -> None:
    """Do nothing: the other thread does what is to be done."""

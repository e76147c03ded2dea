"""Replies of a rank to its launcher while it works, from a thread of their own.

The launcher asks what a rank waits for when nothing moves, where it is after a failure
or when a job takes long, and which call has a key that does not fit. `REPLIES` has the
function of each question.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from collectives_lab import recorder
from collectives_lab.basics import linux
from collectives_lab.launch.rank.channel import Channel
from collectives_lab.recorder.reader_traceback import is_readers
from collectives_lab.trace import table

_TORCH = os.path.dirname(torch.__file__) + os.sep


class Asked(Protocol):
    """A rank that is asked.

    main: the thread that does jobs; busy: it does one. started: when the last one was.
    """

    channel: Channel
    main: threading.Thread
    busy: bool
    started: float

    @property
    def recording(self) -> recorder.Recorder | None:
        """Its recorder, once it has joined a group."""


def _snapshot(rank: Asked, number: int) -> None:
    if rank.recording is not None:
        rank.channel.send(("snapshot", number, rank.recording.snapshot()))


def _asleep(rank: Asked, number: int) -> None:
    """Send the processor time of the first thread, if it is in torch, and open calls.

    DDP and functional collectives wait in C++, unseen. A thread that is inside
    torch and uses no time can only be waiting there.
    """
    frame = sys._current_frames().get(rank.main.ident or 0)
    if rank.recording and rank.recording.all_blocked():
        rank.channel.send(("asleep", number, (0.0, rank.recording.snapshot())))
        return
    inside = frame is not None and frame.f_code.co_filename.startswith(_TORCH)
    if not (inside and rank.recording and hasattr(time, "pthread_getcpuclockid")):
        rank.channel.send(("asleep", number, None))
        return
    clock = time.pthread_getcpuclockid(rank.main.ident or 0)
    snapshot = rank.recording.snapshot(unfinished=True)
    rank.channel.send(("asleep", number, (time.clock_gettime(clock), snapshot)))


def _peek(rank: Asked, number: int) -> None:
    """Send what has been recorded so far, and where the first thread is."""
    events = table.of(()) if rank.recording is None else rank.recording.peek()
    groups = {} if rank.recording is None else rank.recording.group_ranks()
    progress: dict[str, Any] = {"started": rank.started, "ended": recorder.now()}
    progress |= {"events": events, "groups": groups}
    rank.channel.send(("peek", number, progress | _at(rank)))


def _place(rank: Asked, number: int) -> None:
    """Send where the first thread is, and what it waits for."""
    rank.channel.send(("place", number, _at(rank)))


def _at(rank: Asked) -> dict[str, Any]:
    """Return the call that is waited for, or the line, and whether it sleeps there.

    A lock, a queue or `time.sleep`: whatever uses no processor time waits.
    """
    waiting = rank.recording.snapshot().waiting if rank.recording else ()
    sleeps = not waiting and _sleeps(rank.main)
    return {"where": _where(rank), "waiting": waiting, "sleeps": sleeps}


def _sleeps(thread: threading.Thread) -> bool:
    """Return whether a thread uses no processor time in a tenth of a second.

    One that could run and gets no core is busy all the same; Linux shows it of the
    first thread.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return False
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    before = time.clock_gettime(clock)
    time.sleep(0.1)
    used = time.clock_gettime(clock) - before
    return used < 0.001 and linux.state(os.getpid()) != "R"


def _where(rank: Asked) -> str:
    """Return the reader's line that the first thread is in.

    Empty if it is in none.
    """
    frame = sys._current_frames().get(rank.main.ident or 0)
    # The outermost frame is the command that began this process.
    while frame is not None and frame.f_back is not None:
        file = frame.f_code.co_filename
        if is_readers(file):
            return f"{file}:{frame.f_lineno}" if rank.busy else ""
        frame = frame.f_back
    return ""


def _describe(rank: Asked, number: int, key: int) -> None:
    """Send the call with a key in words, and its line; None if there was none."""
    description = None if rank.recording is None else rank.recording.described(key)
    rank.channel.send(("describe", number, description))


REPLIES: dict[str, Callable[..., None]] = {
    "snapshot": _snapshot,
    "asleep": _asleep,
    "peek": _peek,
    "place": _place,
    "describe": _describe,
}
"""By question, the function that sends a rank's answer; it gets the rank, the number of
the question, and what else came with it."""

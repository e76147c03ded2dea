"""A fact about one rank, from one or several lines of a job's log."""

from __future__ import annotations

from dataclasses import dataclass

from collectives_lab.formats.stacks import Frame


@dataclass(frozen=True, slots=True)
class Fact:
    """What a log says of one rank.

    kind: "timeout", a call that the watchdog gave up, with its group, number, verb and
    elements; "counts", the numbers of the last calls enqueued and completed;
    "exception"; "died", by a signal or an exit code; "misfit", by Gloo, which was sent
    more than it wants; "fingerprint", a call as torch compares it, with its dtype,
    which follows where another rank tells it; "absent", named by a monitored barrier.
    follows: an end that another rank's end or a time-out brings about. uncaught: torch
    itself says that the exception ended the rank. root: torchrun saw this end first.
    frames: function, file and line, the innermost first. rank: None where the log does
    not say it.
    """

    kind: str
    rank: int | None
    text: str
    where: str = ""
    group: str = ""
    number: int = 0
    verb: str = ""
    elements: tuple[int, int] = (0, 0)
    enqueued: int | None = None
    completed: int | None = None
    follows: bool = False
    uncaught: bool = False
    root: bool = False
    dtype: str = ""
    frames: tuple[Frame, ...] = ()
    path: str = ""

"""How ranks end, by their logs: signals, exit codes, and crashes of Python.

Here `ends` reads one line, and `Summary` and `Fault` take the lines of torchrun's
summary and of faulthandler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from collectives_lab.formats.log_facts import Fact
from collectives_lab.formats.stacks import Frame
from collectives_lab.formats.user_line import user_line

_SPAWN = re.compile(
    r"process (\d+) terminated with (?:signal (\w+)|exit code (\d+))", re.IGNORECASE
)
_SLURM = re.compile(
    r"srun: error: \S+: task (\d+): (Killed|Aborted|Segmentation fault|Bus error|"
    r"Out Of Memory|Exited with exit code (\d+))"
)
_ELASTIC = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_LAB = re.compile(r"rank (\d+) (?:was killed|died)\b(.*)", re.IGNORECASE)

_MISFIT = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d+) vs (\d+)")

ENDED_BY_OTHERS = ("SIGTERM", "SIGINT", "15", "2")
"""Signals that a launcher sends to the ranks that it stops."""


def ends(line: str, rank: int | None, path: str) -> Iterator[Fact]:
    text = line.strip()[:300]
    if "EnforceNotMet" in line or _MISFIT.search(line):
        if match := _MISFIT.search(line):
            text = f"Gloo was sent {match[1]} bytes where it wants {match[2]}"
            yield Fact("misfit", rank, text, path=path)
        return
    if match := _SPAWN.search(line):
        follows = match[2] in ENDED_BY_OTHERS
        kind = "exception" if match[3] == "1" else "died"
        yield Fact(kind, int(match[1]), text, follows=follows, path=path)
    elif match := _SLURM.search(line):
        kind = "exception" if match[3] == "1" else "died"
        yield Fact(kind, int(match[1]), text, path=path)
    elif match := _ELASTIC.search(line):
        yield _ended(int(match[2]), int(match[1]), text, path)
    elif match := _LAB.search(line):
        yield Fact("died", int(match[1]), text, path=path)


def _ended(rank: int, code: int, text: str, path: str) -> Fact:
    """Return the fact of an exit code: negative for a signal, 1 for an exception."""
    follows = str(-code) in ENDED_BY_OTHERS or code - 128 in (15, 2)
    kind = "exception" if code == 1 else "died"
    return Fact(kind, rank, text, follows=follows, path=path)


class Summary:
    """The block in which torchrun names a failed rank over several lines."""

    def __init__(self, path: str):
        self.path = path
        self.rank: int | None = None
        self.is_root = False

    def take(self, line: str) -> Iterator[Fact]:
        if line.startswith("Root Cause (first observed failure)"):
            self.is_root = True
        if match := re.match(r"\s*rank\s+: (\d+) \(local_rank", line):
            self.rank = int(match[1])
            return
        match = re.match(r"\s*exitcode\s+: (-?\d+)", line)
        if match and self.rank is not None:
            text = f"exit code {match[1]}"
            fact = _ended(self.rank, int(match[1]), text, self.path)
            yield replace(fact, root=self.is_root)
            self.rank, self.is_root = None, False


class Fault:
    """The end of a rank by a signal, as Python's faulthandler writes it."""

    def __init__(self, path: str):
        self.path = path
        self.rank: int | None = None
        self.text = ""
        self.frames: list[Frame] = []
        self.is_current = False

    def take(self, line: str, rank: int | None) -> Iterator[Fact]:
        if match := re.match(r"Fatal Python error: (.+)", line):
            yield from self.end()
            self.rank, self.text = rank, match[1][:300]
        elif not self.text:
            return
        elif line.startswith(("Thread 0x", "Current thread 0x")):
            self.is_current = line.startswith("Current")
        elif self.is_current and (match := _FAULT_FRAME.match(line)):
            self.frames.append(Frame(match[3], match[1], int(match[2])))
        elif self.frames and not line.startswith(" "):
            yield from self.end()

    def end(self) -> Iterator[Fact]:
        """Yield the fact that has been read, and begin anew."""
        if self.text:
            where = user_line((f.file, f.line) for f in self.frames)
            yield Fact("died", self.rank, self.text, where, path=self.path)
        self.text, self.frames, self.is_current = "", [], False


_FAULT_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+) in (.*)$')

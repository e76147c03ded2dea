"""Stacks of running processes, as py-spy and Python's faulthandler print them.

Here `read` gives a `Stack` for each process of a file: `py-spy dump --pid P`, also with
`--json`, `--native` or `--locals`, several of them in one file too, or what
`faulthandler.dump_traceback` wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from collectives_lab.formats.rank_names import named_rank, numbered_rank, rank_of_line
from collectives_lab.formats.user_line import user_line

LARGEST = 1 << 26
"""Bytes of a file that are read; a stack is a page."""


class Frame(NamedTuple):
    """A function, its file and line."""

    function: str
    file: str
    line: int


@dataclass
class Stack:
    """The frames of a process's main thread, innermost first.

    rank: None where neither the file's name, nor the command line, nor a line above the
    stack says it. idle: whether py-spy saw the thread wait.
    """

    rank: int | None = None
    pid: int | None = None
    idle: bool | None = None
    frames: list[Frame] = field(default_factory=list)
    path: str = ""

    @property
    def where(self) -> str:
        """The user's line, `file:line`."""
        return user_line((frame.file, frame.line) for frame in self.frames)


def is_stacks(text: str) -> bool:
    """Return whether text is of this format, by its first lines."""
    return bool(_PROCESS.search(text) or _FAULT.search(text) or _THREAD.search(text))


_PROCESS = re.compile(r"^Process (\d+): (.*)$", re.MULTILINE)
_THREAD = re.compile(r'^Thread (\S+) \((\S+)\)(?:: "(.*)")?$', re.MULTILINE)
_FRAME = re.compile(r"^\s+(\S.*?) \(([^()]*?):(\d+)\)$")
_FAULT = re.compile(
    r"^(?:Current thread|Thread) 0x\w+.*\(most recent call first\):$", re.MULTILINE
)
_FAULT_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+) in (.*)$')
_COMMAND = re.compile(r"(?:--|\b)(?:node_|local[_-]?)?rank[= ]+(\d+)", re.IGNORECASE)
_LOCAL = re.compile(r"^\s+rank: (\d+)$")


def read(path: str | Path) -> list[Stack]:
    """Return the stack of the main thread of each process in a file."""
    path = Path(path)
    with path.open(errors="replace") as file:
        text = file.read(LARGEST)
    if text.lstrip().startswith("["):
        stacks = _from_json(text)
    else:
        stacks = _from_text(text.splitlines())
    if len(stacks) == 1 and stacks[0].rank is None:
        rank = named_rank(path)
        stacks[0].rank = numbered_rank(path) if rank is None else rank
    for stack in stacks:
        stack.path = str(path)
    return [stack for stack in stacks if stack.frames]


def _from_json(text: str) -> list[Stack]:
    """Read `py-spy dump --json`: a list of threads."""
    try:
        threads = [t for t in json.loads(text) if isinstance(t, dict)]
    except (ValueError, RecursionError):
        return []
    by_pid: dict[Any, list[dict]] = {}
    for thread in threads:
        by_pid.setdefault(thread.get("pid"), []).append(thread)
    return [_process(pid, threads) for pid, threads in by_pid.items()]


def _process(pid: Any, threads: list[dict]) -> Stack:
    named = [t for t in threads if t.get("thread_name") == "MainThread"]
    main = (named or threads)[0]
    frames = [
        Frame(str(f.get("name")), str(f.get("filename")), int(f.get("line") or 0))
        for f in main.get("frames") or ()
        if isinstance(f, dict)
    ]
    return Stack(
        pid=pid if isinstance(pid, int) else None,
        idle=not main.get("active", True),
        frames=frames,
    )


def _from_text(lines: Iterable[str]) -> list[Stack]:
    reader = _Lines()
    for line in lines:
        reader.take(line)
    return reader.stacks


class _Lines:
    """The stacks of the lines so far, and whether the thread is the main one."""

    def __init__(self) -> None:
        self.stacks: list[Stack] = []
        self.is_main = False
        self.heading: int | None = None

    def take(self, line: str) -> None:
        rank, text = rank_of_line(line)
        if match := _PROCESS.match(text):
            self.begin(rank, match[2], int(match[1]))
        elif match := _FAULT.match(text):
            self.fault(rank, text)
        elif match := _THREAD.match(text):
            self.thread(match[2], match[3])
        elif self.is_main and self.stacks:
            self.frame(text)
        if not text[:1].isspace() and not _THREAD.match(text):
            match = re.search(r"\brank\W{0,3}(\d+)", text, re.IGNORECASE)
            self.heading = int(match[1]) if match else self.heading

    def begin(self, rank: int | None, command: str, pid: int | None) -> None:
        match = _COMMAND.search(command)
        if rank is None:
            rank = int(match[1]) if match else self.heading
        self.stacks.append(Stack(rank, pid))
        self.is_main, self.heading = False, None

    def thread(self, state: str, name: str | None) -> None:
        if not self.stacks:
            self.begin(None, "", None)
        stack = self.stacks[-1]
        self.is_main = name == "MainThread" or not stack.frames
        if name == "MainThread":
            stack.frames.clear()
        if self.is_main:
            stack.idle = "idle" in state

    def fault(self, rank: int | None, text: str) -> None:
        """Begin a thread of faulthandler, whose main thread comes last."""
        begins = not self.stacks or (rank is not None and self.stacks[-1].rank != rank)
        if begins or self.heading is not None:
            self.begin(rank, "", None)
        self.stacks[-1].frames.clear()
        self.is_main = True

    def frame(self, text: str) -> None:
        stack = self.stacks[-1]
        if match := _FRAME.match(text):
            stack.frames.append(Frame(match[1], match[2], int(match[3])))
        elif match := _FAULT_FRAME.match(text):
            stack.frames.append(Frame(match[3], match[1], int(match[2])))
        elif (match := _LOCAL.match(text)) and stack.rank is None:
            stack.rank = int(match[1])

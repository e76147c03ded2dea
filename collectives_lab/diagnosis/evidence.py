"""Evidence: what the files of a job say, whatever their mixture.

Here `collect` reads files and folders, each by what it holds and not by its name, and
keeps what could not be read as `problems`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from collectives_lab.formats import flight_recorder, job_logs, ras, stacks
from collectives_lab.formats.flight_recorder import Dump
from collectives_lab.formats.log_facts import Fact
from collectives_lab.formats.ras import Communicator
from collectives_lab.formats.stacks import Stack

MOST_CALLS = 400_000
"""Calls of all files together that are kept in memory, some 200 MB."""

MOST_OF_A_FILE = 50_000
"""Calls of one file that are kept: the last ones."""

BEGINNING = 1 << 16
"""Bytes by which the kind of a file is told."""


@dataclass
class Evidence:
    """All that was read. problems: by path, why a file is no help."""

    dumps: list[Dump] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    reports: list[Communicator] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    files: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.dumps or self.facts or self.stacks or self.reports)


def collect(
    paths: Iterable[str | Path], progress: Callable[[int, int], None] | None = None
) -> Evidence:
    """Read all files of these paths; a folder stands for the files in it.

    progress: called with the number of files read and of all. Raises FileNotFoundError
    for a path that is not there.
    """
    files = list(_files(paths))
    evidence = Evidence(files=len(files))
    most_calls = max(50, min(MOST_OF_A_FILE, MOST_CALLS // max(1, len(files))))
    for n, path in enumerate(files):
        if progress is not None:
            progress(n, len(files))
        try:
            _read(path, evidence, most_calls)
        except (OSError, ValueError, RecursionError) as error:
            why = str(error).removeprefix(str(path)).lstrip(": ").removeprefix("is ")
            evidence.problems[str(path)] = why or type(error).__name__
    if progress is not None:
        progress(len(files), len(files))
    return evidence


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    seen = set()
    for given in map(Path, paths):
        if not given.exists():
            raise FileNotFoundError(f"there is no {given}")
        files = sorted(given.rglob("*")) if given.is_dir() else [given]
        for path in files:
            if path.is_file() and not path.name.startswith("."):
                real = os.path.realpath(path)
                if real not in seen:
                    seen.add(real)
                    yield path


def _read(path: Path, evidence: Evidence, most_calls: int) -> None:
    """Read one file by the format that its beginning shows."""
    with path.open("rb") as file:
        beginning = file.read(BEGINNING)
    if not beginning and path.suffix in (".log", ".txt", ".out", ".err"):
        return  # of a rank that had nothing to say
    if not beginning:
        raise ValueError("empty")
    if beginning[:2] in (b"\x1f\x8b", b"PK"):
        raise ValueError("compressed: unpack it first")
    if _is_pickle(beginning):
        evidence.dumps.append(flight_recorder.read(path, most_calls))
        return
    text = beginning.decode("utf-8", "replace")
    if ras.is_ras(text):
        evidence.reports += ras.read(path)
    elif text.lstrip().startswith("{"):
        evidence.dumps.append(flight_recorder.read(path, most_calls))
    elif stacks.is_stacks(text) or text.lstrip().startswith("["):
        own_stacks = stacks.read(path)
        evidence.stacks += own_stacks
        if not own_stacks or "Fatal Python error" in text:
            _read_log(path, beginning, evidence)
    else:
        _read_log(path, beginning, evidence)


def _read_log(path: Path, beginning: bytes, evidence: Evidence) -> None:
    if b"\0" in beginning:
        raise ValueError("neither a dump nor text")
    evidence.facts += job_logs.read(path)


def _is_pickle(beginning: bytes) -> bool:
    """Return whether bytes begin as a pickle of protocol 2 and later, or an old one."""
    if beginning[:1] == b"\x80":
        return True
    return beginning[:2] in (b"}q", b"(d", b"(l", b"}(", b"cp", b"c_", b"(i")

"""Diagnosis: why a job hangs, from the files that it has left.

Here `explain("dumps/")` returns a `Verdict`: which rank is at fault, in which line, who
waits for it, and whether that is proved. The files are read by `formats`; nothing of
them is executed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from collectives_lab.basics.errors import LabError
from collectives_lab.diagnosis import dump_times, last_calls, reproduction
from collectives_lab.diagnosis.evidence import collect
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.judge import judge
from collectives_lab.diagnosis.verdict import KINDS, Verdict, Wait

__all__ = ["KINDS", "Unreadable", "Verdict", "Wait", "explain"]


class Unreadable(LabError):
    """Error for files of which none says anything about a job."""


def explain(
    *paths: str | Path | Iterable[str | Path],
    progress: Callable[[int, int], None] | None = None,
) -> Verdict:
    """Say why a job hangs, from its files, and return the Verdict.

    paths: files and folders, in any mixture, or lists of them: Flight Recorder dumps,
    logs, reports of NCCL's RAS, stacks by py-spy. progress: called with the number of
    files read and of all. Raises Unreadable where none of the files helps, with what is
    wrong with each.
    """
    try:
        evidence = collect(_flat(paths), progress)
    except FileNotFoundError as error:
        raise Unreadable(str(error)) from None
    if (evidence.is_empty and evidence.problems) or not evidence.files:
        problems = [f"{path}: {why}" for path, why in evidence.problems.items()]
        raise Unreadable("\n".join(problems) or "there is no file in these folders")
    job = Job.of(evidence)
    dump_times.sort_out(job)
    verdict = judge(job)
    verdict.notes += _problems(evidence.problems)
    verdict.picture = last_calls.drawing(job, verdict.culprits)
    verdict.trace = last_calls.trace(job) if job.calls else None
    verdict.write = partial(reproduction.tried, job, verdict)
    return verdict


def _flat(paths: Iterable[Any]) -> Iterator[str | Path]:
    """Yield the paths, those of lists too."""
    for path in paths:
        if isinstance(path, str | os.PathLike):
            yield Path(path)
        elif isinstance(path, Iterable) and not isinstance(path, bytes | Mapping):
            yield from _flat(path)
        else:
            raise Unreadable(
                f"explain takes paths of files and folders, not {type(path).__name__}"
            )


def _problems(problems: Mapping[str, str]) -> list[str]:
    """Return what is wrong with files, in a line for each kind of fault."""
    alike: dict[str, list[str]] = {}
    for path, why in problems.items():
        alike.setdefault(why.replace(path, "").strip(), []).append(path)
    return [
        f"{paths[0]}{f' and {len(paths) - 1} more' if paths[1:] else ''}: {why}"
        for why, paths in alike.items()
    ]

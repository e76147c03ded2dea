"""Diagnosis: why a job hangs, from the files that it has left.

`lab.explain("dumps/")` in a notebook returns a `Verdict`, and
`python -m collectives_lab explain dumps/` prints the same: which rank is at fault, in
which line, who waits for it, and whether that is proved. The files are read by
`formats`; nothing of them is executed.
"""

from __future__ import annotations

from pathlib import Path

from collectives_lab.basics.errors import LabError
from collectives_lab.diagnosis.evidence import Evidence, collect
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.judge import judge
from collectives_lab.diagnosis.verdict import KINDS, Verdict, Wait

__all__ = ["KINDS", "Evidence", "Job", "Unreadable", "Verdict", "Wait", "collect"]


class Unreadable(LabError):
    """Error for files of which none says anything about a job."""


def explain(*paths: str | Path, reproduce: bool = False) -> Verdict:
    """Say why a job hangs, from its files, and return the Verdict.

    paths: files and folders, in any mixture: Flight Recorder dumps, logs, reports of
    NCCL's RAS, stacks by py-spy. Raises Unreadable where none of them helps, with what
    is wrong with each.
    """
    try:
        evidence = collect(paths)
    except FileNotFoundError as error:
        raise Unreadable(str(error)) from None
    return verdict_on(evidence)


def verdict_on(evidence: Evidence) -> Verdict:
    """Return the verdict on what was read; raises Unreadable where nothing was."""
    if evidence.is_empty:
        problems = [f"{path}: {why}" for path, why in evidence.problems.items()]
        raise Unreadable("\n".join(problems) or "no file here says anything of a job")
    verdict = judge(Job.of(evidence))
    verdict.notes += [f"{path}: {why}" for path, why in evidence.problems.items()]
    return verdict

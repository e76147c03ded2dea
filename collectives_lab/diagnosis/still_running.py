"""Still running: whether a job went on while its files were written."""

from __future__ import annotations

import os

from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.stragglers import CALLS, RECENT
from collectives_lab.formats.log_facts import Fact

DAY = 86_400.0


def is_moving(job: Job) -> bool:
    """Return whether the job went on while, or just before, its dumps were written.

    So it is where the dumps of ranks differ by calls that were over within a few steps,
    or where a file is hardly older than its last call. The age of a file is a bound,
    which a copy only raises. A time-out, or any end of a rank, says the contrary.
    """
    if job.missing_dumps - job.stale or any(is_end(fact) for fact in job.facts):
        return False
    return _moved_between(job) or all(
        len(job.calls[rank]) > CALLS and _age(job, rank) < 2 * _step(job, rank)
        for rank in job.dumps
    )


def is_end(fact: Fact) -> bool:
    """Return whether a fact is that a rank, or a call of it, has come to a bad end."""
    by_a_wait = "timed out" in fact.text.lower() or fact.follows or fact.uncaught
    return fact.kind in ("timeout", "died", "misfit") or by_a_wait


def _moved_between(job: Job) -> bool:
    if not job.stale or len(job.stale) == len(job.dumps):
        return False
    newest = {
        rank: max((c.created or 0 for c in calls), default=0)
        for rank, calls in job.calls.items()
    }
    spread = (max(newest.values()) - min(newest.values())) / 1e9
    return spread < 10 * max(_step(job, rank) for rank in job.dumps)


def _age(job: Job, rank: int) -> float:
    """Return how long a rank's last call was made before its file was written."""
    newest = max((c.created or 0 for c in job.calls[rank]), default=0) / 1e9
    try:
        age = os.stat(job.dumps[rank].path).st_mtime - newest
    except OSError:
        return DAY
    return age if newest and age >= 0 else DAY


def _step(job: Job, rank: int) -> float:
    """Return the mean time between two of a rank's last calls."""
    times = sorted(c.created for c in job.calls[rank][-RECENT:] if c.created)
    return (times[-1] - times[0]) / 1e9 / (len(times) - 1) if len(times) > 1 else 0.0

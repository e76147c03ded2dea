"""Workers, seen from the class run: processes that are given a job at a time.

A worker that ends or hangs costs its own submission a verdict and nothing else.
`graded` runs many jobs on several; `graded_here` one, on a worker that is kept until
this process ends.
"""

import atexit
import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

from autograder import course
from autograder.receipts import Job, Receipt

STARTING = 180.0
ANSWERING = 600.0
"""Seconds for one submission: only for what the engine's own deadlines do not see."""
KEPT = ("key", "assignment", "student", "engine", "notes")
"""What of a job stands in its receipt."""

LONGEST = 64 * 10**6


class Worker:
    """One worker process; raises CourseError where it cannot start."""

    def __init__(self, tier: str | None = None):
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the worker
        self.pipe, theirs = Pipe()
        command = [sys.executable, "-m", "autograder.worker", str(theirs.fileno())]
        self.process = subprocess.Popen(
            [*command, *([tier] if tier else [])],
            cwd=course.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for the class run, which ends these
        )
        theirs.close()
        self.job: Job | None = None
        self.deadline = time.monotonic() + STARTING

    def ready(self) -> None:
        """Wait until it can be given work."""
        said = self._heard() if self.pipe.poll(STARTING) else None
        if said is None or "refused" in said:
            self.end()
            reason = said["refused"] if said else self.last_words()
            raise course.CourseError(f"submissions cannot be checked here: {reason}")

    def give(self, job: Job) -> None:
        """Hand it a job; it must be free."""
        self.job, self.deadline = job, time.monotonic() + ANSWERING
        with suppress(OSError):  # one that has ended is found by the receipt
            self.pipe.send_bytes(json.dumps(job).encode())

    def receipt(self) -> Receipt:
        """The receipt of its job; waits for the answer, until the job's time is up."""
        job, self.job = self.job, None
        assert job is not None
        left = max(self.deadline - time.monotonic(), 0)
        said = self._heard() if self.pipe.poll(left) else None
        if said is None:
            late = time.monotonic() > self.deadline
            self.end()
            reason = f"no verdict after {ANSWERING:g} s" if late else self.last_words()
            said = {"exercises": dict.fromkeys(job["seeds"], _lost(reason))}
        return receipt(job, said)

    def _heard(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self.pipe.recv_bytes(LONGEST))
        except (EOFError, OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def last_words(self) -> str:
        """How it ended, and the last line that it wrote."""
        self.log.seek(max(0, self.log.seek(0, 2) - 4000))
        lines = self.log.read().decode("utf-8", "replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        return f"the checking process ended with status {self.process.returncode}{said}"

    def end(self) -> None:
        """End the process; its box ends with it."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()


def receipt(job: Job, said: dict[str, Any]) -> Receipt:
    """A receipt of a worker's answer; `retry` where the fault is not the student's."""
    kept = {name: job[name] for name in KEPT}
    verdicts = said["exercises"].values()
    retry = any(verdict["status"] != "graded" for verdict in verdicts)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return kept | said | {"retry": retry, "made": made}


def unread(job: Job) -> Receipt:
    """The receipt of a file that cannot be read: no process need look at it."""
    verdict = {"status": "not gradable", "reason": job["unreadable"], "notes": []}
    return receipt(job, {"exercises": dict.fromkeys(job["seeds"], verdict)}) | {
        "retry": False
    }


def _lost(reason: str) -> dict[str, Any]:
    return {"status": "not gradable", "reason": reason, "notes": []}


def graded(jobs: Sequence[Job], count: int, tier: str | None) -> Iterator[Receipt]:
    """Work through jobs on `count` workers; yields each receipt as it comes."""
    waiting = list(reversed(jobs))
    crew = [Worker(tier) for _ in range(min(count, len(jobs)))]
    try:
        for worker in crew:
            worker.ready()
        while waiting or any(worker.job for worker in crew):
            for worker in crew:
                if worker.job is None and waiting:
                    worker.give(waiting.pop())
            for worker in _answered(crew):
                yield worker.receipt()
                if worker.process.poll() is not None:
                    crew[crew.index(worker)] = fresh = Worker(tier)
                    fresh.ready()
    finally:
        for worker in crew:
            worker.end()


def _answered(crew: Sequence[Worker]) -> list[Worker]:
    """Those that have answered, have ended or are out of time; waits for the first."""
    busy = {worker.pipe: worker for worker in crew if worker.job}
    left = min(worker.deadline for worker in busy.values()) - time.monotonic()
    answered = wait(list(busy), max(left, 0))
    late = [w for w in busy.values() if time.monotonic() > w.deadline]
    return [w for pipe, w in busy.items() if pipe in answered] or late


@functools.cache
def _kept() -> list[Worker]:
    crew: list[Worker] = []
    atexit.register(lambda: [worker.end() for worker in crew])  # type: ignore[func-returns-value]
    return crew


def graded_here(job: Job) -> Receipt:
    """The receipt of one job, for who does not grade a class."""
    crew = _kept()
    if not crew or crew[0].process.poll() is not None:
        crew[:] = [Worker()]
        crew[0].ready()
    crew[0].give(job)
    return crew[0].receipt()

"""Workers, seen from the class run: processes that are given a job at a time.

A worker that ends, hangs or takes too much memory costs nobody but its own submission
anything. One that ended is replaced and the submission tried again. Where the next one
is lost too, or was ended for the time or memory that it took, there is a zero for a
person to look at, if a program of ours runs well on the same machine. `graded` runs
many jobs on several workers; `graded_here` one, on a worker that is kept until this
process ends.
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
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

import psutil

from autograder import course
from autograder.jobs import LOST, Job, Receipt

STARTING = 180.0
ANSWERING = 75.0
"""Seconds for an exercise: only for what the engine's own deadlines do not see."""
MEMORY = 512 << 20
"""Bytes that a worker may need for one submission, beside what it had before."""
LOOKING = 0.1
"""Seconds between two looks at that."""
IDENTITY = ("key", "assignment", "student", "engine", "notes")
"""What of a job stands in its receipt."""
LONGEST = 64 * 10**6
"""Bytes of a worker's answer."""


class Worker:
    """One worker process; raises CourseError where it cannot start."""

    def __init__(self, tier: str | None = None):
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the worker
        self.pipe, worker_end = Pipe()
        command = [sys.executable, "-m", "autograder.worker", str(worker_end.fileno())]
        self.process = subprocess.Popen(
            [*command, *([tier] if tier else [])],
            cwd=course.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=[worker_end.fileno()],
            start_new_session=True,  # Ctrl-C is for the class run, which ends these
        )
        worker_end.close()
        self.job: Job | None = None
        self.had = 0
        self.why_lost = ""
        self.took_too_much = False
        self.deadline = time.monotonic() + STARTING

    def ready(self) -> None:
        """Wait until it can be given work."""
        answer = self._message() if self.pipe.poll(STARTING) else None
        if answer is None or "refused" in answer:
            self.end()
            reason = answer["refused"] if answer else self.last_words()
            raise course.CourseError(f"submissions cannot be checked here: {reason}")

    def give(self, job: Job) -> None:
        """Hand it a job; it must be free."""
        self.job, self.had = job, self._memory()
        self.deadline = time.monotonic() + ANSWERING * len(job["seeds"])
        with suppress(OSError):  # one that has ended is found by its answer
            self.pipe.send_bytes(json.dumps(job).encode())

    def receipt(self) -> Receipt:
        """Return the receipt of its job.

        Waits for the answer, until the job's time is up.
        """
        job = self.job
        assert job is not None
        _next_workers([self])
        return receipt(job, self.answer() or self.lost(job))

    def lost(self, job: Job) -> dict[str, Any]:
        """Return, in place of an answer, that there is no verdict."""
        return _no_verdict(job, self.why_lost)

    def again(self, job: Job) -> Job:
        """Return its job as the next worker gets it.

        What took too much is not tried again.
        """
        times = LOST if self.took_too_much else 1
        return job | {"lost": [*job.get("lost", []), *[self.why_lost] * times]}

    def answer(self) -> dict[str, Any] | None:
        """Return what it has answered.

        None, and its end, where its submission is lost.
        """
        self.job, too_much = None, self.too_much()
        message = self._message() if self.pipe.poll(0) else None
        if message is None:
            self.end()
            self.took_too_much = bool(too_much)
            self.why_lost = too_much or self.last_words()
        return message

    def too_much(self) -> str:
        """Return why its submission cannot go on; empty where it may."""
        if time.monotonic() > self.deadline:
            return f"the check has no verdict after {ANSWERING:g} s"
        if self._memory() > self.had + MEMORY:
            return f"the check needed more than {MEMORY >> 20} MiB of memory"
        return ""

    def _memory(self) -> int:
        """Return bytes that the process has; 0 once it has ended."""
        try:
            return psutil.Process(self.process.pid).memory_info().rss
        except psutil.Error:
            return 0

    def _message(self) -> dict[str, Any] | None:
        try:
            message = json.loads(self.pipe.recv_bytes(LONGEST))
        except (EOFError, OSError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def last_words(self) -> str:
        """Return how it ended, and the last line that it wrote."""
        self.log.seek(max(0, self.log.seek(0, 2) - 4000))
        lines = self.log.read().decode("utf-8", "replace").strip().splitlines()
        last_line = f": {lines[-1]}" if lines else ""
        status = self.process.returncode
        return f"the checking process ended with status {status}{last_line}"

    def end(self) -> None:
        """End the process; its box ends with it."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()


def receipt(job: Job, answer: dict[str, Any]) -> Receipt:
    """Return a receipt of a worker's answer.

    `retry` where the fault is not the student's.
    """
    identity = {name: job[name] for name in IDENTITY}
    verdicts = answer["exercises"].values()
    retry = any(verdict["status"] != "graded" for verdict in verdicts)
    reasons = dict.fromkeys(verdict.get("look", "") for verdict in verdicts)
    look = "; ".join(filter(None, reasons))
    return identity | answer | {"retry": retry, "look": look, "made": course.now()}


def _unread(job: Job) -> Receipt:
    """Return the receipt of a file that cannot be read: no process need look at it."""
    return receipt(job, _no_verdict(job, job["unreadable"])) | {"retry": False}


def _no_verdict(job: Job, reason: str) -> dict[str, Any]:
    verdict = {"status": "not gradable", "reason": reason, "notes": []}
    return {"exercises": dict.fromkeys(job["seeds"], verdict)}


def graded(jobs: Sequence[Job], count: int, tier: str | None) -> Iterator[Receipt]:
    """Work through jobs on `count` workers; yields each receipt as it comes."""
    readable = [job for job in jobs if not job["unreadable"]]
    crew = [Worker(tier) for _ in range(min(count, len(readable)))]
    try:
        for worker in crew:
            worker.ready()
        yield from _receipts(readable, crew, tier)
    finally:
        for worker in crew:
            worker.end()
    yield from (_unread(job) for job in jobs if job["unreadable"])


def graded_here(job: Job) -> Receipt:
    """Return the receipt of one job, for who does not grade a class."""
    if job["unreadable"]:
        return _unread(job)
    made = _receipts([job], _crew())  # first that of a call that was interrupted
    return next(receipt for receipt in made if receipt["key"] == job["key"])


@functools.cache
def _crew() -> list[Worker]:
    """Return one worker, ended with this process; another one takes its place."""
    crew = [Worker()]
    crew[0].ready()
    atexit.register(lambda: crew[0].end())
    return crew


def _receipts(
    jobs: Sequence[Job], crew: list[Worker], tier: str | None = None
) -> Iterator[Receipt]:
    """Have a crew work through jobs; who has ended is replaced."""
    waiting = list(reversed(jobs))
    while waiting or any(worker.job for worker in crew):
        for place, worker in enumerate(crew):
            if worker.job is None and waiting:
                if worker.process.poll() is not None:
                    crew[place] = worker = Worker(tier)
                    worker.ready()
                worker.give(waiting.pop())
        for worker in _next_workers(crew):
            job, answer = worker.job, worker.answer()
            assert job is not None
            if answer is None and len(job.get("lost", [])) < LOST:
                waiting.append(worker.again(job))
            else:
                yield receipt(job, answer or worker.lost(job))


def _next_workers(crew: Sequence[Worker]) -> list[Worker]:
    """Return those that have answered, have ended or take too much.

    Waits for the first.
    """
    busy = {worker.pipe: worker for worker in crew if worker.job}
    while True:
        if ready_workers := wait(list(busy), LOOKING):
            return [worker for pipe, worker in busy.items() if pipe in ready_workers]
        if over := [worker for worker in busy.values() if worker.too_much()]:
            return over

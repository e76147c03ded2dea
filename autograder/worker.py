"""A worker: a process that turns jobs into verdicts, with an open box of its own.

`python -m autograder.worker FD [TIER]` is what `workers.Worker` starts: jobs come and
answers go as JSON on that descriptor. TIER may be `alone`: the best one on a machine
that is there for one submission. What a student wrote is parsed here and run in
the box; whatever it does to either, the class run goes on with another worker.
"""

import json
import platform
import sys
import time
import traceback
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

from autograder import remarks
from autograder.jobs import ALONE, LOST, Job
from autograder.program import read, texts
from autograder.statements import Code
from autograder.trial import tried
from collectives_lab import checking
from collectives_lab.checking.engine import unjudged, with_prelude
from collectives_lab.launch import LabError
from collectives_lab.notebook.report_html import report_html
from collectives_lab.sandbox import tiers
from collectives_lab.wire import Box, Program

PACKAGES = ("torch", "numpy", "nbgrader")


def checked(job: Job, name: str, box: Box) -> dict[str, Any]:
    """Return the verdict on one exercise of a job.

    Where the box was lost, in a new one.

    What fails again and again where a program of ours runs well is the submission's: it
    has a zero, for a person to look at.
    """
    if name not in checking.EXERCISES:
        return not_gradable(f"this engine has no exercise {name}")
    who = {"seed": job["seeds"][name], "student": job["student"]}
    known: dict[str, Any] = who | {"program": [], "notes": []}
    reason = "; ".join(dict.fromkeys(job.get("lost", [])))
    if len(job.get("lost", [])) < LOST:
        for _ in ("first", "again"):
            try:
                known["program"], known["notes"] = _cells(job, name, box)
                program = Program.notebook(known["program"])
                return known | _graded(checking.grade(name, program, box=box, **who))
            except LabError as error:
                reason = str(error)
            except Exception as error:  # a fault of ours, with what a student wrote
                traceback.print_exc()
                reason = f"the check failed on this notebook ({error!r})"
            box.close()
    if not _runs_a_program(box):
        return known | not_gradable(reason)
    return known | _graded(unjudged(checking.EXERCISES[name], reason, box, who["seed"]))


def _runs_a_program(box: Box) -> bool:
    """Return whether a program of ours runs well here."""
    program = Program.source([("ours", "def f(): return 1")])
    try:
        with box.ranks(2, program) as ranks:
            return ranks.call("f", [(), ()]).results == [1, 1]
    except LabError:
        return False


def _cells(job: Job, name: str, box: Box) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what is run: the program of a receipt that is repeated, or the
    notebook's.
    """
    if "programs" in job:
        return job["programs"][name], []
    test = job["tests"][name]
    cells = [Code(n, source, n > test) for n, source in job["cells"]]
    exercise = checking.EXERCISES[name]
    reading = read(cells, exercise.names)
    trial = tried(reading, box, partial(with_prelude, exercise))
    return texts(trial.runs), remarks.on(reading, trial, exercise.names, job["given"])


def _graded(report: Any) -> dict[str, Any]:
    return {
        "status": "graded",
        "score": report.score,
        "points": report.points,
        "max_points": report.max_points,
        "report": json.loads(report.as_json()),
        "text": str(report),
        "html": report_html(report),
        "look": report.look,
    }


def not_gradable(reason: str) -> dict[str, Any]:
    """Return the verdict that there is none, which is not a zero."""
    return {"status": "not gradable", "reason": reason}


def _versions() -> dict[str, str]:
    there = [name for name in PACKAGES if find_spec(name)]  # not all in a container
    return {"python": platform.python_version()} | {p: version(p) for p in there}


def main(fd: int, tier: str | None) -> None:
    """Answer jobs until the class run closes its end."""
    pipe = Connection(fd)

    def send(answer: dict[str, Any]) -> None:
        pipe.send_bytes(json.dumps(answer).encode())

    with Box(tiers.best(alone=True) if tier == ALONE else tier) as box:
        if box.tier == "D" and tier in (None, ALONE):
            send({"refused": "no sandbox works here (choose --tier D to go without)"})
            return
        send({"ready": box.description})
        while True:
            job = json.loads(pipe.recv_bytes())
            began = time.monotonic()
            reports = {name: checked(job, name, box) for name in job["seeds"]}
            seconds = round(time.monotonic() - began, 2)
            about = {"tier": box.description, "versions": _versions()}
            send({"exercises": reports, **about, "seconds": seconds})


if __name__ == "__main__":
    with suppress(EOFError, BrokenPipeError):  # the class run has ended
        main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)

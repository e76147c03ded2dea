"""A class of 200 submissions, graded in the sandbox, beside plain nbgrader.

A course of its own is made in a temporary folder. Its submissions of ring_all_reduce
are a realistic mixture: right ones and wrong ones of the zoo, some files that cannot be
read, and one in twenty a loop or a deadlock. Plain nbgrader runs the notebooks of some
of them in a kernel each, in the order in which they were handed in; they hold the same
checks, by `lab.check`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from statistics import median

import psutil

from benchmarks.measure import Row, interleave
from collectives_lab import checking
from collectives_lab.wire import Box, Program

ROOT = Path(__file__).parents[1]
RING = "ring_all_reduce"
TESTS = ROOT / "tests" / "grading"
RIGHT, WRONG = 21, 12
"""Programs of the zoo in the mixture; with seven kinds of `example` they make a cycle
of 40, of which one is a loop and one a deadlock: 5 %."""

PLAIN = "c = get_config()\nc.CourseDirectory.root = {root!r}\n" + (
    'c.CourseDirectory.course_id = "plain"\n'
    'c.CourseDirectory.source_directory = "solutions"\n'
    'c.CourseDirectory.release_directory = "exercises"\n'
    'c.CourseDirectory.submitted_directory = "plain/submitted"\n'
    "c.Execute.timeout = 60\nc.Execute.interrupt_on_timeout = True\n"
    "c.Execute.error_on_timeout = {{'ename': 'Late', 'evalue': '', 'traceback': []}}\n"
)


def measure(quick: bool) -> list[Row]:
    """Measure a class, then the check of a deadlock and of a loop."""
    students, sample = (2, 1) if quick else (200, 40)
    with tempfile.TemporaryDirectory() as folder:
        course = new_course(Path(folder), students)
        ours, memory = grade(course)
        plain = plainly(course, sample) / sample * students
    limit = 210.0 * students / 200
    return [
        Row("grading", f"a class of {students} ring_all_reduce, graded", "s", [ours],
            f"{limit:.3g} s, 5 times faster",
            ours <= limit and plain >= 5 * ours, f"plain nbgrader, from {sample}",
            [plain], f"{plain / ours:.1f} times faster"),
        Row("grading", "the memory of it, all processes", "MB", [memory], "1500 MB",
            memory <= 1.5e9),
        *single(1 if quick else 15),
    ]  # fmt: skip


def new_course(folder: Path, students: int) -> Path:
    """Copy the autograder with its assignment, and add a class's submissions."""
    kept = shutil.ignore_patterns("submitted", "*.db", "receipts", "__pycache__")
    shutil.copytree(ROOT / "autograder", folder / "autograder", ignore=kept)
    for kind in ("solutions", "exercises"):
        shutil.copytree(ROOT / kind / RING, folder / kind / RING)
    (folder / "collectives_lab").symlink_to(ROOT / "collectives_lab")
    solutions = folder / "handed_in"
    solutions.mkdir()
    sys.path.insert(0, str(TESTS))
    zoo_programs = import_module("zoo_programs")
    programs = [p for p in zoo_programs.zoo() if p.exercise == RING]
    right = [p for p in programs if p.claim.startswith("passes")][:RIGHT]
    wrong = [p for p in programs if p.claim.startswith("fails")][:WRONG]
    for program in [*right, *wrong]:
        (solutions / f"{program.name}.py").write_text(program.source)
    example = ("example", RING, "--students", str(students))
    run(folder, "autograder", *example, "--solutions", str(solutions))
    run(folder / "autograder", "nbgrader", "generate_assignment", RING, "--force")
    return folder


def run(folder: Path, module: str, *arguments: str) -> None:
    """Run `python -m MODULE ...` in this folder; if it fails, raise with its output."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    result = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    if result.returncode:
        raise RuntimeError(f"{module} {arguments}: {result.stdout}{result.stderr}")


def grade(course: Path) -> tuple[float, float]:
    """Return the seconds for the class by two workers, and the peak memory in bytes."""
    with most_memory() as most:
        begun = time.perf_counter()
        run(course, "autograder", "grade", RING, "--workers", "2")
        return time.perf_counter() - begun, most()


def plainly(course: Path, count: int) -> float:
    """Return the seconds of nbgrader's own autograde for the first `count` students."""
    plain = course / "plain"
    names = sorted(p.name for p in (course / "autograder" / "submitted").iterdir())
    for name in names[:count]:
        shutil.copytree(
            course / "autograder" / "submitted" / name, plain / "submitted" / name
        )
    (plain / "nbgrader_config.py").write_text(PLAIN.format(root=str(course)))
    run(plain, "nbgrader", "generate_assignment", RING, "--force")
    begun = time.perf_counter()
    with suppress(RuntimeError):  # it fails if it cannot read one of them
        run(plain, "nbgrader", "autograde", RING)
    return time.perf_counter() - begun


@contextmanager
def most_memory() -> Iterator[Callable[[], float]]:
    """Measure the peak memory of all children together, shared pages counted once."""
    most, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.25):
            total = 0.0
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, OSError):
                    total += process.memory_full_info().pss
            most[0] = max(most[0], total)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: most[0]
    finally:
        done.set()
        watcher.join()


DEADLOCK = """
import torch, torch.distributed as dist
def ring_all_reduce(tensor):
    dist.send(torch.ones(1), (dist.get_rank() + 1) % dist.get_world_size())
"""
LOOP = "def ring_all_reduce(tensor):\n    while True: pass\n"


def single(rounds: int) -> list[Row]:
    """Measure a right submission, a deadlock and a loop, in one open box."""
    right = (TESTS / "zoo" / RING / "ok_plain.py").read_text()
    with Box() as box:

        def seconds(text: str) -> float:
            begun = time.perf_counter()
            checking.grade(RING, Program.source([("cell", text)]), box=box)
            return time.perf_counter() - begun

        well, stuck = interleave(
            lambda: seconds(right), lambda: seconds(DEADLOCK), rounds=rounds
        )
        loops = [seconds(LOOP) for _ in range(min(rounds, 3))]
    more = median(stuck) - median(well)
    return [
        Row("grading", "the check of a deadlock", "s", stuck, "0.2 s more at most",
            more <= 0.2, "of a right one", well, f"{more:+.2f} s"),
        Row("grading", "the check of a loop, 5 s of CPU time", "s", loops, "5.5 s",
            median(loops) <= 5.5),
    ]  # fmt: skip

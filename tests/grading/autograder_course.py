"""A course of its own in a temporary folder, for the tests of the autograder."""

import csv
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
from conftest import ROOT
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder import examples

RING = "ring_all_reduce"
NBGRADER = Path(sys.executable).with_name("nbgrader")


@dataclass
class Course:
    """A course of its own: this repository's autograder on a few assignments."""

    folder: Path
    printed: str = ""  # by its last run

    @property
    def autograder(self) -> Path:
        return self.folder / "autograder"

    def python(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """`python -m autograder ...`, which must end well and soon."""
        command = [sys.executable, "-m", "autograder", *arguments]
        return self._run(command, self.folder, **more)

    def nbgrader(
        self, *arguments: str, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """`nbgrader ...` in autograder/, as an instructor runs it."""
        return self._run([str(NBGRADER), *arguments], self.autograder, **more)

    def _run(
        self, command: list[str], folder: Path, fails: bool = False
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=200,
            env=self.env,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done

    @property
    def env(self) -> dict[str, str]:
        return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def source(self, assignment: str) -> NotebookNode:
        """The assignment, solved."""
        path = self.folder / "solutions" / assignment / f"{assignment}.ipynb"
        return examples.solved(nbformat.read(path, as_version=4))

    def hand_in(self, student: str, work: NotebookNode | str, name: str = RING) -> Path:
        """Put a submission where the exchange and zip_collect put it."""
        path = self.autograder / "submitted" / student / name / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(work if isinstance(work, str) else nbformat.writes(work))
        return path

    def rows(self, assignment: str = RING) -> dict[str, dict[str, str]]:
        """The CSV that `grade` writes, by student."""
        with (self.autograder / "grades" / f"{assignment}.csv").open() as file:
            return {row["student_id"]: row for row in csv.DictReader(file)}

    def receipt(self, student: str, assignment: str = RING) -> dict[str, Any]:
        path = self.autograder / "receipts" / assignment / f"{student}.json"
        return json.loads(path.read_text())

    def gradebook(self) -> Gradebook:
        return Gradebook(
            f"sqlite:///{self.autograder / 'gradebook.db'}", "collectives_lab"
        )

    def processes(self) -> list[str]:
        """The command lines of what still runs in this course."""
        collected = []
        for process in psutil.process_iter(["cmdline", "cwd"]):
            if process.info["cwd"] == str(self.folder):
                collected.append(" ".join(process.info["cmdline"] or []))
        return collected


def new_course(folder: Path, *assignments: str) -> Course:
    """A course with these assignments, released."""
    made = Path(_released(assignments).name)
    shutil.copytree(made, folder, symlinks=True, dirs_exist_ok=True)
    return Course(folder)


@functools.cache
def _released(assignments: tuple[str, ...]) -> tempfile.TemporaryDirectory:
    """Made once: each command of nbgrader takes seconds to start."""
    made = tempfile.TemporaryDirectory()
    folder = Path(made.name)
    (folder / "autograder").mkdir()
    for path in (ROOT / "autograder").glob("*.py"):
        shutil.copy(path, folder / "autograder")
    for name in assignments:
        shutil.copytree(ROOT / "solutions" / name, folder / "solutions" / name)
    package = ROOT / "collectives_lab"  # whose digest is in every receipt
    kept = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, folder / "collectives_lab", ignore=kept)
    for name in assignments:
        Course(folder).nbgrader("generate_assignment", name, "--force")
    return made

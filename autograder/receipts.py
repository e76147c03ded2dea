"""A receipt for each submission: what was checked, how, and every finding, as JSON.

`job` says what is to be checked; its key names content, course and engine, so that a
receipt with the same key is the verdict and nothing is checked twice. A receipt holds
the program and the seeds: enough to repeat the verdict (`python -m autograder repeat`).
"""

import functools
import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import course
from autograder.jobs import Job, Receipt
from autograder.notebook import Unreadable, read, strange
from autograder.rebuild import OURS, marks, rebuild, test_cells

READING = (
    *("notebook", "images", "rebuild", "statements", "program", "trial"),
    "remarks",
)
"""The modules here that decide what of a submission is checked."""


def cleaned(path: Path, release: NotebookNode) -> NotebookNode:
    """Return a submitted file on the released notebook.

    Where it cannot be read, says why.
    """
    try:
        if why := strange(path.parent):
            raise Unreadable(why)
        return rebuild(read(path), release)
    except Unreadable as error:
        bare = rebuild([], release)
        bare.metadata[OURS] = {"unreadable": str(error), "notes": []}
        return bare


def read_release(assignment: str) -> NotebookNode:
    """Return the released notebook of an assignment."""
    return nbformat.read(course.released(assignment), as_version=4)


def points(release: NotebookNode) -> dict[str, float]:
    """Return the points of each graded cell of a released notebook, by its id."""
    graded = [marks(cell) for cell in release.cells if marks(cell).get("grade")]
    return {cell["grade_id"]: float(cell["points"]) for cell in graded}


def job(
    notebook: NotebookNode, release: NotebookNode, assignment: str, student: str
) -> Job:
    """Return what a cleaned notebook gives to check: its code, by exercise."""
    content = _digest(notebook)
    tests = {name: c.execution_count for name, c in test_cells(notebook).items()}
    cells = [
        (cell.execution_count, cell.source)
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.execution_count not in tests.values()
    ]
    seeds = {name: course.keyed("seed", assignment, name, content) for name in tests}
    return {
        "key": course.keyed("receipt", assignment, student, content, engine()),
        "assignment": assignment,
        "student": student,
        "engine": engine(),
        "cells": cells,
        "given": [cell.source for cell in release.cells if cell.cell_type == "code"],
        "tests": tests,
        "seeds": {name: digits[:16] for name, digits in seeds.items()},
        "notes": notebook.metadata[OURS]["notes"],
        "unreadable": notebook.metadata[OURS].get("unreadable"),
    }


@functools.cache
def engine() -> str:
    """Return a digest of all that a verdict follows from besides the submission."""
    digest = hashlib.sha256(version("torch").encode())
    package = sorted((course.ROOT / "collectives_lab").rglob("*.py"))
    for path in [*package, *(course.HERE / f"{name}.py" for name in READING)]:
        digest.update(f"{path.relative_to(course.ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def find(job: Job, final: bool = True) -> Receipt | None:
    """Return the receipt of this job.

    A final one holds nothing that is to be tried again.
    """
    receipt = load(job["assignment"], job["student"])
    if not receipt or receipt["key"] != job["key"]:
        return None
    again = receipt["retry"] and "dismissed" not in receipt
    return None if final and again else receipt


def verdict_id(receipt: Receipt) -> str:
    """Return what tells this verdict from a later one on the same job."""
    return f"{receipt['key']}{' (to be tried again)' * receipt['retry']}"


def load(assignment: str, student: str) -> Receipt | None:
    """Return the last receipt of a student, if there is one and it is whole."""
    try:
        return json.loads(place(assignment, student).read_text())
    except (OSError, ValueError):
        return None


def save(receipt: Receipt) -> None:
    """Write a receipt, at once or not at all."""
    course.save(receipt, place(receipt["assignment"], receipt["student"]))


def place(assignment: str, student: str) -> Path:
    """Return where a student's receipt is kept."""
    return course.RECEIPTS / assignment / f"{student}.json"


def _digest(notebook: NotebookNode) -> str:
    sources = [
        [cell.cell_type, cell.source, marks(cell).get("grade_id")]
        + ([cell.attachments] if "attachments" in cell else [])
        for cell in notebook.cells
    ]
    parts = [sources, notebook.metadata[OURS].get("unreadable")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

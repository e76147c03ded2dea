"""A class of example submissions: to try the way before a real class depends on it."""

import re
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder import course
from autograder.rebuild import exercise, is_answer, marks, test_cells

STUDENT = "example-{:03d}"
ANSWER = "Because every rank sends and receives at the same time. (An example.)"
LOOP = "def {0}(*arguments):\n    while True:\n        pass\n"
DEADLOCK = """def {0}(*arguments):
    import torch
    import torch.distributed as dist

    dist.recv(torch.zeros(1), (dist.get_rank() + 1) % dist.get_world_size())
"""
OWN_CELL = "for rank in range(3):\n    print(rank)\nassert True"


def make(assignment: str, count: int, solutions: Path | None = None) -> str:
    """Write `count` submissions of students example-001 and on; says where they are.

    solutions: a folder of Python files, each a whole solution, that are handed in too.
    The same arguments give the same class. Raises CourseError.
    """
    source = course.ROOT / "solutions" / assignment / f"{assignment}.ipynb"
    released = course.released(assignment)
    if not source.is_file():
        raise course.CourseError(f"there is no {source} to make examples from")
    files = sorted(solutions.glob("*.py")) if solutions else []
    kinds: list[Kind] = [
        *KINDS,
        *(partial(with_code, code=path.read_text()) for path in files),
    ]
    for number, kind in enumerate(islice(cycle(kinds), count), 1):
        folder = course.SUBMITTED / STUDENT.format(number) / assignment
        folder.mkdir(parents=True, exist_ok=True)
        time = f"2026-01-{number % 28 + 1:02d} 12:00:00 UTC"
        (folder / "timestamp.txt").write_text(time)
        path = released if kind is untouched else source
        made = kind(nbformat.read(path, as_version=4))
        text = made if isinstance(made, str) else nbformat.writes(made)
        (folder / f"{assignment}.ipynb").write_text(text)
    return f"{count} submissions in {course.SUBMITTED}"


def solved(notebook: NotebookNode) -> NotebookNode:
    """All solved, with an answer to the question."""
    for cell in notebook.cells:
        cell.source = re.sub(r" *### (BEGIN|END) SOLUTION\n?", "", cell.source)
        if is_answer(cell):
            cell.source = ANSWER
    return notebook


def untouched(notebook: NotebookNode) -> NotebookNode:
    """The released notebook, handed in as it is."""
    return notebook


def with_code(notebook: NotebookNode, code: str) -> NotebookNode:
    """Other code in the first solution cell; `{0}` in it is the exercise."""
    name = next(iter(test_cells(notebook)))
    for cell in solved(notebook).cells:
        if cell.cell_type == "code" and marks(cell).get("solution"):
            cell.source = code.replace("{0}", name)
            break
    return notebook


def without_test_cells(notebook: NotebookNode) -> NotebookNode:
    """The test cells deleted, and a cell of one's own that defines nothing."""
    cells = [cell for cell in solved(notebook).cells if not exercise(cell)]
    notebook.cells = [*cells, new_code_cell(OWN_CELL)]
    return notebook


def no_notebook(notebook: NotebookNode) -> str:
    """A file that is no notebook."""
    return "{"


Kind = Callable[[NotebookNode], NotebookNode | str]
KINDS: list[Kind] = [
    *(solved, untouched, without_test_cells, no_notebook),
    *(partial(with_code, code=code) for code in (LOOP, DEADLOCK, "def {0}(:\n")),
]

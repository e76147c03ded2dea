"""The promises of the assignments: their form, their marks, and what students get."""

import copy
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder import program as reading
from autograder.statements import Code
from book import badges
from collectives_lab import checking
from collectives_lab.checking.spec import Exercise
from collectives_lab.wire import Program

ROOT = Path(__file__).parents[2]
ANSWERS = ROOT / "solutions" / "chapters"
SOLUTIONS = sorted(
    path for path in (ROOT / "solutions").glob("*/*.ipynb") if path.parent != ANSWERS
)
NAMES = [path.stem for path in SOLUTIONS]

LONGEST = 25
"""Lines of a code cell that is no solution."""

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
LEFTOVERS = re.compile(r"TODO|FIXME|XXX|\bseeds?/|/work/|/tmp/|/home/|\?\?\?")
TEST = re.compile(
    r'report = lab\.check\("(\w+)", \w+(, student=STUDENT)?\)\n'
    r"display\(report\)\nreport\.points"
)
ROW = re.compile(r"^\| (\w+) \| (\d+) \| (.+) \|$", re.MULTILINE)
STATED = re.compile(r"^\*(Easy|Medium|Hard), (\d+) minutes\.\*", re.MULTILINE)
HINT = re.compile(
    r"<details><summary>Hint (\d): [^\n]+</summary>\n\n(.+?)</details>", re.S
)


@cache
def _read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def read(path: Path) -> NotebookNode:
    """A notebook of one's own, to be changed."""
    return copy.deepcopy(_read(path))


def graded(cell: NotebookNode) -> dict:
    """What nbgrader knows of a cell; nothing of most."""
    return cell.metadata.get("nbgrader", {})


def cells(notebook: NotebookNode, *, grade: bool, solution: bool) -> list[NotebookNode]:
    """The cells of one of nbgrader's kinds."""
    kind = (grade, solution)
    return [
        cell
        for cell in notebook.cells
        if graded(cell) and (graded(cell)["grade"], graded(cell)["solution"]) == kind
    ]


def parts(notebook: NotebookNode) -> dict[str, list[NotebookNode]]:
    """The cells of each exercise by its name, the last the one that checks it."""
    collected: dict[str, list[NotebookNode]] = {}
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        cells.append(cell)
        if graded(cell).get("grade_id", "").startswith("check_"):
            collected[graded(cell)["grade_id"].removeprefix("check_")] = cells
            cells = []
    return collected


# -- form ------------------------------------------------------------------------------


def faults(notebook: NotebookNode, name: str) -> Iterator[str]:
    """Say, in a sentence each, what is wrong with the form of an assignment."""
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        yield f"it is no valid notebook: {error.message}"
        return
    yield from faults_of_file(notebook)
    yield from faults_of_why(notebook, name)
    by_part = parts(notebook)
    if not by_part:
        yield "nothing in it is checked"
    for exercise, own in by_part.items():
        if exercise not in checking.EXERCISES:
            yield f"{exercise!r} is no exercise of the check"
            continue
        text = "\n".join(c.source for c in own if c.cell_type == "markdown")
        yield from faults_of_text(text, checking.EXERCISES[exercise])
        yield from faults_of_cells(own, checking.EXERCISES[exercise])


def faults_of_file(notebook: NotebookNode) -> Iterator[str]:
    """What must not be committed, and what every notebook must have."""
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        yield f"it is nbformat {notebook.nbformat}.{notebook.nbformat_minor}, not 4.5"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its kernelspec is not python3"
    if not notebook.cells[0].source.startswith("# "):
        yield "it does not open with a title"
    if "**" not in notebook.cells[0].source:
        yield "it does not open with a question"
    if not badges.is_set_up(notebook, badges.read_setting()):
        yield "its first code cell is not that of `make badges`"
    ids = [graded(c)["grade_id"] for c in notebook.cells if graded(c)]
    if len(set(ids)) < len(ids):
        yield f"a grade_id stands twice: {ids}"
    for cell in notebook.cells:
        yield from faults_of_cell(cell)


def faults_of_cell(cell: NotebookNode) -> Iterator[str]:
    if not re.fullmatch(r"[a-z][a-z_-]+", cell.id):
        yield f"cell {cell.id} has an id that says nothing"
    if cell.get("outputs") or cell.get("execution_count") is not None:
        yield f"cell {cell.id} has outputs or an execution count"
    if match := LEFTOVERS.search(cell.source):
        yield f"cell {cell.id} says {match[0]!r}"
    lines = len(cell.source.splitlines())
    if cell.cell_type == "code" and lines > LONGEST and BEGIN not in cell.source:
        yield f"cell {cell.id} has {lines} lines; at most {LONGEST}"
    if (BEGIN in cell.source) != (END in cell.source):
        yield f"cell {cell.id} lacks a marker of its solution"
    if graded(cell):
        meta = graded(cell)
        if meta["schema_version"] != 3 or meta["task"]:
            yield f"cell {cell.id} is not of nbgrader's schema 3, or a task"
        if meta["locked"] != (meta["grade"] and not meta["solution"]):
            yield f"cell {cell.id}: locked is {meta['locked']}"


def faults_of_text(text: str, exercise: Exercise) -> Iterator[str]:
    """The text of an exercise says what its specification says."""
    levels = [(word.lower(), int(minutes)) for word, minutes in STATED.findall(text)]
    if levels != [(exercise.difficulty, exercise.minutes)]:
        yield (
            f"{exercise.name}: the text says {levels}, the specification "
            f"{exercise.difficulty}, {exercise.minutes} minutes"
        )
    rows = [(*row,) for row in ROW.findall(text.replace("`", ""))]
    for row, p in zip_longest(rows, exercise.properties):
        if p is None or row != (p.name, str(p.points), p.title):
            yield f"{exercise.name}: the table has {row}, the specification {p}"
    hints = HINT.findall(text)
    if [int(number) for number, _ in hints] != [*range(1, len(hints) + 1)]:
        yield f"{exercise.name}: hints are not numbered from 1"
    if len(hints) < 3 or text.count("<details>") != len(hints):
        yield f"{exercise.name}: {len(hints)} folded hints; at least 3, and all folded"
    if any("```" in hint for _, hint in hints):
        yield f"{exercise.name}: a hint gives code"


def faults_of_cells(own: list[NotebookNode], exercise: Exercise) -> Iterator[str]:
    """An exercise has one cell to solve, one that draws, and one that checks, last."""
    *before, last = own
    solved = [c for c in before if graded(c).get("grade_id") == exercise.name]
    if (
        len(solved) != 1
        or not graded(solved[0])["solution"]
        or graded(solved[0])["grade"]
    ):
        yield f"{exercise.name}: {len(solved)} cells to solve with that id; need 1"
        return
    (solution,) = solved
    names = re.findall(r"^def (\w+)\(", stub(solution.source), flags=re.MULTILINE)
    if names != list(exercise.names):
        yield f"{exercise.name}: the stub defines {names}, not {list(exercise.names)}"
    if solution.source.count(BEGIN) != len(names):
        yield f"{exercise.name}: not every function of the stub is to be solved"
    if "algorithms" in solution.source:
        yield f"{exercise.name}: the reference uses the package's own algorithm"
    drawn = before[before.index(solution) + 1 :]
    if not any("lab.plots." in c.source for c in drawn if c.cell_type == "code"):
        yield f"{exercise.name}: no picture of one's own run"
    checked = TEST.search(last.source)
    if checked is None or checked[1] != exercise.name:
        yield f"{exercise.name}: the last cell does not show the report and its points"
    points = graded(last).get("points")
    if points != exercise.points:
        yield f"{exercise.name}: {points} points, not {exercise.points}"


def faults_of_why(notebook: NotebookNode, name: str) -> Iterator[str]:
    """One question is answered in words, at the end, and read by a person."""
    answers = cells(notebook, grade=True, solution=True)
    if [graded(cell)["grade_id"] for cell in answers] != [f"why_{name}"]:
        yield f"it has {len(answers)} questions to answer in words; need 1, why_{name}"
        return
    question, answer = notebook.cells[-2:]
    if answer is not answers[0] or not question.source.startswith("## Why\n"):
        yield "it does not end with '## Why' and the answer"
    if f"({graded(answer)['points']} points, read by a person; " not in question.source:
        yield f"the question does not say that it has {graded(answer)['points']} points"


def stub(source: str) -> str:
    """What nbgrader leaves of a cell with a solution."""
    solutions = rf"^( *){BEGIN}\n.*?{END}$"
    return re.sub(solutions, r"\1raise NotImplementedError", source, flags=re.M | re.S)


@pytest.mark.parametrize("path", SOLUTIONS, ids=NAMES)
def test_an_assignment_has_its_form(path: Path) -> None:
    """Every assignment says what its specification says, and is complete."""
    assert path.parent.name == path.stem
    complaints = list(faults(read(path), path.stem))
    assert not complaints, "\n".join(complaints)


def test_every_exercise_has_its_notebook() -> None:
    """What the check knows is set somewhere, once."""
    names = [name for path in SOLUTIONS for name in parts(read(path))]
    assert sorted(names) == sorted(checking.EXERCISES)


def cell(notebook: NotebookNode, name: str) -> NotebookNode:
    (matching,) = [cell for cell in notebook.cells if cell.id == name]
    return matching


def swap(name: str, old: str, new: str) -> Callable[[NotebookNode], None]:
    """Replace a text in one cell, where it must be."""

    def change(notebook: NotebookNode) -> None:
        changed = cell(notebook, name)
        assert old in changed.source
        changed.source = changed.source.replace(old, new)

    return change


def meta(name: str, **changed: object) -> Callable[[NotebookNode], None]:
    return lambda notebook: graded(cell(notebook, name)).update(changed)


def without(name: str) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells.remove(cell(notebook, name))


BROKEN: list[tuple[Callable[[NotebookNode], object], str]] = [
    (lambda nb: nb.cells[0].pop("source"), "no valid notebook"),
    (lambda nb: nb.update(nbformat_minor=4), "no valid notebook"),
    (lambda nb: nb.metadata.kernelspec.update(name="mine"), "kernelspec"),
    (swap("opening", "# Ring", "Ring"), "with a title"),
    (swap("opening", "**", ""), "with a question"),
    (swap("install", "import collectives_lab", "import lab"), "make badges"),
    (without("install"), "make badges"),
    (meta("why", grade_id="ring_all_reduce"), "stands twice"),
    (lambda nb: nb.cells.append(new_markdown_cell("", id="a1b2")), "says nothing"),
    (lambda nb: cell(nb, "setup").update(execution_count=1), "execution count"),
    (swap("setup", "import torch\n", "import torch  # TODO\n"), "says 'TODO'"),
    (lambda nb: nb.cells.append(new_code_cell("1\n" * 26, id="long")), "26 lines"),
    (swap("solution", END, ""), "lacks a marker"),
    (meta("check", schema_version=2), "schema 3"),
    (meta("check", locked=False), "locked is False"),
    (meta("solution", locked=True), "locked is True"),
    (swap("opening", "*Hard, 60", "*Easy, 60"), "the text says"),
    (swap("opening", "*Hard, 60", "*Hard, 90"), "the text says"),
    (swap("opening", "| lengths | 2 |", "| lengths | 4 |"), "the table has"),
    (swap("opening", "| lengths | 2 |", "| length | 3 |"), "the table has"),
    (swap("opening", "| lengths | 2 | ", "| lengths | 2 | no "), "the table has"),
    (swap("opening", "| schedules", "schedules"), "the table has None"),
    (swap("opening", "| two_ranks", "| a | 1 | b |\n| two_ranks"), "the table has"),
    (swap("hints", "Hint 2", "Hint 3"), "not numbered"),
    (swap("hints", "<details>", ""), "0 folded hints"),
    (swap("hints", "</details>", "```\ncode\n```\n</details>"), "a hint gives code"),
    (without("solution"), "0 cells to solve"),
    (meta("solution", solution=False), "1 cells to solve"),
    (swap("solution", "def ring_all_reduce", "def all_reduce"), "the stub defines"),
    (swap("solution", f"    {BEGIN}", f"    {BEGIN}\n    {BEGIN}"), "not every"),
    (swap("solution", "torch.empty_like", "lab.algorithms"), "own algorithm"),
    (swap("picture", "lab.plots.", "lab."), "no picture"),
    (swap("check", "report.points", "report.score"), "the report and its points"),
    (swap("check", '"ring_all_reduce"', '"tree_broadcast"'), "the report and its"),
    (meta("check", points=24), "24 points"),
    (meta("check", grade_id="ring"), "nothing in it is checked"),
    (meta("check", grade_id="check_rings"), "no exercise of the check"),
    (without("why"), "0 questions"),
    (without("why-question"), "does not end with '## Why'"),
    (meta("why", points=5), "that it has 5 points"),
]


@pytest.mark.parametrize("change, complaint", BROKEN)
def test_a_fault_of_form_is_found(change: Callable, complaint: str) -> None:
    """The test above fails where it should."""
    notebook = read(ROOT / "solutions/ring_all_reduce/ring_all_reduce.ipynb")
    change(notebook)
    assert any(complaint in fault for fault in faults(notebook, "ring_all_reduce"))


# -- what students get -----------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nbgrader makes of all solutions in one run, in a folder that is not ours."""
    root = tmp_path_factory.mktemp("course")
    for name in NAMES:
        shutil.copytree(ROOT / "solutions" / name, root / "solutions" / name)
    (root / "autograder").mkdir()
    shutil.copy(ROOT / "autograder/nbgrader_config.py", root / "autograder")
    made = subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", "*"]
        + ["--force", "--no-db"],
        cwd=root / "autograder",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert made.returncode == 0, made.stdout
    return root / "exercises"


@pytest.mark.parametrize("name", NAMES)
def test_exercises_are_what_nbgrader_makes_of_solutions(
    generated: Path, name: str
) -> None:
    """What is committed for students is generated, and from the present source."""
    here = ROOT / "exercises" / name / f"{name}.ipynb"
    assert here.is_file(), f"{name} is not generated; run `make exercises`"
    same = here.read_text() == (generated / name / here.name).read_text()
    assert same, (
        f"exercises/{name} is not what solutions/{name} gives; `make exercises`"
    )


def test_exercises_holds_nothing_else() -> None:
    """An assignment that was renamed or removed leaves nothing behind."""
    files = [path for path in (ROOT / "exercises").rglob("*") if path.is_file()]
    expected = [ROOT / "exercises" / name / f"{name}.ipynb" for name in NAMES]
    assert sorted(files) == sorted([ROOT / "exercises/README.md", *expected])


def secrets(solution: NotebookNode) -> Iterator[str]:
    """Every line that is a solution's own, of code and of answers in words.

    Not the shortest ones, which any program might have.
    """
    for cell in cells(solution, grade=False, solution=True):
        for region in re.findall(rf"{BEGIN}\n(.*?){END}", cell.source, re.S):
            yield from region.splitlines()
    for cell in cells(solution, grade=True, solution=True):
        yield from re.split(r"(?<=[.:;?]) |\n", cell.source)


def given_away(solution: NotebookNode, exercise: NotebookNode) -> list[str]:
    """The lines of a solution that its exercise still has."""
    others = [c.source for c in solution.cells if not graded(c).get("solution")]
    public = "\n".join(others)
    text = "\n".join(cell.source for cell in exercise.cells)
    lines = {line.strip() for line in secrets(solution)}
    revealed = [s for s in lines if len(s) > 12 and s in text and s not in public]
    return revealed + re.findall("(?:BEGIN|END) SOLUTION", text)


@pytest.mark.parametrize("path", SOLUTIONS, ids=NAMES)
def test_students_get_no_solution(path: Path) -> None:
    """Neither code of a reference nor a sentence of an answer is left."""
    exercise = read(ROOT / "exercises" / path.stem / path.name)
    assert not given_away(read(path), exercise)
    stubs = cells(exercise, grade=False, solution=True)
    assert all("raise NotImplementedError" in cell.source for cell in stubs)


@pytest.mark.parametrize(
    "name, message",
    [("solution", "    row = tensor.contiguous().view(-1)"), ("solution", END)]
    + [("why", "the sums are rounded differently.")],
)
def test_a_solution_given_away_is_found(name: str, message: str) -> None:
    """The test above fails where it should."""
    solution = read(ROOT / "solutions/ring_all_reduce/ring_all_reduce.ipynb")
    exercise = copy.deepcopy(solution)
    for hidden in cells(exercise, grade=False, solution=True):
        hidden.source = stub(hidden.source)
    for hidden in cells(exercise, grade=True, solution=True):
        hidden.source = ""
    assert not given_away(solution, exercise)
    cell(exercise, name).source += f"\n{message}\n"
    assert given_away(solution, exercise) == [message.strip().removeprefix("### ")]


# -- marks -----------------------------------------------------------------------------


def program(notebook: NotebookNode, exercise: str) -> Program:
    """The program of one exercise, as the autograder takes it from a notebook."""
    texts = [c.source for c in notebook.cells if c.cell_type == "code"]
    code = [Code(number, text) for number, text in enumerate(texts, 1)]
    submission = reading.read(code, checking.EXERCISES[exercise].names)
    return Program.notebook(
        reading.texts([s for s in submission.runs if s in submission.needed])
    )


EACH = [pytest.param(p, name, id=name) for p in SOLUTIONS for name in parts(read(p))]


@pytest.mark.slow
@pytest.mark.parametrize("path, name", EACH)
def test_the_reference_has_full_marks(path: Path, name: str) -> None:
    """What the source notebook holds solves its exercise, in every property."""
    report = checking.grade(name, program(read(path), name), seed="a test")
    assert report.passed and report.points == report.max_points, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("path, name", EACH)
def test_the_stub_has_no_marks(path: Path, name: str) -> None:
    """What students are given earns nothing as it is."""
    notebook = read(ROOT / "exercises" / path.stem / path.name)
    report = checking.grade(name, program(notebook, name), seed="a test")
    assert report.points == 0 and not report.passed, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("path", SOLUTIONS, ids=NAMES)
def test_a_solved_notebook_runs(path: Path) -> None:
    """All cells run in a kernel, the pictures too, and the check gives full marks."""
    notebook = read(path)
    end = time.monotonic() + 90
    client = NotebookClient(
        notebook,
        timeout_func=lambda cell: max(1, round(end - time.monotonic())),
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute(env=os.environ | {"PYTHONPATH": str(ROOT)})
    for cell in cells(notebook, grade=True, solution=False):
        assert cell.outputs[-1].data["text/plain"] == str(graded(cell)["points"])
    pictures = [
        out
        for cell in notebook.cells
        if "lab.plots." in cell.source and cell.cell_type == "code"
        for out in cell.outputs
        if "text/html" in out.get("data", {})
    ]
    assert len(pictures) >= len(parts(notebook)), "a picture was not drawn"

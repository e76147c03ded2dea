"""The class run: nbgrader's real commands, the real engine, a class of all kinds."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest
from autograder_course import RING, Course, new_course
from conftest import until
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.utils import determine_grade

from autograder import course as layout
from autograder import examples, receipts
from autograder import workers as workers_of
from autograder.execute import outputs
from autograder.rebuild import exercise, marks
from autograder.worker import checked, main
from collectives_lab.sandbox import tiers
from collectives_lab.wire import Box

# A class and its marks in a minute or two; reading what is handed in is tried always.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

XSS = "<script>alert(1)</script>"


def with_code(notebook: NotebookNode, code: str) -> NotebookNode:
    """The notebook with this in its solution cell."""
    return examples.with_code(notebook, code)


def solution(notebook: NotebookNode) -> NotebookNode:
    (cell,) = (c for c in notebook.cells if marks(c).get("grade_id") == RING)
    return cell


def test_cell(notebook: NotebookNode) -> NotebookNode:
    (cell,) = (c for c in notebook.cells if exercise(c))
    return cell


test_cell.__test__ = False


def doubled(notebook: NotebookNode) -> NotebookNode:
    again = deepcopy(notebook.cells[-3:])
    for cell in again:
        cell.id += "-again"
    notebook.cells += again
    return notebook


def claiming(notebook: NotebookNode) -> NotebookNode:
    """Nothing solved, but outputs, points and a test cell that claim it is."""
    solution(notebook).source = "def ring_all_reduce(tensor):\n    pass"
    cell = test_cell(notebook)
    cell.source, cell.metadata.nbgrader.points = "20.0", 1000
    data = {"text/plain": "nan", "text/html": XSS}
    cell.outputs = [new_output("execute_result", data=data)]
    return notebook


def of_another_kernel(notebook: NotebookNode) -> NotebookNode:
    notebook.metadata = {
        "kernelspec": {"name": "ir", "language": "R", "display_name": "R"}
    }
    for cell in notebook.cells:
        if marks(cell):
            cell.metadata.nbgrader.schema_version = 99
    return notebook


def with_own_cells(notebook: NotebookNode) -> NotebookNode:
    """Helpers in cells of their own, a demonstration that never ends, and magics."""
    cell = solution(notebook)
    cell.source = cell.source.replace("def ring_all_reduce", "def helper", 1)
    place = notebook.cells.index(cell)
    calls = "def ring_all_reduce(tensor):\n    helper(tensor)"
    notebook.cells[place:place] = [new_code_cell("while True:\n    pass")]
    notebook.cells.insert(place + 2, new_code_cell(calls))
    notebook.cells.insert(place + 2, new_code_cell("%load_ext collectives_lab"))
    return notebook


Work = Callable[[NotebookNode], NotebookNode | str]


def code(text: str) -> Work:
    return lambda notebook: with_code(notebook, text)


KILLER = """
import os, signal
def ring_all_reduce(tensor):
    for pid in (os.getppid(), 1, -1):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
"""
AT_IMPORT = "import os\nENDED = os._exit(0)\ndef ring_all_reduce(tensor): ENDED"
RAISES = f"def ring_all_reduce(tensor):\n    raise ValueError('{XSS}\\x1b[2J')"
ROBBER = """
import glob, os
HERE = __AUTOGRADER__
def ring_all_reduce(tensor):
    for path in glob.glob(HERE + "/**", recursive=True):
        open(path, "a").write("mine")
"""
# student: (the work handed in, status, points of the check or None)
CLASS: dict[str, tuple[Work, str, float | None]] = {
    "solved": (lambda notebook: notebook, "to be graded by hand", 20),
    "stub": (code("def {0}(tensor):\n    raise NotImplementedError"), "hand", 0),
    "own_cells": (with_own_cells, "hand", 20),
    "talks": (code("print(20.0)\ndef {0}(tensor):\n    print(20.0)"), "hand", 0),
    "doubled": (doubled, "hand", 20),
    "no_tests": (examples.without_test_cells, "hand", 20),
    "claims": (claiming, "hand", 0),
    "kernel": (of_another_kernel, "hand", 20),
    "no_json": (lambda notebook: "{", "not gradable", None),
    "deep": (lambda notebook: "[" * 10**6, "not gradable", None),
    "large": (lambda notebook: " " * 80 * 10**6, "not gradable", None),
    "loops": (code(examples.LOOP), "hand", 0),
    "waits": (code(examples.DEADLOCK), "hand", 0),
    "ends": (code(AT_IMPORT), "hand", 0),
    "kills": (code(KILLER), "hand", 0),
    "robs": (code(ROBBER), "hand", 0),
    "raises": (code(RAISES), "hand", 0),
    "syntax": (code("def {0}(tensor:"), "hand", 0),
    "solved_too": (lambda notebook: notebook, "hand", 20),
}
OTHERS = {"renamed": "not gradable", "linked": "not gradable", "piped": "not gradable"}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class of all kinds, graded once by the one command."""
    course = new_course(tmp_path_factory.mktemp("class"), RING)
    for student, (work, _, _) in CLASS.items():
        made = work(course.source(RING))
        if not isinstance(made, str):
            for cell in made.cells:
                where = repr(str(course.autograder))
                cell.source = cell.source.replace("__AUTOGRADER__", where)
        course.hand_in(student, made)
    path = course.hand_in("renamed", course.source(RING))
    path.rename(path.with_name("homework.ipynb"))
    path = course.hand_in("linked", "")
    path.unlink()
    path.symlink_to(course.folder / "solutions" / RING / f"{RING}.ipynb")
    os.mkfifo(course.hand_in("piped", course.source(RING)).with_name("data.txt"))
    late = course.hand_in("solved_too", course.source(RING)).with_name("timestamp.txt")
    late.write_text("2026-02-03 04:05:06 UTC")
    course.printed = course.python("grade", RING, "--workers", "2").stdout
    return course


@pytest.mark.parametrize("student", [*CLASS, *OTHERS])
def test_everybody_gets_the_right_verdict(graded: Course, student: str) -> None:
    """Each submission has its status and its points, whoever its neighbours were."""
    row = graded.rows()[student]
    if student in OTHERS:
        assert (row["status"], row["score"]) == (OTHERS[student], "")
        assert row["reason"]
        return
    _, status, points = CLASS[student]
    assert status in row["status"], row
    assert row["score"] == ("" if points is None else str(float(points)))
    assert bool(row["reason"]) == (points is None)


def test_the_gradebook_tells_none_from_zero(graded: Course) -> None:
    """What is not gradable has no score there, and waits for a person."""
    with graded.gradebook() as book:
        for student, (_, _, points) in CLASS.items():
            grade = book.find_grade(f"check_{RING}", RING, RING, student)
            assert grade.auto_score == points, student
            assert grade.needs_manual_grade == (points is None), student
            assert grade.max_score == 20


def test_nothing_of_the_class_was_touched(graded: Course) -> None:
    """No submission wrote anywhere or left anything running."""
    assert until(lambda: not graded.processes()), graded.processes()
    for path in graded.autograder.rglob("*"):
        if path.suffix in (".py", ".json", ".ipynb") and path.is_file():
            assert not path.read_bytes().endswith(b"mine"), path


def test_the_summary_says_how_the_class_did(graded: Course) -> None:
    """A line a student, the counts, and how often each property held."""
    output = graded.printed
    assert "no_json" in output and "not a notebook" in output
    assert "6 not gradable" in output
    assert f"{RING}.traffic" in output


def test_the_verdict_names_what_was_left_out(graded: Course) -> None:
    """A student learns which of the own cells did not count, and where."""
    (note,) = graded.receipt("own_cells")["exercises"][RING]["notes"]
    assert re.match(r"cell \d, line 1: `while True:` does not end: ", note)
    assert graded.receipt("doubled")["notes"] == []
    (note,) = graded.receipt("claims")["notes"]
    assert note == f"the cell check_{RING} was changed; the released one counts"
    (note,) = graded.receipt("syntax")["exercises"][RING]["notes"]
    assert note.startswith("cell 3 is left out: line 1: ")


def test_a_receipt_is_enough_to_repeat_the_verdict(graded: Course) -> None:
    """`repeat` checks the receipt's own program again, with the receipt's seeds."""
    path = graded.autograder / "receipts" / RING / "solved.json"
    output = graded.python("repeat", str(path), "--tier", "D").stdout
    assert output == f"{RING}: 20 points then, 20 now: the same\n"


def test_regrading_gives_the_same_marks(graded: Course) -> None:
    """Checked again from the submission, everything but the time is the same."""
    chosen = ["solved", "waits"]
    before, then = graded.rows(), [graded.receipt(name) for name in chosen]
    students = [option for name in chosen for option in ("--student", name)]
    output = graded.python("grade", RING, "--force", *students).stdout
    assert "solved " in output and "kernel" not in output, (
        "the summary is of the chosen"
    )
    assert f"{RING}.traffic      1 of 2" in output
    assert graded.rows() == before
    for name, old in zip(chosen, then, strict=True):
        new = graded.receipt(name)
        assert new["made"] >= old["made"]
        for kept in ("key", "engine"):
            assert new[kept] == old[kept]
        assert new["exercises"][RING]["seed"] == old["exercises"][RING]["seed"]
        report = new["exercises"][RING]["report"]
        assert report["findings"] == old["exercises"][RING]["report"]["findings"]


@pytest.mark.slow
def test_a_worker_reads_no_notebook() -> None:
    """What reads and draws notebooks takes a second, and 20 MB in each worker."""
    source = "import sys, autograder.worker; print(*sys.modules)"
    command = [sys.executable, "-c", source]
    modules = subprocess.check_output(command, cwd=layout.ROOT, text=True, timeout=100)
    assert not {"nbformat", "nbgrader", "matplotlib", "IPython"} & {*modules.split()}


def test_a_second_run_checks_and_records_nothing(graded: Course) -> None:
    """Whatever has a receipt, and is in the gradebook, is not done again."""
    done = graded.python("grade", RING)
    assert done.stderr == ""
    assert done.stdout == graded.printed


def test_feedback_is_complete_and_acts_in_nobodys_browser(graded: Course) -> None:
    """HTML and text for each: points, findings, the student's words, escaped."""
    graded.python("feedback", RING, *("--student", "raises", "--student", "claims"))
    for student in ("raises", "claims"):
        folder = graded.autograder / "feedback" / student / RING
        page, text = (folder / f"{RING}.{kind}" for kind in ("html", "txt"))
        assert XSS not in page.read_text()
        assert "two_ranks" in page.read_text()
        assert "\x1b" not in text.read_text()
        assert text.read_text().startswith(
            f"{RING}, {student}: 0 of 24 points so far\n"
        )
        assert f"why_{RING}: not yet graded" in text.read_text()
    assert (
        XSS
        in text.with_name("x")
        .parent.parent.parent.joinpath("raises", RING, f"{RING}.txt")
        .read_text()
    )


def test_plain_nbgrader_gives_the_same(graded: Course) -> None:
    """`nbgrader autograde` alone writes the same marks, and `export` tells them."""
    shutil.rmtree(graded.autograder / "receipts")
    student = "own_cells"
    graded.nbgrader("autograde", RING, f"--student={student}", "--force")
    graded.nbgrader("export", "--to=all.csv")
    with (graded.autograder / "all.csv").open() as file:
        scores = {row["student_id"]: row["score"] for row in csv.DictReader(file)}
    assert scores[student] == "20.0"
    assert scores["no_json"] == scores["claims"] == "0.0"
    assert graded.receipt(student)["exercises"][RING]["status"] == "graded"


@pytest.mark.parametrize("score", [0.0, 1 / 3, 1.0, 1.0000001, -1e-9])
def test_the_test_cell_holds_what_nbgrader_reads(score: float) -> None:
    """One finite number within the cell's points, as nbgrader's own rule reads it."""
    verdict = {"status": "graded", "score": score, "text": "", "html": "", "notes": []}
    receipt = {"key": "0" * 64, "notes": [], "exercises": {"f": verdict}}
    marks = {"grade": True, "solution": False, "locked": True, "points": 3}
    cell = new_code_cell("", metadata={"nbgrader": marks})
    cell.outputs = outputs(receipt, "f", 3.0)
    points, most = determine_grade(cell)
    assert (points, most) == (pytest.approx(min(max(score, 0), 1) * 3), 3)
    assert 0 <= points <= 3


@pytest.fixture
def small(tmp_path: Path) -> Course:
    """A class of three."""
    course = new_course(tmp_path, RING)
    for student in ("ann", "ben", "cem"):
        course.hand_in(student, course.source(RING))
    return course


def workers(course: Course) -> Iterator[psutil.Process]:
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or []
        if process.info["cwd"] == str(course.folder) and "autograder.worker" in words:
            yield process


@pytest.mark.usefixtures("interruptible")
def test_a_run_that_is_stopped_goes_on_later(small: Course) -> None:
    """Interrupted or killed, it leaves nothing running; the next run completes it."""
    command = [sys.executable, "-m", "autograder", "grade", RING, "--workers", "1"]
    for how in (signal.SIGINT, signal.SIGKILL):
        run = subprocess.Popen(
            command, cwd=small.folder, stderr=subprocess.DEVNULL, env=small.env
        )
        try:
            assert until(lambda: any(workers(small)), 30)
            time.sleep(1.0)
        finally:
            run.send_signal(how)
            run.wait(30)
        assert until(lambda: not small.processes(), 30), small.processes()
    small.python("grade", RING)
    assert {row["score"] for row in small.rows().values()} == {"20.0"}


def is_checking(course: Course) -> bool:
    """Whether a box of this course has ranks: forks of its server, and so like it."""
    package = repr(str(course.folder.resolve() / "collectives_lab"))
    processes = [p.info for p in psutil.process_iter(["name", "cmdline"])]
    pythons = [p["cmdline"] or [] for p in processes if p["name"].startswith("python")]
    return sum(package in " ".join(words) for words in pythons) > 1


def test_a_worker_that_dies_costs_nobody_a_verdict(small: Course) -> None:
    """Its submission is given to another one in the same run."""
    small.hand_in("ben", with_code(small.source(RING), examples.LOOP))
    command = [sys.executable, "-m", "autograder", "grade", RING, "--workers", "1"]
    run = subprocess.Popen(
        command, cwd=small.folder, stdout=subprocess.DEVNULL, env=small.env
    )
    try:
        receipts = small.autograder / "receipts" / RING
        assert until(lambda: (receipts / "ann.json").exists(), 60)
        assert until(lambda: is_checking(small), 90), small.processes()
        next(workers(small)).kill()
        assert run.wait(90) == 0
    finally:
        run.kill()
        run.wait()
    rows = small.rows()
    assert [row["score"] for row in rows.values()] == ["20.0", "0.0", "20.0"]
    assert rows["ben"]["checked"] == "0" and not rows["ben"]["look"]


def test_a_submission_that_loses_worker_after_worker_has_a_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a program of ours runs well it is the submission's, and to be looked at."""
    release = receipts.read_release(RING)
    job = receipts.job(receipts.rebuild([], release), release, RING, "ann")
    why = "the check needed more than 512 MiB of memory"
    lost = [why] * workers_of.LOST
    monkeypatch.setattr(
        workers_of.Worker,
        "too_much",
        lambda worker: why if worker.job and worker.job.get("lost") != lost else "",
    )
    (receipt,) = workers_of.graded([job], 1, None)
    verdict = receipt["exercises"][RING]
    assert (verdict["status"], verdict["score"]) == ("graded", 0.0)
    assert why in receipt["look"] and not receipt["retry"]
    assert why in verdict["text"]


def test_a_worker_that_takes_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and time of the checking process are looked at from outside."""
    release = receipts.read_release(RING)
    job = receipts.job(receipts.rebuild([], release), release, RING, "ann")
    for name, value, why in (
        ("MEMORY", -(1 << 40), "memory"),
        ("ANSWERING", 0.0, "no verdict"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(workers_of, name, value)
            worker = workers_of.Worker()
            worker.ready()
            worker.give(job)
            receipt = worker.receipt()
        assert why in receipt["exercises"][RING]["reason"] and receipt["retry"]
        assert worker.process.poll() is not None


def test_late_work_loses_what_nbgrader_takes(small: Course) -> None:
    """A due date and nbgrader's own plugin for late submissions do what they do."""
    config = small.autograder / "nbgrader_config.py"
    config.write_text(
        config.read_text() + 'c.LateSubmissionPlugin.penalty_method = "zero"\n'
    )
    with small.gradebook() as book:
        book.update_or_create_assignment(RING, duedate="2026-01-31 12:00:00 UTC")
    late = small.hand_in("ben", small.source(RING)).with_name("timestamp.txt")
    late.write_text("2026-02-01 12:00:00 UTC")
    small.python("grade", RING)
    row = small.rows()["ben"]
    assert (row["score"], row["late_penalty"], row["checked"]) == ("0.0", "20.0", "20")
    assert small.rows()["ann"]["score"] == "20.0"


def test_what_the_instructor_must_put_right_is_reported(small: Course) -> None:
    """Each mistake of a command is one line, and no traceback."""
    for arguments, complaint in [
        (("grade", "nonsense"), "the gradebook has no nonsense"),
        (("grade", RING, "--student", "nobody"), "no submission of nobody"),
        (("feedback", RING), "grade ring_all_reduce first"),
        (("repeat", "autograder/nbgrader_config.py"), "is no receipt"),
        (("submit", "/etc/passwd", "--student", "ann"), "not a notebook"),
        (("submit", "/etc/passwd", "--student", "a/b"), "the id 'a/b' must be"),
    ]:
        output = small.python(*arguments, fails=True).stderr
        assert output.startswith("autograder: ") and complaint in output
        assert output.count("\n") == 1


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box() as box:
        yield box


@pytest.mark.parametrize("assignment", layout.assignments())
def test_every_assignment_goes_the_whole_way(
    assignment: str, box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solution has full marks, a stub none, from the file to the verdict."""
    monkeypatch.setattr(layout, "SECRET", tmp_path / "secret")
    release = receipts.read_release(assignment)
    source = layout.ROOT / "solutions" / assignment / f"{assignment}.ipynb"
    most = {name: marks(c)["points"] for c in release.cells if (name := exercise(c))}
    for path, share in ((source, 1.0), (layout.released(assignment), 0.0)):
        notebook = receipts.cleaned(path, release)
        job = receipts.job(notebook, release, assignment, "ann")
        for name, points in most.items():
            verdict = checked(job, name, box)
            assert verdict["points"] == share * points, verdict["text"]
            assert verdict["max_points"] == points
            assert verdict["notes"] == []


def test_without_a_sandbox_a_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only tier D works, a worker takes no job unless D is asked for."""
    monkeypatch.setattr(tiers, "best", lambda: "D")
    ours, theirs = Pipe()
    main(os.dup(theirs.fileno()), None)
    assert "no sandbox works here" in json.loads(ours.recv_bytes())["refused"]

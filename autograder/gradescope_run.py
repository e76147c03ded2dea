"""Grade the one submission of a Gradescope container: what `run_autograder` runs.

`python -m autograder.gradescope_run /autograder` reads the notebook beneath
`submission/` as the class run reads it, has a worker check it, and writes
`results/results.json` once nothing of the student's runs any more. What it prints only
instructors see.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder import course, receipts, words, workers
from autograder.jobs import ALONE, Job, Receipt
from autograder.notebook import Cell, Unreadable, read
from autograder.rebuild import is_answer, marks, test_cells
from collectives_lab.basics import linux

SECONDS = 300.0
"""For one check; Gradescope gives ten minutes for everything."""

MOST_FILES = 10_000
"""More than a clone of this repository has."""

ARCHIVES = (".zip", ".gz", ".tgz", ".tar", ".7z", ".rar")

_FIRST_PID_NAMESPACE = 0xEFFFFFFC

ABOUT = ("key", "engine", "tier", "versions", "seconds")
"""What of a receipt is kept with the results: nothing that tells of hidden inputs."""

Results = dict[str, Any]


def main(root: Path) -> int:
    """Grade what is beneath `root`; 1 where this container cannot grade."""
    began = time.monotonic()
    linux.adopt_orphans()
    close(root)
    results = graded(root)
    end_all()
    results["execution_time"] = round(time.monotonic() - began)
    print(results["output"])
    course.save(results, root / "results" / "results.json")
    return 0 if "tests" in results else 1


def close(root: Path) -> None:
    """Shut all beneath `root` but Python, and `/proc`, to every user but this one.

    Where there is no Landlock ranks are other users: this is what hides the rest.
    """
    os.umask(0o077)
    root.chmod(0o711)
    for path in root.iterdir():
        if path.name != "env":
            path.chmod(path.stat().st_mode & 0o700)
    if os.stat("/proc/self/ns/pid").st_ino != _FIRST_PID_NAMESPACE:  # the container's
        with suppress(OSError):
            Path("/proc").chmod(0o700)


def graded(root: Path) -> Results:
    """Return the results of the one notebook that was handed in."""
    (assignment,) = course.assignments()
    release = receipts.read_release(assignment)
    try:
        path = submitted(root / "submission", assignment)
        of_this_assignment(read(path), release)
    except Unreadable as error:
        return refused(release, str(error))
    notebook = receipts.cleaned(path, release)
    job = receipts.job(notebook, release, assignment, student(root))
    if job["unreadable"]:
        return refused(release, job["unreadable"])
    try:
        receipt = checked(job)
    except course.CourseError as error:
        # No score: a zero would be taken for a verdict, on everybody who hands in.
        return {"output": f"not graded, which is no fault of the submission: {error}"}
    return shown(receipt, release)


def submitted(folder: Path, assignment: str) -> Path:
    """Return the notebook to grade; raises Unreadable where it is not clear which."""
    files = list(_files(folder))
    notebooks = [path for path in files if path.suffix == ".ipynb"]
    named = [path for path in notebooks if path.stem == assignment]
    if len(chosen := named or notebooks) == 1:
        return chosen[0]
    advice = f"hand in {assignment}.ipynb, and no other notebook"
    if notebooks:
        names = ", ".join(str(path.relative_to(folder)) for path in chosen[:3])
        raise Unreadable(f"there are {len(chosen)} notebooks ({names}): {advice}")
    if packed := [path.name for path in files if path.suffix.lower() in ARCHIVES]:
        raise Unreadable(f"{packed[0]} is an archive: {advice}")
    raise Unreadable(f"there is no notebook in it: {advice}")


def _files(folder: Path) -> Iterator[Path]:
    """Yield what was handed in, without what systems and Jupyter add of their own."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [n for n in folders if n[:1] != "." and n != "__MACOSX"]
        yield from (Path(place, name) for name in sorted(names) if name[:1] != ".")
        count += len(names)
        if count > MOST_FILES:
            raise Unreadable(f"it has more than {MOST_FILES} files")


def of_this_assignment(cells: list[Cell], release: NotebookNode) -> None:
    """Raise Unreadable for a notebook whose cells have another assignment's names."""
    known = {marks(cell).get("grade_id") for cell in release.cells}
    names = [cell.grade_id for cell in cells if cell.grade_id]
    if names and known.isdisjoint(names):
        raise Unreadable(f"it is another assignment's notebook, with {names[-1]}")


def student(root: Path) -> str:
    """Return the e-mail address of who hands in, of a group the first one's."""
    try:
        about = json.loads((root / "submission_metadata.json").read_text())
        return str(about["users"][0]["email"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def checked(job: Job) -> Receipt:
    """Return the receipt of a job, tried once.

    Raises CourseError where there is no box.
    """
    worker = workers.Worker(ALONE)
    try:
        worker.ready()
        worker.give(job)
        worker.deadline = time.monotonic() + SECONDS
        return worker.receipt()
    finally:
        worker.end()


def end_all() -> None:
    """Kill what is left of the check, which comes to this process, and wait for it."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]


def refused(release: NotebookNode, why: str) -> Results:
    """Give zero points and the reason why nothing handed in can be checked."""
    text = words.printable(f"0 points: {why}")
    tests = [_test(name, 0.0, most, why) for name, most in _exercises(release).items()]
    return {"output": text, "tests": tests}


def shown(receipt: Receipt, release: NotebookNode) -> Results:
    """Return the verdict as Gradescope wants it: a test for each property, with its
    points.
    """
    exercises = _exercises(release)
    texts = [words.text(receipt, name) for name in exercises]
    tests = [
        test
        for name, points in exercises.items()
        for test in _tests(receipt["exercises"][name], name, points)
    ]
    about = {name: receipt[name] for name in ABOUT if name in receipt}
    output = "\n\n".join([*texts, *_by_hand(release)])
    return {"output": output, "tests": tests, "extra_data": about}


def _tests(verdict: dict[str, Any], name: str, points: float) -> Iterator[Results]:
    if verdict["status"] != "graded":
        why = f"no verdict, for staff to look at: {verdict['reason']}"
        yield _test(name, 0.0, points, why)
        return
    worth = points / verdict["max_points"]
    for finding in verdict["report"]["findings"]:
        case = f"{finding['case']}: " if finding["case"] else ""
        earned, most = finding["points"] * worth, finding["max_points"] * worth
        yield _test(finding["title"], earned, most, f"{case}{finding['message']}")


def _test(name: str, earned: float, most: float, text: str) -> Results:
    return {
        "name": words.one_line(name),
        "score": round(earned, 6),
        "max_score": round(most, 6),
        "status": "passed" if earned == most else "failed",
        "output": words.printable(text),
        "output_format": "text",
    }


def _exercises(release: NotebookNode) -> dict[str, float]:
    """Return the points of each exercise."""
    cells = test_cells(release)
    return {name: float(marks(cell)["points"]) for name, cell in cells.items()}


def _by_hand(release: NotebookNode) -> Iterator[str]:
    for mark in map(marks, filter(is_answer, release.cells)):
        yield (
            f"{mark['grade_id']}: {mark['points']} more points, which are not in "
            "this score; a person reads the answer"
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

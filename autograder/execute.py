"""What stands in place of a kernel in nbgrader's autograde (`nbgrader_config`).

`SubmittedNotebook` reads a submission, as bytes that may be hostile, into a notebook
whose test cells have the receipt's verdict as their outputs. `SaveVerdict` keeps a
submission without a verdict from looking like one with zero points.
"""

from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import SaveAutoGrades
from traitlets import Bool

from autograder import receipts, words, workers
from autograder.jobs import Job, Receipt
from autograder.rebuild import OURS, exercise, marks, test_cells


class SubmittedNotebook(NotebookExporter):
    """A notebook as nbgrader reads it, except that a submitted file is rebuilt."""

    check = Bool(
        True, help="Check here what has no receipt, or one that is to be tried again."
    ).tag(config=True)

    def from_filename(self, filename: str, resources: Any = None, **more: Any) -> Any:
        """Read a file for nbgrader: what was submitted, with its verdict."""
        converter: Any = self.parent
        about, course = resources["nbgrader"], converter.coursedir
        student, assignment = about["student"], about["assignment"]
        submitted = course.format_path(course.submitted_directory, student, assignment)
        if Path(filename).parent != Path(submitted):
            return super().from_filename(filename, resources, **more)
        release = receipts.read_release(assignment)
        notebook = receipts.cleaned(Path(filename), release)
        job = receipts.job(notebook, release, assignment, student)
        receipt = receipts.find(job, final=self.check) or _checked(job)
        write_verdict(receipt, notebook, job, receipts.points(release))
        return self.from_notebook_node(notebook, resources, **more)


def write_verdict(
    receipt: Receipt, notebook: NotebookNode, job: Job, points: dict[str, float]
) -> None:
    """Write the verdict on each exercise as the outputs of its test cell.

    points: of each graded cell of the released notebook, by its id.
    """
    for name, cell in test_cells(notebook).items():
        cell.outputs = outputs(receipt, name, float(marks(cell)["points"]))
    notebook.metadata[OURS]["verdict"] = receipts.verdict_id(receipt)
    notebook.metadata[OURS]["points"] = points
    notebook.metadata[OURS]["ungraded"] = [
        marks(cell)["grade_id"]
        for cell in notebook.cells
        if job["unreadable"] or not _graded(receipt, exercise(cell))
        if marks(cell).get("grade")
    ]


class SaveVerdict(SaveAutoGrades):
    """Write the scores; what is not gradable has none, and is left to a person."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        self.ungraded = set(nb.metadata[OURS]["ungraded"])
        return super().preprocess(nb, resources)

    def _add_score(self, cell: NotebookNode, resources: Any) -> None:
        super()._add_score(cell, resources)
        name = marks(cell)["grade_id"]
        if name in self.ungraded:
            where = (self.notebook_id, self.assignment_id, self.student_id)
            grade = self.gradebook.find_grade(name, *where)
            grade.auto_score, grade.needs_manual_grade = None, True
            self.gradebook.db.commit()


def outputs(receipt: Receipt, name: str, points: float) -> list[NotebookNode]:
    """Return the verdict as nbgrader's rule reads it: one finite number, and no stderr.

    It takes the first `execute_result` for the points; a NaN, a negative number or none
    would be full marks, and more than the cell's points would lose the submission.
    """
    verdict = receipt["exercises"][name]
    earned = round(min(max(verdict.get("score", 0.0), 0.0), 1.0) * points, 6)
    card = {
        "text/html": words.card(receipt, name),
        "text/plain": words.text(receipt, name),
    }
    number = {"text/plain": repr(earned)}
    return [
        new_output("display_data", data=card),
        new_output("execute_result", data=number, execution_count=1),
    ]


def _checked(job: Job) -> Receipt:
    made = workers.graded_here(job)
    receipts.save(made)
    return made


def _graded(receipt: Receipt, name: str | None) -> bool:
    """Return whether there is a verdict; cells that a person grades need none."""
    return name is None or receipt["exercises"][name]["status"] == "graded"

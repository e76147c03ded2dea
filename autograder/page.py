"""The feedback page: nbgrader's own, in which what has no verdict has no score.

nbgrader writes every score as a number. Here one that is missing is a text, and the two
filters that its template writes numbers with leave it as it is.
"""

from collections.abc import Iterable
from typing import Any

from jinja2 import filters
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.preprocessors import GetGrades

from autograder import regrading, words
from autograder.rebuild import OURS, marks

NO_SCORE = "not gradable"
CSS = ".rendered_html :is(td, th) { padding: 0.3em 0.8em; vertical-align: top; }"
"""nbgrader's page takes the space out of tables."""
WAITS = "not yet graded"


class Scores(GetGrades):
    """The marks from the gradebook, behind nbconvert's own style sheets.

    One that nobody has given yet is a text: where there is no verdict, and where an
    answer waits for a person. The sum says so too.
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Put the scores of a submission where the template looks for them."""
        self.ungraded = set(nb.metadata.get(OURS, {}).get("ungraded", []))
        nb, resources = super().preprocess(nb, resources)
        resources["inlining"]["css"].append(CSS)
        scores = [marks(cell).get("score", 0) for cell in nb.cells]
        about = resources["nbgrader"]
        if NO_SCORE in scores:
            about["score"] = NO_SCORE
        elif WAITS in scores:
            about["score"] = f"{about['score']:g} so far"
        if said := regrading.text(self.assignment_id, self.student_id):
            nb.cells.insert(0, _said(said))
        return nb, resources

    def _get_score(self, cell: NotebookNode, resources: Any) -> None:
        super()._get_score(cell, resources)
        name = marks(cell)["grade_id"]
        where = (self.notebook_id, self.assignment_id, self.student_id)
        grade = self.gradebook.find_grade(name, *where)
        if not grade.needs_manual_grade:
            return
        if name in self.ungraded:
            cell.metadata.nbgrader["score"] = NO_SCORE
            shown = cell.get("outputs", [])  # without the number for nbgrader
            shown[:] = [o for o in shown if o.output_type != "execute_result"]
        elif grade.manual_score is None:
            cell.metadata.nbgrader["score"] = WAITS


def _said(text: str) -> NotebookNode:
    """A cell that shows a text as it is."""
    data = {"text/html": words.as_html(text), "text/plain": words.printable(text)}
    without_input = {"transient": {"remove_source": True}}
    shown = new_output("display_data", data=data)
    return new_code_cell(outputs=[shown], metadata=without_input)


class Page(HTMLExporter):
    """nbgrader's page, with words for a score that is none."""

    def default_filters(self) -> Iterable[tuple[str, Any]]:
        """What the template's `score | float | round(2)` does."""
        yield from super().default_filters()
        yield "float", _float
        yield "round", _round


def _float(value: Any, default: float = 0.0) -> Any:
    return value if isinstance(value, str) else filters.do_float(value, default)


def _round(value: Any, *more: Any) -> Any:
    return value if isinstance(value, str) else filters.do_round(value, *more)

"""The feedback page: nbgrader's own, in which what has no verdict has no score.

nbgrader writes every score as a number. Here one that is missing is None, and the two
filters that its template writes numbers with say so in words.
"""

from collections.abc import Iterable
from typing import Any

from jinja2 import filters
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades

from autograder.rebuild import OURS, marks

NO_SCORE = "not gradable"
CSS = ".rendered_html :is(td, th) { padding: 0.3em 0.8em; vertical-align: top; }"
"""nbgrader's page takes the space out of tables."""


class Scores(GetGrades):
    """The marks from the gradebook, behind nbconvert's own style sheets.

    They are None where there is neither a verdict nor a mark by hand, as is their sum.
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Put the scores of a submission where the template looks for them."""
        self.ungraded = set(nb.metadata.get(OURS, {}).get("ungraded", []))
        nb, resources = super().preprocess(nb, resources)
        resources["inlining"]["css"].append(CSS)
        if any(marks(cell).get("score", 0) is None for cell in nb.cells):
            resources["nbgrader"]["score"] = None
        return nb, resources

    def _get_score(self, cell: NotebookNode, resources: Any) -> None:
        super()._get_score(cell, resources)
        name = marks(cell)["grade_id"]
        where = (self.notebook_id, self.assignment_id, self.student_id)
        if name in self.ungraded:
            grade = self.gradebook.find_grade(name, *where)
            if grade.needs_manual_grade:
                cell.metadata.nbgrader["score"] = None
                shown = cell.get("outputs", [])  # without the number for nbgrader
                shown[:] = [o for o in shown if o.output_type != "execute_result"]


class Page(HTMLExporter):
    """nbgrader's page, with words for a score that is None."""

    def default_filters(self) -> Iterable[tuple[str, Any]]:
        """What the template's `score | float | round(2)` does."""
        yield from super().default_filters()
        yield "float", _float
        yield "round", _round


def _float(value: Any, default: float = 0.0) -> Any:
    return NO_SCORE if value is None else filters.do_float(value, default)


def _round(value: Any, *more: Any) -> Any:
    return value if value == NO_SCORE else filters.do_round(value, *more)

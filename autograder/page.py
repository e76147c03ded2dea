"""nbgrader's pages of a submission: the student's feedback, and formgrader's.

In both a student's text is sanitized, and formulas stay as they were typed: MathJax
would come from elsewhere, and act. nbgrader writes every score as a number. Here one
that is missing is a text, and the two filters that its template writes numbers with
leave it as it is.
"""

from collections.abc import Iterable
from typing import Any

from jinja2 import DictLoader, Environment, filters, pass_context
from jinja2.ext import Extension
from jinja2.runtime import Context
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.preprocessors import GetGrades

from autograder import regrading, words
from autograder.rebuild import OURS, marks
from autograder.sanitizing import escaped, markdown

NO_SCORE = "not gradable"
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'"
)
"""Nothing on a student's page runs, or comes from elsewhere; it is read from a disk."""
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
        self.waits = False
        nb, resources = super().preprocess(nb, resources)
        resources["inlining"]["css"].append(CSS)
        scores = [marks(cell).get("score", 0) for cell in nb.cells]
        about = resources["nbgrader"]
        if NO_SCORE in scores:
            about["score"] = NO_SCORE
        elif self.waits:
            about["score"] = f"{about['score']:g} so far"
        if requests := regrading.text(self.assignment_id, self.student_id):
            nb.cells.insert(0, _text_cell(requests))
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
            return
        self.waits = True
        if grade.manual_score is None:
            cell.metadata.nbgrader["score"] = WAITS


def _text_cell(text: str) -> NotebookNode:
    """Return a cell that shows a text as it is."""
    data = {"text/html": words.as_html(text), "text/plain": words.printable(text)}
    without_input = {"transient": {"remove_source": True}}
    shown = new_output("display_data", data=data)
    return new_code_cell(outputs=[shown], metadata=without_input)


class Sanitized(HTMLExporter):
    """A page of nbgrader's in which no Markdown acts, and MathJax is replaced."""

    instead_of_mathjax = ""

    def __init__(self, **more: Any) -> None:
        macro = (
            f"{{% macro mathjax(url='') %}}{self.instead_of_mathjax}{{% endmacro %}}"
        )
        super().__init__(extra_loaders=[DictLoader({"mathjax.html.j2": macro})], **more)

    @pass_context
    def markdown2html(self, context: Context, source: str) -> str:
        """Return what nbconvert's filter of this name does, sanitized."""
        cell, resources = context.get("cell", {}), context.get("resources", {})
        host = resources.get("host", "")
        return markdown(source, cell.get("attachments", {}), host)


class Nonces(Extension):
    """Give the scripts that a template itself has the nonce of the policy."""

    def preprocess(
        self, source: str, name: str | None, filename: str | None = None
    ) -> str:
        """Change a template before anything is put into it."""
        return source.replace("<script", '<script nonce="{{ nonce() }}"')


class Submission(Sanitized):
    """Formgrader's page of a submission, under a policy with this nonce."""

    instead_of_mathjax = """<script>
        MathJax = {Hub: {Startup: {signal: {Interest: ready => ready("End")}}}};
    </script>"""  # formgrader's keys wait for it

    def __init__(self, nonce: str, host: str, **more: Any) -> None:
        super().__init__(**more)
        self.nonce, self.host = nonce, host

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.add_extension(Nonces)
        environment.globals["nonce"] = lambda: self.nonce
        return environment

    def from_filename(self, filename: str, resources: Any = None, **more: Any) -> Any:
        """Render a notebook, under names that are text."""
        resources = escaped(resources) | {"host": self.host}
        return super().from_filename(filename, resources, **more)


class Page(Sanitized):
    """The feedback page, with words for a score that is none."""

    instead_of_mathjax = f"""<meta http-equiv="Content-Security-Policy"
        content="{POLICY}">"""

    def default_filters(self) -> Iterable[tuple[str, Any]]:
        """Yield what the template's `score | float | round(2)` does."""
        yield from super().default_filters()
        yield "float", _float
        yield "round", _round


def _float(value: Any, default: float = 0.0) -> Any:
    return value if isinstance(value, str) else filters.do_float(value, default)


def _round(value: Any, *more: Any) -> Any:
    return value if isinstance(value, str) else filters.do_round(value, *more)

"""Questions on a page: a place to type a guess, and the answer under a click.

In a notebook a reader sets `my_guess` and runs the next cells. A page is executed
already, so here what follows a question, to the next question or takeaway or the end
of its section, is folded (`with_reveals`). book.js puts what the reader typed into the
table of the answer, and opens all answers at once for who wants to read on.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

QUESTION = re.compile(r"^my_guess = None(?:  # (?P<what>.*))?$")
TAKEAWAY = "> **Takeaway.**"
HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)

FORM = (
    '<form class="guess"><label>Your guess: <input name="guess" autocomplete="off" '
    'placeholder="{what}"></label> <button>Show the answer</button></form>'
)
OPEN, CLOSE = '<details class="answer"><summary>Answer</summary>', "</details>"


def with_reveals(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return the cells of a page with every answered question folded.

    A question whose answer is not before the next heading, as that of a whole chapter,
    is a place to type alone.
    """
    shown: list[NotebookNode] = []
    folded = False
    for number, cell in enumerate(cells):
        asks = cell.cell_type == "code" and QUESTION.match(cell.source.strip())
        if folded and (asks or _begins_a_section(cell)):
            explained, question = _last_paragraph(shown.pop()) if asks else ([], [])
            shown += [*explained, _html(CLOSE), *question]
            folded = False
        if folded and TAKEAWAY in cell.source:
            explained, _, takeaway = cell.source.rpartition(TAKEAWAY)
            shown += [_html(explained.rstrip())] if explained.strip() else []
            shown += [_html(CLOSE), _html(TAKEAWAY + takeaway)]
            folded = False
            continue
        if not asks:
            shown.append(cell)
            continue
        what = html.escape(asks["what"] or "", quote=True)
        shown.append(_html(FORM.format(what=what)))
        if folded := _is_answered(cells[number + 1 :]):
            shown.append(_html(OPEN))
    return [*shown, _html(CLOSE)] if folded else shown


def _last_paragraph(
    cell: NotebookNode,
) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """Part the text before a question from its last paragraph, which asks it."""
    if cell.cell_type != "markdown":
        return [cell], []
    explained, _, question = cell.source.rpartition("\n\n")
    return [_html(explained)] if explained else [], [_html(question)]


def _begins_a_section(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and bool(HEADING.match(cell.source))


def _is_answered(following: Sequence[NotebookNode]) -> bool:
    """Return whether a guess is compared before the next question or section."""
    for cell in following:
        if _begins_a_section(cell) or QUESTION.match(cell.source.strip()):
            return False
        if cell.cell_type == "code" and "my_guess" in cell.source:
            return True
    return False


def _html(source: str) -> NotebookNode:
    return new_markdown_cell(source)

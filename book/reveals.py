"""Questions on a page: a place to type a guess, and the answer under a click.

In a notebook a reader sets `my_guess` and runs the next cells. A page is executed
already, so here the cells to the one that compares the guess are folded, with the
paragraph that explains it and the figures and tables right below it (`with_reveals`).
What the section teaches after that stays open, and its takeaway. The guess at a
chapter's opening is `my_opening_guess`, and what compares it, sections later, is folded
under the same words. book.js puts what the reader typed into the table of the answer,
and opens all answers at once for who wants to read on.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

QUESTION = re.compile(r"^my_(?P<opening>opening_)?guess = None(?:  # (?P<what>.*))?$")
OPENING = "my_guess=my_opening_guess"
HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)

Cells = list[NotebookNode]

FORM = (
    '<form class="guess"><label>Your guess: <input name="{name}" autocomplete="off" '
    'placeholder="{what}"></label>{button}</form>'
)
BUTTON = " <button>Show the answer</button>"
OPEN, CLOSE = '<details class="answer"><summary>Answer</summary>', "</details>"


def with_reveals(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return the cells of a page with every answered question folded.

    A question whose answer is not before the next heading, as that of a whole chapter,
    is a place to type alone, without a button.
    """
    shown: Cells = []
    what_of_opening = ""
    left = [part for cell in cells for part in _at_headings(cell)]
    while left:
        cell, *left = left
        asks = _question(cell)
        if asks and asks["opening"]:
            what_of_opening = asks["what"]
            shown.append(_form("opening", what_of_opening))
        elif asks:
            answer, left = _answer(left)
            button = BUTTON if answer else ""
            shown += [_form("guess", asks["what"], button), *_folded(answer)]
        elif _asks_again(cell):
            answer, left = _explained([cell], left)
            shown += [_form("opening", what_of_opening, BUTTON), *_folded(answer)]
        else:
            shown.append(cell)
    return shown


def _answer(below: Cells) -> tuple[Cells, Cells]:
    """Part the cells below a question: its answer, if it is compared, and the rest."""
    for number, cell in enumerate(below):
        if _begins_a_section(cell) or _asks(cell):
            break
        if cell.cell_type == "code" and "my_guess" in cell.source:
            return _explained(below[: number + 1], below[number + 1 :])
    return [], below


def _explained(answer: Cells, below: Cells) -> tuple[Cells, Cells]:
    """Add to an answer what explains it and stands right below, and return the rest."""
    answer, below = [*answer], [*below]
    while below and below[0].cell_type == "code" and not _asks(below[0]):
        answer.append(below.pop(0))
    if not below or _begins_a_section(below[0]) or _asks(below[0]):
        return answer, below
    text = below.pop(0)
    explanation, others = _first_paragraph(text, bool(below) and _asks(below[0]))
    answer += explanation
    while explanation and not others and below and _shows(below[0]):
        answer.append(below.pop(0))
    return answer, others + below


def _folded(answer: Cells) -> Cells:
    return [_html(OPEN), *answer, _html(CLOSE)] if answer else []


def _form(name: str, what: str | None, button: str = "") -> NotebookNode:
    """Return the place to type a guess of this name: what is asked for is in it."""
    what = html.escape(what or "", quote=True)
    return _html(FORM.format(name=name, what=what, button=button))


def _first_paragraph(cell: NotebookNode, asks_next: bool) -> tuple[Cells, Cells]:
    """Part the text below a comparison: its first paragraph explains the answer.

    A paragraph that announces a list or a formula by a colon has it with it, and one
    that asks the next question explains nothing.
    """
    first, *others = cell.source.split("\n\n")
    if asks_next and not others:
        return [], [cell]
    while len(others) > asks_next and first.endswith(":"):
        first += "\n\n" + others.pop(0)
    return [_html(first)], [_html("\n\n".join(others))] if others else []


def _question(cell: NotebookNode) -> re.Match[str] | None:
    """Return the match of a cell that asks for a guess."""
    return QUESTION.match(cell.source.strip()) if cell.cell_type == "code" else None


def _asks_again(cell: NotebookNode) -> bool:
    """Return whether a cell compares the guess at the chapter's opening."""
    return cell.cell_type == "code" and OPENING in cell.source


def _at_headings(cell: NotebookNode) -> Cells:
    """Part a text where a heading stands in it, so that a fold can end there."""
    if cell.cell_type != "markdown" or not HEADING.search(cell.source, 1):
        return [cell]
    first = next(HEADING.finditer(cell.source, 1)).start()
    before, rest = cell.source[:first].rstrip(), cell.source[first:]
    return [_html(before), *_at_headings(_html(rest))]


def _begins_a_section(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and bool(HEADING.match(cell.source))


def _asks(cell: NotebookNode) -> bool:
    """Return whether a cell asks for a guess, or compares the one at the opening."""
    return bool(_question(cell)) or _asks_again(cell)


def _shows(cell: NotebookNode) -> bool:
    """Return whether a cell has put out something, and asks nothing."""
    return cell.cell_type == "code" and bool(cell.outputs) and not _asks(cell)


def _html(source: str) -> NotebookNode:
    return new_markdown_cell(source)

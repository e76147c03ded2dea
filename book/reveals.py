"""Questions on a page: a place to type a guess, and the answer under a click.

In a notebook a reader sets `my_guess` and runs the next cells. A page is executed
already, so here the cells to the one that compares the guess are folded, with the
paragraph that explains it (`with_reveals`). What the section teaches after that stays
open, and its takeaway. The guess at a chapter's opening is `my_opening_guess`, and what
compares it, sections later, is folded under the same words. book.js puts what the
reader typed into the table of the answer, and opens all answers at once for who wants
to read on.
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
    shown: list[NotebookNode] = []
    folded, compared, what_of_opening = False, False, ""
    cells = [part for cell in cells for part in _at_headings(cell)]
    for number, cell in enumerate(cells):
        is_code = cell.cell_type == "code"
        asks, asks_again = _question(cell), _asks_again(cell)
        if folded and (asks or asks_again or _begins_a_section(cell)):
            shown.append(_html(CLOSE))
            folded = False
        if asks:
            folded = not asks["opening"] and _is_answered(cells[number + 1 :])
            if asks["opening"]:
                what_of_opening = asks["what"]
            name, button = "opening" if asks["opening"] else "guess", BUTTON * folded
            shown.append(_form(name, asks["what"], button))
            shown += [_html(OPEN)] if folded else []
            compared = False
            continue
        if asks_again:
            shown += [_form("opening", what_of_opening, BUTTON), _html(OPEN)]
            folded = True
        compared = compared or asks_again or (is_code and "my_guess" in cell.source)
        if folded and compared and not is_code:
            following = cells[number + 1 : number + 2]
            asks_next = any(_question(one) or _asks_again(one) for one in following)
            explained, others = _first_paragraph(cell, asks_next)
            shown += [*explained, _html(CLOSE), *others]
            folded = False
        else:
            shown.append(cell)
    return [*shown, _html(CLOSE)] if folded else shown


def _form(name: str, what: str | None, button: str) -> NotebookNode:
    """Return the place to type a guess of this name: what is asked for is in it."""
    what = html.escape(what or "", quote=True)
    return _html(FORM.format(name=name, what=what, button=button))


def _first_paragraph(
    cell: NotebookNode, asks_next: bool
) -> tuple[list[NotebookNode], list[NotebookNode]]:
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


def _at_headings(cell: NotebookNode) -> list[NotebookNode]:
    """Part a text where a heading stands in it, so that a fold can end there."""
    if cell.cell_type != "markdown" or not HEADING.search(cell.source, 1):
        return [cell]
    first = next(HEADING.finditer(cell.source, 1)).start()
    before, rest = cell.source[:first].rstrip(), cell.source[first:]
    return [_html(before), *_at_headings(_html(rest))]


def _begins_a_section(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and bool(HEADING.match(cell.source))


def _is_answered(following: Sequence[NotebookNode]) -> bool:
    """Return whether a guess is compared before the next question or section."""
    for cell in following:
        if _begins_a_section(cell) or _question(cell):
            return False
        if cell.cell_type == "code" and "my_guess" in cell.source:
            return True
    return False


def _html(source: str) -> NotebookNode:
    return new_markdown_cell(source)

"""Worked answers to a chapter's exercises, folded on its page.

They are notebooks of the chapter's name in `solutions/chapters/`, with a heading
`## N · ...` for the answer to exercise N. Here you can find them (`answers_of`) and put
their executed cells below the exercises of the page (`with_answers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from book import badges
from book.execution import ROOT

ANSWERS = ROOT / "solutions" / "chapters"
HEADING = re.compile(r"^## (?P<title>(?P<number>\d+) · .*)\n*")


def answers_of(chapter: Path) -> Path | None:
    """Return the notebook with the answers to a chapter's exercises, if any."""
    path = ANSWERS / chapter.name
    return path if path.exists() else None


def with_answers(
    cells: Sequence[NotebookNode], answers: Sequence[NotebookNode]
) -> list[NotebookNode]:
    """Return the cells of a page with the answers below its exercises, folded."""
    shown: list[NotebookNode] = []
    for cell in cells:
        shown.append(cell)
        if cell.cell_type == "markdown" and cell.source.startswith("## Exercises"):
            shown += _folded(answers)
    return shown


def _folded(answers: Sequence[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield each answer between a summary and its end; what the answers share first."""
    is_open = False
    for cell in answers[1:]:  # after the title
        if cell.get("id") == badges.INSTALL:
            continue
        if heading := cell.cell_type == "markdown" and HEADING.match(cell.source):
            if is_open:
                yield new_markdown_cell("</details>")
            summary = f"<summary>Answer to exercise {heading['title']}</summary>"
            yield new_markdown_cell(f'<details class="worked">{summary}')
            is_open = True
            yield new_markdown_cell(_as_of_chapter(HEADING.sub("", cell.source)))
        elif is_open or cell.cell_type == "code":
            if not is_open:
                summary = "<summary>What the answers import</summary>"
                yield new_markdown_cell(f'<details class="worked">{summary}')
                is_open = True
            if cell.cell_type == "markdown":
                yield new_markdown_cell(_as_of_chapter(cell.source))
            else:  # the chapter may have a cell of this name
                yield NotebookNode({**cell, "id": f"answer-{cell.id}"[:64]})
    if is_open:
        yield new_markdown_cell("</details>")


def _as_of_chapter(text: str) -> str:
    """Return a text of `solutions/chapters/` with its links as from `chapters/`."""
    return text.replace("](../../chapters/", "](").replace("](../../", "](../")

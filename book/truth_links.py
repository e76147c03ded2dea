"""The way from a prediction to the page that says how wrong such predictions are.

In each section of a page, below the first output of a cell that predicts a time, stands
a link to "How wrong is this book?" (`with_truth_links`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

PREDICTS = re.compile(r"\b(predict|forecast|replay|step_time)\(")
LINK = (
    '<p class="prediction"><a href="../docs/truth.html">How wrong is this book?</a></p>'
)


def with_truth_links(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return the cells of a page, with a link below each section's first prediction."""
    shown: list[NotebookNode] = []
    is_linked = False
    for cell in cells:
        shown.append(cell)
        if cell.cell_type == "markdown":
            is_linked = is_linked and not cell.source.startswith("## ")
        elif not is_linked and cell.get("outputs") and PREDICTS.search(cell.source):
            shown.append(new_markdown_cell(LINK))
            is_linked = True
    return shown

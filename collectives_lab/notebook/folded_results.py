"""Values of several ranks in a notebook: equal ones folded, the ranks beside them.

A bundle holds one output by MIME type, always with plain text for a terminal. Here you
can `fold` the bundles of all ranks, `show` them, and make a `table`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from IPython.display import display

from collectives_lab.basics.rank_sets import fold_ranks, name_ranks
from collectives_lab.basics.tables import aligned
from collectives_lab.notebook.style import DIM, GRID, PRE

Bundle = dict[str, Any]
Folded = list[tuple[list[int], Bundle]]


@dataclass(repr=False)
class RichOutput:
    """The last expression of a cell as its rank displayed it."""

    bundle: Bundle

    def __repr__(self) -> str:
        return self.bundle["text/plain"]

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        return self.bundle


def fold(bundles: Sequence[Bundle | None]) -> Folded:
    """Return each different bundle once, with the ranks that have it."""
    shown = {rank: bundle for rank, bundle in enumerate(bundles) if bundle is not None}
    groups = fold_ranks(shown, lambda a, b: _visible(shown[a]) == _visible(shown[b]))
    return [(ranks, shown[ranks[0]]) for ranks in groups]


def _visible(bundle: Bundle) -> Bundle:
    """Return the formats that a notebook shows: plain text if there is no other."""
    others = {mime: data for mime, data in bundle.items() if mime != "text/plain"}
    return others or bundle


def show(folded: Folded) -> None:
    """Show texts in one list with their ranks, and pictures below their ranks."""
    if all(set(bundle) == {"text/plain"} for _, bundle in folded):
        if folded:
            display(listing(folded), raw=True)
        return
    for ranks, bundle in folded:
        display(label(ranks), raw=True)
        display(bundle, raw=True)


def show_output(ranks: list[int], bundle: Bundle) -> None:
    """Show an output that some ranks have in common, as it arrives."""
    show([(ranks, bundle)])


def label(ranks: Sequence[int]) -> Bundle:
    """Return the line above a picture, which names its ranks."""
    name = name_ranks(ranks)
    page = f'<div style="{DIM}; font-size: 90%; padding-left: 8px">{name}</div>'
    return {"text/plain": f"{name}:", "text/html": page}


def listing(folded: Folded) -> Bundle:
    """Return a list of texts with their ranks beside them."""
    texts = [(name_ranks(ranks), bundle["text/plain"]) for ranks, bundle in folded]
    width = max(len(name) for name, _ in texts) + 2
    plain = (
        f"{name:{width}}" + text.replace("\n", "\n" + " " * width)
        for name, text in texts
    )
    rows = (
        f'<div style="{DIM}">{name}</div><pre style="{PRE}">{html.escape(text)}</pre>'
        for name, text in texts
    )
    page = f'<div style="{GRID}">{"".join(rows)}</div>'
    return {"text/plain": "\n".join(plain), "text/html": page}


def table(rows: Sequence[Sequence[str]]) -> Bundle:
    """Return a table whose first row is its head."""
    head, *body = (
        "".join(
            f'<td style="text-align: left">{html.escape(text)}</td>' for text in row
        )
        for row in rows
    )
    below = "".join(f"<tr>{row}</tr>" for row in body)
    head = f'<thead style="{DIM}"><tr>{head}</tr></thead>'
    page = f"<table>{head}<tbody>{below}</tbody></table>"
    return {"text/plain": "\n".join(aligned(rows)), "text/html": page}

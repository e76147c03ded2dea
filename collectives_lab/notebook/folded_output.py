"""How what several ranks show looks in a notebook: folded, with the ranks beside it.

A bundle holds one thing by MIME type, always with plain text for a terminal. Here you
can `fold` the bundles of all ranks, and make a `listing`, a `label` or a `table`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collectives_lab.deadlock import name_ranks
from collectives_lab.notebook.style import DIM, GRID, PRE

Bundle = dict[str, Any]
Folded = list[tuple[list[int], Bundle]]


@dataclass(repr=False)
class Look:
    """How the last expression of a cell looked on its rank; it looks the same here."""

    bundle: Bundle

    def __repr__(self) -> str:
        return self.bundle["text/plain"]

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        return self.bundle


def fold(bundles: Sequence[Bundle | None]) -> Folded:
    """Each different bundle once, with the ranks that have it."""
    folded: Folded = []
    for rank, bundle in enumerate(bundles):
        if bundle is None:
            continue
        seen = _seen(bundle)
        like = next((ranks for ranks, other in folded if _seen(other) == seen), None)
        if like is None:
            folded.append(([rank], bundle))
        else:
            like.append(rank)
    return folded


def _seen(bundle: Bundle) -> Bundle:
    """What a notebook shows of a bundle: its repr only if there is nothing else."""
    pictures = {mime: look for mime, look in bundle.items() if mime != "text/plain"}
    return pictures or bundle


def label(ranks: Sequence[int]) -> Bundle:
    """The line above a picture."""
    name = name_ranks(ranks)
    page = f'<div style="{DIM}; font-size: 90%; padding-left: 8px">{name}</div>'
    return {"text/plain": f"{name}:", "text/html": page}


def listing(folded: Folded) -> Bundle:
    """Texts with their ranks beside them."""
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
    """A table whose first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    head, *body = (
        "".join(f'<td style="text-align: left">{html.escape(one)}</td>' for one in row)
        for row in rows
    )
    below = "".join(f"<tr>{row}</tr>" for row in body)
    head = f'<thead style="{DIM}"><tr>{head}</tr></thead>'
    page = f"<table>{head}<tbody>{below}</tbody></table>"
    return {"text/plain": "\n".join(lines), "text/html": page}

"""Small tables for chapters: figures side by side, in a notebook and in a terminal.

Here you can show rows under a head (`table`) and the answers to one question
(`compare`): guessed, predicted, measured. `aligned` puts texts into columns.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collectives_lab.basics.guesses import how_far

ANSWERS = ("measured", "recorded", "counted", "replayed", "simulated", "predicted")
"""What a guess is held against: the first of these that there is, else the answer that
stands first."""


GUESS = "my_guess"

_SHORT = 10
"""Characters of a cell that is never broken, so that a number keeps its unit."""


@dataclass(frozen=True, repr=False)
class Table:
    """A table of texts: rows under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        return "\n".join(aligned([self.head, *self.rows]))

    def _repr_html_(self) -> str:
        def cell(text: str) -> str:
            whole = " nowrap" if len(text) <= _SHORT else ""
            return f"<td{whole}>{html.escape(text)}</td>"

        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.head)
        rows = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in self.rows)
        body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
        # The attribute is for pages without a style for tables, as Colab's are.
        return f'<table cellpadding="5">{body}</table>'


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with its texts in columns two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def table(head: Sequence[str], *rows: Sequence[Any]) -> Table:
    """Show rows under a head.

    A float has four digits, None is a dash, and a list is its items with commas; a list
    in a list has brackets.
    Raises ValueError for a row that is shorter or longer than the head.
    """
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row of {len(row)} cells under a head of {len(head)}")
    return Table(tuple(head), tuple(tuple(map(_text, row)) for row in rows))


def compare(**answers: Any) -> Table:
    """Show the answers to one question side by side: `compare(my_guess=..., ...)`.

    The guess, a number, a word or a list, says how far it is off (see ANSWERS); any
    other guess is only shown.
    """
    texts = {name: _text(value) for name, value in answers.items() if name != GUESS}
    if GUESS in answers:
        guess, first = answers[GUESS], next(iter(texts), "")
        truth = next((name for name in ANSWERS if name in texts), first)
        texts = {GUESS: _judged(guess, answers.get(truth))} | texts
    return table([name.replace("_", " ") for name in texts], [*texts.values()])


def _judged(guess: Any, truth: Any) -> str:
    """Return a guess with how far it is off; whatever it is, no cell breaks of it."""
    if guess is None:
        return _text(guess)
    try:
        words, text = how_far(guess, truth), _text(guess)
    except Exception:  # a reader may have put anything there
        return f"a {type(guess).__name__}: need a number, a word or a list"
    return f"{text}: {words}" if words else text


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(
            f"[{_text(item)}]" if isinstance(item, list | tuple) else _text(item)
            for item in value
        )
    return str(value)

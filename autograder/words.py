"""A verdict as text, and as HTML in which all that comes from a student is escaped."""

import html
import re

from autograder.jobs import Receipt

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
LONGEST = 20_000


def text(receipt: Receipt, name: str) -> str:
    """Return the verdict on one exercise, for a terminal or a mail."""
    verdict = receipt["exercises"][name]
    lines = [verdict["text"] if verdict["status"] == "graded" else _none(verdict)]
    lines += [f"  note: {note}" for note in receipt["notes"] + verdict["notes"]]
    return printable("\n".join([*lines, _seal(receipt)]))


def card(receipt: Receipt, name: str) -> str:
    """Return the verdict on one exercise as HTML: the check's card, and what was left
    out.
    """
    verdict = receipt["exercises"][name]
    graded = verdict["status"] == "graded"
    shown = verdict["html"] if graded else as_html(_none(verdict))
    notes = receipt["notes"] + verdict["notes"]
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"{shown}<ul>{items}</ul><p><small>{html.escape(_seal(receipt))}</small></p>"


def printable(string: str) -> str:
    """Return a text that moves no cursor and fills no screen."""
    return UNPRINTABLE.sub("\ufffd", string)[:LONGEST]


def one_line(string: str) -> str:
    """Return a text in a table: nothing in it ends the line."""
    return " ".join(printable(string).split())


def _none(verdict: dict) -> str:
    return (
        f"not gradable: {verdict['reason']}\nThis is no zero: it is left to a person, "
        "or to what you hand in next."
    )


def as_html(string: str) -> str:
    """Return a text as it is, with its lines."""
    # A page of nbgrader cuts what is wider than itself.
    style = "white-space: pre-wrap; overflow-wrap: anywhere"
    return f'<pre style="{style}">{html.escape(printable(string))}</pre>'


def _seal(receipt: Receipt) -> str:
    where = f"checked in {receipt['tier']}; " if "tier" in receipt else ""
    return f"{where}receipt {receipt['key'][:12]}"

"""The letters of the book: which the notation page has, and which a chapter uses.

Here you can read `docs/notation.md` (`letters_of`) and list the letters that stand
alone in the text and the formulas of a chapter (`letters_in`).
"""

from __future__ import annotations

import re

WHOLE, IN_ONE = "## In the whole book", "## In one chapter"
ROW = re.compile(r"^\| (?P<first>[^|]+) \| (?P<second>[^|]+) \|", re.MULTILINE)

NO_TEXT = re.compile(
    r"```.*?```|`[^`]*`|<code>.*?</code>|^#[^\n]*$|<[^>]*>|\]\([^)]*\)",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"\\[A-Za-z]+")
GREEK = {r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\tau": "τ", r"\kappa": "κ"}
ALONE = re.compile(r"(?<![\w'’.&+-])([A-Za-zα-ωΑ-Ω])(?![\w'’.+&]|-[a-z])")
UNIT = re.compile(r"\d[ \u00a0][sB]\b|/s\b")
WORDS = {"a", "A", "I"}


def letters_of(page: str, chapter: int) -> set[str]:
    """Return the letters that a chapter may use: those of the book and its own."""
    _, _, tables = page.partition(WHOLE)
    whole, _, in_one = tables.partition(IN_ONE)
    book = {row["first"] for row in ROW.finditer(whole)}
    own = [r["second"] for r in ROW.finditer(in_one) if r["first"] == str(chapter)]
    return book | {letter for row in own for letter in row.split(", ")}


def letters_in(text: str) -> set[str]:
    """Return the letters that stand alone in Markdown, code and units left out."""
    text = NO_TEXT.sub(" ", UNIT.sub(" ", text))
    for command, letter in GREEK.items():
        text = text.replace(command, f" {letter} ")
    return set(ALONE.findall(COMMAND.sub(" ", text))) - WORDS

"""Links that the site makes of words: chapters, sections, figures and terms.

In a notebook "section 5.6", "chapter 2", "Figure 5.3" and the terms of the glossary are
plain words. On a page each of them is a link (`linked`); of a term the first use in a
chapter, but not in the chapter that introduces it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from book.glossary import Term
from book.sections import Section

GLOSSARY = "../docs/glossary.html"

PROTECTED = re.compile(
    r"(```.*?```|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|<a .*?</a>|<[^>]+>"
    r"|\$\$.*?\$\$|\$[^$\n]+\$|^[#|][^\n]*$)",
    re.DOTALL | re.MULTILINE,
)
"""What stays as it is: code, links, tags, formulas, headings and tables."""

NUMBER = r"\d{1,2}\.\d{1,2}"
WORDS = (
    r"(?P<chapter>\b[Cc]hapter (?P<of>\d+)\b)"
    rf"|(?P<figure>\bFigure (?P<drawn>{NUMBER}))"
    rf"|\b[Ss]ection (?P<named>{NUMBER})(?!\.?\d)"
    rf"|(?<=\()(?P<alone>{NUMBER})(?=[),])"
    rf"|\b(?<!factor )(?:in|of|from|by|see) (?P<own>{NUMBER})"
    r"(?=[.,;:?)]|\s[a-z]{2}|$)"
)
EXERCISES, READING = "## Exercises", "## Reading"


@dataclass(frozen=True)
class Targets:
    """What words can link to: sections by number, terms, and where these come from."""

    sections: Mapping[str, Section]
    terms: Sequence[Term]
    introduced: Mapping[str, Section]


def linked(
    cells: Sequence[NotebookNode], chapter: int, targets: Targets
) -> list[NotebookNode]:
    """Return the cells of a chapter's page with links in their text."""
    figures = {
        number
        for cell in cells
        for output in cell.get("outputs", [])
        for number in FIGURE.findall(str(output.get("data", {}).get("text/html", "")))
    }
    writer = _Writer(chapter, targets, figures)
    return [writer.cell(cell) for cell in cells]


FIGURE = re.compile(rf"<figcaption>Figure ({NUMBER})(?!\.?\d|, continued)")


def with_place(output: str) -> str:
    """Return the HTML of an output with a place for links at each numbered figure."""
    before, *figures = output.split("<figure ")
    placed = (
        f'id="{_figure(number[1])}" {figure}' if number else figure
        for figure in figures
        for number in [FIGURE.search(figure)]
    )
    return "<figure ".join([before, *placed])


def _figure(number: str) -> str:
    return f"figure-{number.replace('.', '-')}"


class _Writer:
    """Makes the links of one chapter, in the order of its cells."""

    def __init__(self, chapter: int, targets: Targets, figures: set[str]) -> None:
        self.chapter, self.targets, self.figures = chapter, targets, figures
        self.is_reading = False
        introduced = targets.introduced
        self.terms = {f"term{n}": term for n, term in enumerate(targets.terms)}
        self.unused = {
            name
            for name, term in self.terms.items()
            if not term.is_plain
            and term.name in introduced
            and introduced[term.name].chapter != chapter
        }
        # Terms that get no link are found too: "ring buffer" has no use of "ring".
        longest = sorted(self.terms, key=lambda name: -len(self.terms[name].name))
        groups = [f"(?P<{name}>{self.terms[name].uses.pattern})" for name in longest]
        self.pattern = re.compile("|".join([WORDS, *groups]))

    def cell(self, cell: NotebookNode) -> NotebookNode:
        if cell.cell_type != "markdown" or cell.source.startswith("<"):
            return cell
        if cell.source.startswith(EXERCISES):
            self.unused = set()  # from here on no text introduces anything
        self.is_reading = cell.source.startswith(READING)
        copy = NotebookNode(cell)
        parts = PROTECTED.split(cell.source)
        parts[::2] = [self._text(part) for part in parts[::2]]
        copy.source = "".join(parts)
        return copy

    def _text(self, text: str) -> str:
        return self.pattern.sub(self._link, text)

    def _link(self, match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        if kind in self.terms:
            if kind not in self.unused:
                return match[0]
            self.unused.remove(kind)
            return _term_link(self.terms[kind], match[0])
        number = match["of"] or match["named"] or match["alone"] or match["own"]
        if match["drawn"] in self.figures:
            return f'<a href="#{_figure(match["drawn"])}">{match[0]}</a>'
        section = self.targets.sections.get(number or "")
        if section is None:
            return match[0]
        is_here = section.chapter == self.chapter
        if match["named"] and self.is_reading and not is_here:
            return match[0]  # a section of the work that is cited
        if (match["own"] and not is_here) or (match["of"] and is_here):
            return match[0]
        head, text = ("", match[0]) if not match["own"] else match[0].split(" ")
        address = section.address.removeprefix("chapters/")
        return f'{head}{" " * bool(head)}<a href="{address}">{text}</a>'


def _term_link(term: Term, text: str) -> str:
    """Return a link to the glossary that shows the meaning under the pointer."""
    meaning = html.escape(term.meaning, quote=True)
    at = f"{GLOSSARY}#{term.anchor}"
    return f'<a class="term" href="{at}" title="{meaning}">{text}</a>'

"""The glossary: its terms, how the text writes them, and which section introduces them.

Here you can read the terms of `docs/glossary.md` (`terms`), find them in a text
(`pattern`), and write the page with a place for every term and a link to the section
that introduces it (`page`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from docutils.nodes import make_id

from book.sections import Section

ENTRY = re.compile(
    r"^- \*\*(?P<name>[^*]+)\*\*(?: \((?P<forms>[^)]*)\))?: (?P<meaning>.*?)"
    r"(?: \((?P<section>\d+\.\d+)\))?$",
    re.MULTILINE,
)
"""`- **term** (another form, one more): What it means. (5.2)`; the section may lack."""

PLAIN = "a plain word"
"""Stands among the forms of a term that mostly has its everyday meaning: no links."""


@dataclass(frozen=True)
class Term:
    """A term, other forms of it, what it means, and the section, where it is given."""

    name: str
    forms: tuple[str, ...]
    meaning: str
    section: str = ""
    is_plain: bool = False

    @property
    def anchor(self) -> str:
        """Return the name of its place on the page."""
        return f"term-{make_id(self.name) or 'x'}"

    @cached_property
    def uses(self) -> re.Pattern[str]:
        """Return what finds its uses in a text."""
        return re.compile(_any_of([*self.name.split(", "), *self.forms]))

    @cached_property
    def introduction(self) -> re.Pattern[str]:
        """Return what finds its use in italics or bold, as where it is explained."""
        return re.compile(rf"\*{self.uses.pattern}\*")


def terms(text: str) -> list[Term]:
    """Return the terms of a glossary in their order."""
    return [_term(entry) for entry in ENTRY.finditer(text)]


def _term(entry: re.Match[str]) -> Term:
    forms = [form for form in (entry["forms"] or "").split(", ") if form]
    is_plain = PLAIN in forms
    meaning, section = entry["meaning"], entry["section"] or ""
    others = tuple(form for form in forms if form != PLAIN)
    return Term(entry["name"], others, meaning, section, is_plain)


def _any_of(words: Sequence[str]) -> str:
    """Return a pattern for words, their plurals, and hyphens in place of spaces."""
    longest_first = sorted(words, key=len, reverse=True)
    return rf"(?<![\w-])(?:{'|'.join(map(_word, longest_first))})(?:s|es)?(?![\w-])"


def _word(word: str) -> str:
    """Return a pattern for a word, which may begin with a capital if it has none."""
    pattern = r"[-\s_]".join(map(re.escape, re.split(r"[-\s]", word)))
    if word.islower() and word[0].isalpha():
        return f"[{word[0].upper()}{word[0]}]{pattern[1:]}"
    return pattern


def introductions(
    glossary: Sequence[Term], sections: Sequence[Section]
) -> dict[str, Section]:
    """Return by term the section that introduces it; a term of no section is left out.

    It is the one that the entry gives, else the first that has the term in italics or
    bold, else the first that has it at all, the openings of chapters last.
    """
    by_number = {section.number: section for section in sections}
    numbered = [section for section in sections if "." in section.number]
    found: dict[str, Section] = {}
    for term in glossary:
        ways = (
            (term.introduction, sections),
            (term.uses, numbered),
            (term.uses, sections),
        )
        first = by_number.get(term.section)
        for uses, among in ways:
            first = first or _first(uses, among)
        if first:
            found[term.name] = first
    return found


def _first(uses: re.Pattern[str], sections: Sequence[Section]) -> Section | None:
    """Return the first section whose text has such a use."""
    return next((s for s in sections if any(map(uses.search, s.texts))), None)


def page(text: str, introduced: Mapping[str, Section]) -> str:
    """Return the glossary for the site, with places and links to sections."""

    def entry(match: re.Match[str]) -> str:
        term, section = _term(match), introduced.get(match["name"])
        line = f'- <a id="{term.anchor}"></a>**{term.name}**: {term.meaning}'
        if section is None:
            return line
        return f'{line} <a href="../{section.address}">{section.number}</a>'

    return ENTRY.sub(entry, text)

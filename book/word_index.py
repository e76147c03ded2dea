"""The index: in which sections a term is used, and which code is used where.

Nothing of it is written by hand: here you can make the page (`page`) from the glossary
and the sections of the chapters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from book.glossary import Term
from book.sections import Section

OFTEN = 3
"""Uses of a term in a section that make it worth looking up there."""
MOST = 10
"""Sections of an entry: those with the most uses."""
CODE = {
    "PyTorch": ("dist",),
    "This package": ("lab", "algorithms", "costs", "fabrics", "plans", "st"),
}
"""By heading, the names that code of the index begins with."""
MAGIC = re.compile(r"^([ \t]*)[%!].*", re.MULTILINE)


def page(
    glossary: Sequence[Term],
    introduced: Mapping[str, Section],
    sections: Sequence[Section],
) -> str:
    """Return the index as Markdown: terms by their first letter, then names of code."""
    lines = ["# Index", "", "Where a term is introduced stands in bold.", ""]
    by_letter = groupby(_entries(glossary, introduced, sections), lambda e: e[0])
    for letter, entries in by_letter:
        lines += [f"## {letter}", "", *(entry for _, entry in entries), ""]
    used = _code(sections)
    for heading, roots in CODE.items():
        lines += [f"## {heading}", ""]
        names = sorted(name for name in used if name.partition(".")[0] in roots)
        lines += [_entry(f"`{name}`", used[name]) for name in names] + [""]
    return "\n".join(lines)


def _entries(
    glossary: Sequence[Term],
    introduced: Mapping[str, Section],
    sections: Sequence[Section],
) -> Iterator[tuple[str, str]]:
    """Yield the letter and the line of each term that a section uses."""
    for term in glossary:
        first = introduced.get(term.name)
        if first is None:
            continue
        uses = {
            section.number: sum(len(term.uses.findall(text)) for text in section.texts)
            for section in sections
        }
        often = [s for s in sections if uses[s.number] >= OFTEN or s is first]
        often.sort(key=lambda s: (s is not first, -uses[s.number]))
        shown = {section.number: section for section in often[:MOST]}
        name = f'<a href="glossary.html#{term.anchor}">{term.name}</a>'
        in_order = [section for section in sections if section.number in shown]
        yield term.name[0].upper(), _entry(name, in_order, first)


def _entry(name: str, sections: Iterable[Section], first: Section | None = None) -> str:
    links = []
    for section in sections:
        link = f'<a href="../{section.address}">{section.number}</a>'
        links.append(f"**{link}**" if section is first else link)
    return f"- {name} {', '.join(links)}"


def _code(sections: Sequence[Section]) -> dict[str, list[Section]]:
    """Return by dotted name the sections whose code uses it, at most the first MOST."""
    used: dict[str, list[Section]] = {}
    for section in sections:
        for name in sorted(set(_names("\n".join(section.codes)))):
            used.setdefault(name, []).append(section)
    return {name: where[:MOST] for name, where in used.items()}


def _names(source: str) -> Iterator[str]:
    """Yield the longest dotted names of a cell that begin as those of CODE do.

    What is an attribute of dictionaries is left out: a chapter may call one so.
    """
    roots = {root for of_heading in CODE.values() for root in of_heading}
    tree = ast.parse(MAGIC.sub(r"\1pass", source))
    inner = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            name = ast.unparse(node)
            is_own = name.partition(".")[0] in roots and not hasattr(dict, node.attr)
            if re.fullmatch(r"[\w.]+", name) and is_own:
                yield name

"""The numbered sections of the chapters: what is in them, and their addresses.

Here you can take a chapter apart (`sections_of`). Section `5` is what stands before
5.1. The recap, the exercises and the reading belong to no section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from docutils.nodes import make_id
from nbformat import NotebookNode

NUMBERED = re.compile(
    r"^#{1,2} (?P<number>\d+(?:\.\d+)?) (?:· )?(?P<title>.*)$", re.MULTILINE
)
OTHER = re.compile(r"^## (?!\d)", re.MULTILINE)


@dataclass
class Section:
    """A section, with the text and the code of its cells.

    page: the chapter's page from the root of the site, `chapters/05_ring.html`.
    """

    page: str
    number: str
    title: str
    texts: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)

    @property
    def chapter(self) -> int:
        """Return the number of its chapter."""
        return int(self.number.partition(".")[0])

    @property
    def address(self) -> str:
        """Return where it begins, as Sphinx names the place."""
        if "." not in self.number:
            return self.page
        plain = re.sub(r"[`*]", "", self.title)
        return f"{self.page}#{make_id(f'{self.number} {plain}')}"


def sections_of(chapter: Path, cells: Sequence[NotebookNode]) -> list[Section]:
    """Return the sections of a chapter in their order."""
    return [*_sections(f"chapters/{chapter.stem}.html", cells)]


def _sections(page: str, cells: Sequence[NotebookNode]) -> Iterator[Section]:
    now: Section | None = None
    for cell in cells:
        is_text = cell.cell_type == "markdown"
        if is_text and (heading := NUMBERED.search(cell.source)):
            if now:
                yield now
            now = Section(page, heading["number"], heading["title"])
        elif is_text and OTHER.search(cell.source):
            break
        if now:
            (now.texts if is_text else now.codes).append(cell.source)
    if now:
        yield now

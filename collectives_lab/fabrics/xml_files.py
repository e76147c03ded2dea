"""XML from a stranger, read with limits: no entities, no depth, no gigabytes.

Here you can `parse` a file to elements that know their line (`at`), and read their
attributes (`number`, `word`) with errors that name file, line and rule.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element
from xml.parsers import expat

LARGEST = 256 * 2**20
"""Bytes of a file that is read."""

DEEPEST = 200
"""Elements within each other; NCCL itself goes no deeper than some tens."""

LINE = "collectives_lab line"


class _Reader:
    """An expat parser that builds elements, and refuses what could harm."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root: Element | None = None
        self.open: list[Element] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if len(self.open) >= DEEPEST:
            raise ValueError(
                f"{self.path}, line {line}: elements {DEEPEST} deep; no such file has "
                "that many"
            )
        element = Element(tag, attributes)
        element.set(LINE, str(line))
        if self.open:
            self.open[-1].append(element)
        else:
            self.root = element
        self.open.append(element)

    def _end(self, tag: str) -> None:
        self.open.pop()

    def _doctype(self, *_: object) -> None:
        raise ValueError(
            f"{self.path}, line {self.parser.CurrentLineNumber}: a document type "
            "(DTD), by which entities can grow without end; such a file has none, so "
            "it is not read"
        )


def parse(path: str | Path, root: str) -> Element:
    """Return the root element of a file, whose tag must be `root`.

    Raises ValueError for a file that is too large, empty, not whole, no XML, of
    another kind, or that declares a document type.
    """
    path = Path(path)
    size = path.stat().st_size
    if not 0 < size <= LARGEST:
        what = "is empty" if not size else f"has {size:,} bytes"
        raise ValueError(f"{path} {what}; need 1 to {LARGEST:,} bytes of XML")
    reader = _Reader(path)
    try:
        reader.parser.Parse(path.read_bytes(), True)
    except expat.ExpatError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: {expat.ErrorString(error.code)}; need whole "
            "XML"
        ) from None
    element = reader.root
    if element is None or element.tag != root:
        tag = "nothing" if element is None else f"<{element.tag}>"
        raise ValueError(f"{path} begins with {tag}; need <{root}>")
    return element


def at(path: str | Path, element: Element) -> str:
    """Name an element's place: `plan.xml, line 12 <step>`."""
    return f"{path}, line {element.get(LINE)} <{element.tag}>"


def number(
    path: str | Path, element: Element, name: str, default: int | None = None
) -> int:
    """Return a whole number; ValueError for one that is missing or something else."""
    text = element.get(name)
    if text is None and default is not None:
        return default
    text = word(path, element, name)
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"{at(path, element)}: {name} is {text!r}; need a whole number"
        ) from None


def word(path: str | Path, element: Element, name: str) -> str:
    """Return an attribute; ValueError if it is missing."""
    text = element.get(name)
    if text is None:
        raise ValueError(f"{at(path, element)} has no {name}; need one")
    return text


def without_lines(element: Element) -> Element:
    """Remove the lines that `parse` has noted, so that the element can be written."""
    for one in element.iter():
        one.attrib.pop(LINE, None)
    return element

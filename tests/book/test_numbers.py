"""The promise of the chapters' numbers: each is produced, cited, or reviewed by hand.

A number in a text or a caption is *produced* if the code of its section has it: in an
assertion, as a parameter, or as an expression of numbers (`2**24`, `900e9 / 2`), up to
units, formatting and rounding. A paragraph speaks also of the sections that it names;
opening, recap and exercises speak of the whole chapter. `CLAIMS` holds everywhere.

It is *cited* if its sentence names author and year of an entry under Reading, or says
that a source claims it and the table of errata has it, with the source.

Numbers in words are not looked at. Nor are whole ones up to ten, unless a unit or a
"times" makes them quantities: at this size every section has nearly all of them.
"""

import ast
import builtins
import operator
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

CHAPTERS = sorted((Path(__file__).parents[2] / "chapters").glob("*.ipynb"))

ALLOWED = {
    (1, "2.8"): "an exercise asks for another loss than the text",
    (2, "1 GiB"): "an exercise chooses a benchmark",
    (2, "10 Gb/s"): "an exercise chooses another network",
    (3, "81"): "an exercise asks who is in it; a cell would give the answer away",
    (3, "41"): "the same",
    **dict.fromkeys(
        [(2, "450 GB/s")],
        "data sheets, as the presets of `fabrics` have them",
    ),
    (11, "569"): "the number of NCCL's issue, whose figures are in `truth`",
    **dict.fromkeys(
        [(11, "412"), (11, "836"), (11, "1412")],
        "the numbers of NCCL's issues, as Reading has them",
    ),
    **dict.fromkeys(
        [(13, "7 %")],
        "of published steps, in `truth`",
    ),
}
"""Chapter and number: the reason why nothing produces it and nobody is cited for it."""


@cache
def book() -> ModuleType:
    """The tests of chapters, which import Jupyter: a second for each worker."""
    import test_chapters

    return test_chapters


# -- numbers of a text -----------------------------------------------------------------

UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
UNITS |= {"GB/s": 1e9, "Gb/s": 1e9, "MB/s": 1e6, "Mb/s": 1e6, "Mbit/s": 1e6}
UNITS |= {"TFLOP/s": 1e12, "million": 1e6, "billion": 1e9}
UNITS |= {"ms": 1e-3, "µs": 1e-6, "%": 0.01, "percent": 0.01}
UNITS |= dict.fromkeys(["B", "bytes", "s", "seconds", "S", "times", "x"], 1)
"""What may follow a number, and by what it multiplies it in SI units."""

WORDS = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
NUMBER = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)"  # no part of H100, of GPT-2, of 1.2.3
    r"(?P<digits>\d{1,3}(?:[\xa0\u202f,]\d{3})+|\d+(?:\.\d+)?)"
    r"(?:(?P<ten> · 10)?<sup>(?P<power>−?\d+)</sup>)?"
    rf"(?:[- ]?(?P<unit>{WORDS})(?![\w/]))?"
)
COUNTING = 10
"""Whole numbers up to here are counting words, unless they have a unit."""

# What has digits and claims nothing, and what it is.
STRUCTURE = [
    (r"`[^`]*`", "code, which shows what it does"),
    (r"\]\([^)\s]*\)", "the address of a link"),
    (r"^#+ [\d.]+(?: ·)?", "the number of a heading"),
    (r"^\s*\d+\. (?:\*\w+, \d+ minutes\.\*)?", "that of an exercise, and its minutes"),
    (r"Allow \d+ minutes", "the minutes of a chapter"),
    (r"\b(?:[Cc]hapters?|Output|Table|Code) \d[\d.]*", "a place in a text"),
    (r"\bFigures? \d+\.\d+(?:(?:,| and| to) \d+\.\d+)*", "figures"),
    (
        r"\b(?:NVLink|PCIe|RTX|Ethernet|(?:Py)?[Tt]orch|version) \d[\d.]*s?\b",
        "part of a name",
    ),
    (r"\b(?:Llama|Mixtral)(?: \d)? \d[\dx]*B\b", "the name of a model"),
    (r"<sub>.*?</sub>|(?<=[a-z])<sup>.*?</sup>|<sup>[^\d−].*?</sup>", "an index"),
]


@dataclass(frozen=True)
class Number:
    """A number as it is printed, and the SI values of the units that it may have."""

    text: str
    value: float
    decimals: int
    scales: frozenset[float]

    def is_among(self, known: set[float]) -> bool:
        """Is one of these this number, with or without a unit, or rounded to it?"""
        small = self.value in range(COUNTING + 1)
        scales = self.scales if small else self.scales | {1.0}
        return any(self._shows(value / scale) for value in known for scale in scales)

    def _shows(self, value: float) -> bool:
        if abs(value - self.value) <= 1e-9 * self.value:
            return True
        may_round = self.decimals > 0 or self.value > COUNTING
        return may_round and round(value, self.decimals) == self.value


def numbers(text: str, places: set[str]) -> Iterator[Number]:
    """The numbers in a text that claim something; not those of sections in `places`.

    One without a unit may have any of the text: "900 GB/s both ways, 450 one way".
    """
    all_found = list(NUMBER.finditer(text))
    units = frozenset(UNITS[match["unit"]] for match in all_found if match["unit"])
    for match in all_found:
        digits, unit = re.sub(r"[\s,]", "", match["digits"]), match["unit"]
        value, decimals = float(digits), len(digits.partition(".")[2])
        if match["power"]:
            power = int(match["power"].replace("−", "-"))
            value = value * 10.0**power if match["ten"] else value**power
        is_small = value in range(COUNTING + 1)
        if unit or not (is_small or digits in places):
            scales = frozenset([UNITS[unit]]) if unit else units
            yield Number(match[0].strip(), value, decimals, scales)


REFERENCE = re.compile(r"\b[Ss]ection (\d+\.\d+)(?!\d)|(?<=\()(\d+\.\d+)(?=[),])")
"""What the site links to a section of any chapter."""


def without_structure(text: str) -> str:
    for pattern, _ in STRUCTURE:
        text = re.sub(pattern, " ", text, flags=re.MULTILINE)
    return text


@cache
def numbered() -> frozenset[str]:
    """The numbers of all sections of the book."""
    texts = [cell.source for path in CHAPTERS for cell in book().read(path).cells]
    heads = re.compile(r"^## (\d+\.\d+) ", re.MULTILINE)
    return frozenset(heads.findall("\n".join(texts)))


def without_references(text: str) -> str:
    """A sentence without "section 3.5" and "(3.5)", if the book has this section."""
    return REFERENCE.sub(
        lambda match: " " if {*match.groups()} & numbered() else match[0], text
    )


# -- numbers of code -------------------------------------------------------------------

OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
DIGITS = re.compile(r"\d+(?:\.\d+)?")
NAMES = {"MiB": 2.0**20, "ms": 1e-3}
"""What units are called in the code of chapters."""

FORM = {"axis", "dim", "figsize", "fontsize", "seed", "timeout", "width"}
"""Arguments whose numbers no text speaks of: how something is drawn or called."""


def parsed(source: str) -> ast.Module:
    """A cell without its magics."""
    magic = re.compile(r"^([ \t]*)%(?=[%a-z]).*", re.MULTILINE)
    return ast.parse(magic.sub(r"\1pass", textwrap.dedent(source)))


def literals(source: str) -> set[float]:
    """The numbers of a cell, its magic, its constant expressions and asserted texts."""
    tree, magic = parsed(source), re.match(r"%.*", source)
    texts = [magic[0]] if magic else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            texts += strings(node.test)
        if isinstance(node, ast.Assign):  # a table, with which rows are compared
            texts += [s for s in strings(node) if re.fullmatch(r"[\d\s.]+", s)]
    numbers = {float(number) for text in texts for number in DIGITS.findall(text)}
    value_of(tree, numbers)
    return numbers


def strings(node: ast.AST) -> list[str]:
    constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]


def value_of(node: ast.AST, match: set[float]) -> float | None:
    """The value of an expression of numbers, if it is one; all below join `match`."""
    if isinstance(node, ast.keyword) and node.arg in FORM:
        return None
    below = [value_of(child, match) for child in ast.iter_child_nodes(node)]
    value = None
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = float(node.value)
    if isinstance(node, ast.Name):
        value = NAMES.get(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = None if below[1] is None else -below[1]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, _, right = below
        if left is not None and right is not None:
            value = OPERATORS[type(node.op)](left, right)
    if value is not None:
        match.add(value)
    return value


# -- a chapter -------------------------------------------------------------------------

SENTENCE = re.compile(r"[a-z]+(?:\W+[a-z]+){3}")  # a caption, and no name or table
SPEAK_OF_ALL = "opening", "Recap", "Exercises"


@dataclass
class Section:
    """A section of a chapter: its paragraphs, and the numbers of its code."""

    name: str
    number: str = ""
    paragraphs: list[str] = field(default_factory=list)
    known: set[float] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


def sections(notebook: "NotebookNode") -> list[Section]:
    collected = [Section("opening")]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            collected[-1].known |= literals(cell.source)
            collected[-1].names |= names_in(cell.source)
            texts = strings(parsed(cell.source))
            collected[-1].paragraphs += [
                without_structure(text) for text in texts if SENTENCE.search(text)
            ]
            continue
        for paragraph in cell.source.split("\n\n"):
            if head := re.match(r"## (?:(\d+\.\d+) )?(.*)", paragraph):
                collected.append(Section(head[2], head[1] or ""))
            else:
                collected[-1].paragraphs.append(without_structure(paragraph))
    return collected


def statements(section: Section) -> Iterator[tuple[str, str]]:
    """Its sentences, each with the text that says which sections it is about.

    Of a row of the errata this is what holds: the cells before say who claims what, the
    last one says where it is shown. If that is no section, it is the source of the row.
    """
    for paragraph in section.paragraphs:
        for line in paragraph.splitlines():
            if section.name != "Errata" or not line.startswith("|"):
                for sentence in re.split(r"(?<=[.?!]) (?=\W*[A-Z])", line):
                    yield sentence, paragraph
                continue
            *_, holds, where = line.strip("| ").split("|")
            if re.search(r"\d+\.\d+", where):
                yield holds, where


def claims_of_sources(errata: Section) -> set[float]:
    """The numbers that the table of errata quotes."""
    rows = [p for p in errata.paragraphs if p.startswith("|")]
    quoted = [
        cell
        for line in "\n".join(rows).splitlines()
        for cell in line.strip("| ").split("|")[:-2]
    ]
    claims = [number for cell in quoted for number in numbers(cell, set())]
    return {n.value * scale for n in claims for scale in n.scales | {1.0}}


def is_cited(sentence: str, reading: Section) -> bool:
    """Does it name author and year of an entry under Reading?"""
    entries = "\n".join(reading.paragraphs).splitlines()
    named = re.findall(r"([A-Z]\w+)(?: and others)? \(?(\d{4})\)?", sentence)
    return any(a in entry and year in entry for a, year in named for entry in entries)


def names_in(source: str) -> set[str]:
    """The names that a piece of code has or imports, but builtins and attributes."""
    tree = [*ast.walk(parsed(source))]
    used = {node.id for node in tree if isinstance(node, ast.Name)}
    used |= {node.asname or node.name for node in tree if isinstance(node, ast.alias)}
    made = {n.name for n in tree if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return (used | made) - set(dir(builtins))


def separate(claims: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the statements of claims, of an assertion with "and" each part.

    With each come the numbers of the sections that its message names.
    """
    for statement in parsed(claims).body:
        test, message = (getattr(statement, name, None) for name in ("test", "msg"))
        text = ast.unparse(message) if message else ""
        places = re.findall(r"(?<!Figure )\b\d+\.\d+\b", text)
        is_many = isinstance(statement, ast.Assert) and isinstance(test, ast.BoolOp)
        if is_many and isinstance(test.op, ast.And):
            for part in test.values:
                yield f"assert {ast.unparse(part)}", places
        else:
            yield ast.unparse(statement), places


def claim(parts: list[Section], claims: str) -> set[float]:
    """Give each section the numbers of its claims; return those that hold everywhere.

    A claim belongs to the sections that its message names, as of
    `assert 4 * 3 * 2 == 24, "5.3, 5.4"`. Without such a message it belongs to those
    whose code has the most of its names, and with no such name it holds everywhere.
    """
    homes: dict[str, list[Section]] = {}  # of names that claims define
    waiting: dict[str, set[float]] = {}  # numbers of names that have no section yet
    everywhere: set[float] = set()
    for source, places in separate(claims):
        used, statement = names_in(source), ast.parse(source).body[0]
        names = [
            homes.get(name) or [part for part in parts[1:] if name in part.names]
            for name in used
            if name in homes or name not in parts[0].names
        ]
        having = Counter(part.name for places_of in names for part in places_of)
        most = max(having.values(), default=0)
        own = [part for part in parts if having[part.name] == most > 0]
        own = [part for part in parts if part.number in places] or own
        known = literals(source).union(*(waiting.get(name, set()) for name in used))
        defined = {
            name
            for target in getattr(statement, "targets", [])
            for name in names_in(ast.unparse(target))
        }
        homes |= dict.fromkeys(defined, own)
        if own:
            for part in own:
                part.known |= known
            waiting = {name: waiting[name] for name in waiting.keys() - used}
        elif defined:
            waiting |= dict.fromkeys(defined, known)
        else:
            everywhere |= known
    return everywhere.union(*waiting.values())


def checked(
    path: Path, notebook: "NotebookNode"
) -> Iterator[tuple[Section, Number, set[float]]]:
    """Every number to be covered, with its section and all that may cover it."""
    parts = sections(notebook)
    by_name = {part.name: part for part in parts}
    by_number = {part.number: part for part in parts if part.number}
    always = claim(parts, book().CLAIMS.get(path.stem, ""))
    everything = always.union(*(part.known for part in parts))
    quoted = claims_of_sources(by_name["Errata"]) if "Errata" in by_name else set()
    for part in parts:
        if part.name == "Reading":  # an entry is the source of what it says
            continue
        for sentence, context in statements(part):
            if is_cited(sentence, by_name["Reading"]):
                continue
            places = [n["digits"] for n in NUMBER.finditer(context) if not n["unit"]]
            named = [by_number[place].known for place in places if place in by_number]
            known = always.union(part.known, *named)
            if part.name in SPEAK_OF_ALL:
                known = everything
            if re.search(r"\b(source|text|textbook|report)\b", sentence):
                known = known | quoted
            for number in numbers(without_references(sentence), set(by_number)):
                yield part, number, known


def findings(path: Path, notebook: "NotebookNode", allowed: Container) -> Iterator[str]:
    """Say, in a line each, which numbers of this chapter nothing covers."""
    chapter = book().number_of(path)
    for part, number, known in checked(path, notebook):
        if not number.is_among(known) and (chapter, number.text) not in allowed:
            yield (
                f"chapter {chapter}, {part.number or part.name}: {number.text!r} is "
                "neither asserted nor cited; assert it in a cell of this section, name "
                "the section that does, or cite its source"
            )


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_number_is_produced_or_cited(path: Path) -> None:
    """No chapter states a number that no cell has and for which nobody answers."""
    complaints = list(findings(path, book().read(path), ALLOWED))
    assert not complaints, "\n".join(complaints)


def test_every_exception_is_needed() -> None:
    """An entry of ALLOWED goes when its number does, and the list stays short."""
    excused = {
        (book().number_of(path), number.text)
        for path in CHAPTERS
        for _, number, known in checked(path, book().read(path))
        if not number.is_among(known)
    }
    assert set(ALLOWED) == excused and len(ALLOWED) <= 25


# -- what must be found ----------------------------------------------------------------


def path_of(chapter: int) -> Path:
    return next(path for path in CHAPTERS if book().number_of(path) == chapter)


OF_A_PAPER = "38 to 43 percent (Grattafiori and others 2024)"
WRONG = [
    (1, "four times the 520", "four times the 530", "1.5: '530'"),
    (1, "**1.2 times**", "**5.3 times**", "Recap: '5.3 times'"),
    (1, OF_A_PAPER, "38 to 43 percent", "1.4: '38'"),
    (1, "(11.5)", "(11.55)", "1.4: '11.55'"),
    (2, "A100 and 18 for", "A100 and 17 for", "2.6: '17'"),
    (4, "in thousands of weights", "in 2713 weights", "4.4: '2713'"),
    (5, "its gradient 1023 times", "its gradient 1022 times", "5.1: '1022 times'"),
    (5, "from about 15 MiB on", "from about 25 MiB on", "5.9: '25 MiB'"),
    (9, "**21,333 times**", "**21,334 times**", "Recap: '21,334 times'"),
    (11, "the factor is 96.", "the factor is 97.", "11.1: '97'"),
    (12, "**94 ms**", "**93 ms**", "Recap: '93 ms'"),
]


@pytest.mark.parametrize("chapter, old, new, complaint", WRONG)
def test_a_wrong_number_is_found(
    chapter: int, old: str, new: str, complaint: str
) -> None:
    """It sees a digit changed, a number added, an assertion or a source gone."""
    path, notebook = path_of(chapter), book().read(path_of(chapter))
    assert any(old in cell.source for cell in notebook.cells)
    book().with_text(old, new)(notebook)
    assert any(complaint in line for line in findings(path, notebook, ALLOWED))


def other_digits(number: Number) -> Iterator[Number]:
    """This number with one digit changed, in each way."""
    for at, old in enumerate(number.text):
        for digit in "123456789" if old.isdigit() else "":
            if digit != old:
                text = number.text[:at] + digit + number.text[at + 1 :]
                yield from numbers(text, set())


def test_a_wrong_digit_is_found() -> None:
    """The rules are no sieve for wrong digits, the less so the longer a number is."""
    is_found = defaultdict(list)
    for path in CHAPTERS:
        for _, number, known in checked(path, book().read(path)):
            for wrong in other_digits(number):
                length = len(re.sub(r"\D", "", wrong.text))
                is_found[min(length, 3)].append(not wrong.is_among(known))
    assert min(map(len, is_found.values())) > 1000
    share = {length: sum(found) / len(found) for length, found in is_found.items()}
    assert share[1] > 11 / 20 and share[2] > 7 / 9 and share[3] > 24 / 25

"""What of a student's notebook is graded: the program of one exercise.

It is what the exercise's entries need: their last definitions before the test cell, as
"Run All" would leave them, and whatever those use, name by name. Imports, functions,
classes and assignments count; a call, a loop or an assertion of its own does not run,
so neither a plot nor an endless demonstration stands in the way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from autograder.statements import EVERYTHING, Code, Statement, quoted, statements, why

SHOWN = 12


@dataclass
class Extract:
    """The texts that are graded, by the name of their cell, and what is not."""

    texts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Those entries that nothing defines."""


def extract(
    cells: Iterable[Code], entries: Sequence[str], given: Iterable[str] = ()
) -> Extract:
    """Take from the cells what the entries need, and name what is passed over.

    given: the cells as they were released; a statement of theirs is not named.
    """
    made = Extract()
    found = [s for cell in cells for s in statements(cell, made.notes)]
    bindings = _bindings(found)
    needed = _needed(bindings, entries)
    released = {s.text for text in given for s in statements(Code(0, text), [])}
    passed_over = [s for s in found if not s.counts and s.text not in released]
    made.notes += _not_run(passed_over, needed)
    taken = [s for s in found if s in needed and s.counts and _compiles(s, made.notes)]
    for name, of_cell in groupby(taken, key=lambda s: s.cell.name):
        made.texts.append((name, _text(of_cell)))
    defined = {name for statement in taken for name in statement.binds}
    made.missing = [name for name in entries if name not in defined]
    return made


def _bindings(found: list[Statement]) -> dict[str, list[Statement]]:
    """What binds each name before the test cell, or behind it where nothing does."""
    before: dict[str, list[Statement]] = {}
    behind: dict[str, list[Statement]] = {}
    for statement in found:
        for name in statement.binds:
            place = behind if statement.cell.after else before
            place.setdefault(name, []).append(statement)
    return behind | before


def _needed(
    bindings: dict[str, list[Statement]], entries: Sequence[str]
) -> set[Statement]:
    """All statements that the entries use, at once or through others."""
    wanted, seen, needed = [*entries, EVERYTHING], set[str](), set[Statement]()
    while wanted:
        name = wanted.pop()
        for statement in bindings.get(name, []) if name not in seen else []:
            needed.add(statement)
            wanted += statement.uses if statement.counts else []
        seen.add(name)
    return needed


def _compiles(statement: Statement, notes: list[str]) -> bool:
    """Some errors are found only now, as a `break` outside a loop."""
    text = _text([statement])
    try:
        compile(text, statement.cell.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        notes.append(f"{statement.cell.name} is left out in part: {why(error, text)}")
        return False
    return True


def _text(found: Iterable[Statement]) -> str:
    """Statements of one cell at the lines where the student wrote them."""
    text, line = "", 1
    for statement in found:
        text += "\n" * (statement.first - line) if statement.first > line else ""
        text += "; " if statement.first <= line and text else ""
        text += statement.text
        line = statement.last
    return text + "\n"


def _not_run(passed_over: list[Statement], needed: set[Statement]) -> list[str]:
    """Sentences on what does not count, first of all where the solution wants it."""
    notes = [
        f"{s.cell.name}, line {s.first}: {quoted(s.text)} is not run, though your "
        f"solution uses {', '.join(sorted(s.binds))}: set it by an assignment, or in "
        "your function"
        for s in passed_over
        if s in needed
    ]
    places = [
        f"{name} ({_lines(list(of_cell))})"
        for name, of_cell in groupby(passed_over, key=lambda s: s.cell.name)
    ]
    if places:
        more = f" and {len(places) - SHOWN} more cells" if len(places) > SHOWN else ""
        notes.append(
            "not run for the mark, as only imports, functions, classes and assignments "
            f"count: {', '.join(places[:SHOWN])}{more}"
        )
    return notes


def _lines(found: list[Statement]) -> str:
    spans = [f"{s.first}" + f"-{s.last}" * (s.last > s.first) for s in found]
    return f"line{'s' * (spans != [str(found[0].first)])} {', '.join(spans)}"

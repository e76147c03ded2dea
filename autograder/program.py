"""What of a student's notebook is graded: the program of one exercise.

It is what the exercise's entries need: their last definitions before the test cell, as
"Run All" would leave them, and whatever those use, name by name. Imports, functions,
classes and assignments count; a call, a loop or an assertion of its own does not run,
so neither a plot nor an endless demonstration stands in the way.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from autograder import remarks
from autograder.definitions import AROUND
from autograder.statements import EVERYTHING, FUTURE, Code, Statement, statements, why

IMPORTS = (ast.Import, ast.ImportFrom)
VALUES = (ast.Assign, ast.AnnAssign)
BLOCKS = (*AROUND, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Bindings = dict[str, list[Statement]]


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
    made, cells = Extract(), list(cells)
    found = _settled([s for cell in cells for s in statements(cell, made.notes)])
    before, behind = _bindings(found)
    needed, used = _needed(found, behind | before, entries)
    released = {s.text for text in given for s in statements(Code(0, text), [])}
    mine = [s for s in found if s.text not in released]
    made.notes += remarks.not_run([s for s in mine if not s.counts], needed, used)
    taken = [s for s in found if s in needed and s.counts and _compiles(s, made.notes)]
    made.texts = _texts(found, taken, made.notes)
    defined = {name for statement in taken for name in statement.binds}
    made.missing = [name for name in entries if name not in defined]
    made.notes += remarks.missing(made.missing, cells, mine)
    made.notes += remarks.behind(entries, before, behind)
    made.notes += remarks.not_here(taken)
    made.notes = [remarks.short(note) for note in made.notes]
    return made


def _settled(found: list[Statement]) -> list[Statement]:
    """An item or attribute that is set binds its name too, unless it is a module's.

    Ranks import modules afresh, those of a check in the notebook too.
    """
    imports = [s for s in found if s.kind is ast.Import]
    modules = frozenset(name for s in imports for name in s.binds)
    bound = [s.binds | (s.sets - modules) for s in found]
    return [
        replace(s, binds=b, changes=s.changes - modules, counts=s.counts and bool(b))
        for s, b in zip(found, bound, strict=True)
    ]


def _bindings(found: list[Statement]) -> tuple[Bindings, Bindings]:
    """What binds each name before the test cell, and what behind it."""
    before, behind = Bindings(), Bindings()
    for statement in found:
        for name in statement.binds:
            place = behind if statement.cell.after else before
            place.setdefault(name, []).append(statement)
    return before, behind


def _needed(
    found: list[Statement], bindings: Bindings, entries: Sequence[str]
) -> tuple[set[Statement], set[str]]:
    """All statements that the entries use, at once or through others; and all names.

    What is handed by a decorator or a base to something that they use is used through
    that; so is what a decorator keeps in a value that they use.
    """
    handed, keepers = _handed(found, bindings)
    wanted, used, needed = [*entries, EVERYTHING], set[str](), set[Statement]()
    while wanted:
        name = wanted.pop()
        if name in used:
            continue
        used.add(name)
        taken = list(bindings.get(name, []))
        if any(s.kind not in IMPORTS for s in taken):
            for hook in (name, *keepers.pop(name, [])):
                taken += handed.pop(hook, [])
        for statement in set(taken) - needed:
            wanted += statement.uses if statement.counts else []
            wanted += statement.binds if statement.kind is ast.ClassDef else []
        needed.update(taken)
    return needed, used


def _handed(
    found: Sequence[Statement], bindings: Bindings
) -> tuple[Bindings, dict[str, list[str]]]:
    """By decorator or base, what it is given; by value, the decorators that use it."""
    handed, keepers = defaultdict(list), defaultdict(list)
    for statement in found:
        for name in statement.hooks if not statement.cell.after else ():
            handed[name].append(statement)
    for hook in handed:
        uses = {name for s in bindings.get(hook, []) for name in s.uses}
        for name in uses:
            if any(s.kind in VALUES for s in bindings.get(name, [])):
                keepers[name].append(hook)
    return handed, keepers


def _compiles(statement: Statement, notes: list[str]) -> bool:
    """Some errors are found only now, as a `break` outside a loop."""
    text = _text([statement])
    try:
        compile(text, statement.cell.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        notes.append(f"{statement.cell.name} is left out in part: {why(error, text)}")
        return False
    return True


def _texts(
    found: Sequence[Statement], taken: Sequence[Statement], notes: list[str]
) -> list[tuple[str, str]]:
    """The text of each cell, under the `__future__` of this cell or one before."""
    futures = [s.cell.number for s in found if FUTURE in s.binds]
    texts = []
    for name, of_cell in groupby(taken, key=lambda s: s.cell.name):
        of_it = list(of_cell)
        head = FUTURE if futures and futures[0] <= of_it[0].cell.number else ""
        texts.append((name, _text(of_it, head)))
        if head and of_it[0].first == 1 and issubclass(of_it[0].kind, BLOCKS):
            notes.append(
                f"the lines of {name} are counted from 2: `{FUTURE}` of another cell "
                "stands before them"
            )
    return texts


def _text(found: Iterable[Statement], head: str = "") -> str:
    """Statements of one cell at the lines where the student wrote them."""
    text, line = head, 1
    for statement in found:
        if statement.first > line:
            text += "\n" * (statement.first - line)
        elif text:
            text += "\n" if issubclass(statement.kind, BLOCKS) else "; "
        text += statement.text
        line = statement.last
    return text + "\n"

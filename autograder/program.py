"""The part of a student's notebook that is graded: the program of one exercise.

It is what the notebook defines when it is run from top to bottom up to the test cell.
Each rank runs it, so a statement that takes long counts only where the exercise's
entries need it, by name; all others run, as one cannot see what they are good for.
`trial` finds out which take long, and which never end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby

from autograder.statements import (
    EVERYTHING,
    IMPORTS,
    Code,
    Statement,
    statements,
    text_of,
)

SHOWING = ("IPython", "ipywidgets", "matplotlib", "pandas", "plotly", "seaborn")
"""Modules that take long to import and are there to look at results."""


@dataclass
class Reading:
    """A notebook as it is to be run for one exercise.

    statements: all of them; runs: those that are tried, in this order; needed: those
    that bind or change what the entries use; notes: what could not be read.
    """

    statements: list[Statement] = field(default_factory=list)
    runs: list[Statement] = field(default_factory=list)
    needed: Set[Statement] = frozenset()
    used: Set[str] = frozenset()
    notes: list[str] = field(default_factory=list)


def read(cells: Iterable[Code], entries: Sequence[str]) -> Reading:
    """Read a notebook for an exercise whose functions are called `entries`.

    What stands behind the test cell helps only with names that nothing before binds.
    """
    made = Reading()
    made.statements = [s for cell in cells for s in statements(cell, made.notes)]
    before = {name for s in made.statements if not s.cell.after for name in s.binds}
    counts = [s for s in made.statements if not s.cell.after or not s.binds <= before]
    made.needed, made.used = _Need(counts).of(entries)
    made.runs = [s for s in counts if s in made.needed or not _may_be_left(s)]
    return made


def texts(statements: Sequence[Statement]) -> list[tuple[str, str]]:
    """Return the text of each cell, by its name."""
    cells = groupby(statements, key=lambda s: s.cell.name)
    return [(name, text_of(of_cell)) for name, of_cell in cells]


def _may_be_left(statement: Statement) -> bool:
    """Return what is not even tried where nothing needs it."""
    shows = statement.modules and set(statement.modules) <= set(SHOWING)
    return bool(shows) or statement.cell.after


class _Need:
    """The statements that bind or change the names in use, even through others."""

    def __init__(self, statements: Sequence[Statement]):
        imports = [s for s in statements if s.kind in IMPORTS]
        self.imported = {name for s in imports for name in s.binds}
        before = [s for s in statements if not s.cell.after]
        self.binding = _by_name(statements, lambda s: s.binds)
        self.using = _by_name(before, lambda s: s.uses)
        self.altering = _by_name(before, lambda s: s.alters - self.imported)
        self.needed = set[Statement]()
        self.changers = set[str]()

    def of(self, entries: Sequence[str]) -> tuple[set[Statement], set[str]]:
        """Return the statements that these names need; and all names that those use."""
        self.wanted, used = [*entries, EVERYTHING], set[str]()
        while self.wanted:
            name = self.wanted.pop()
            if name not in used:
                used.add(name)
                for s in self.binding[name]:
                    self._take(s)
                for s in self.altering[name]:
                    self._altered_by(s)
        return self.needed, used

    def _take(self, statement: Statement) -> None:
        if statement not in self.needed:
            self.needed.add(statement)
            self.wanted += statement.uses

    def _altered_by(self, statement: Statement) -> None:
        """Note the names that a statement alters.

        A function alters where it is called.
        """
        left = [statement]
        while left:
            s = left.pop()
            if not s.is_plain_function:
                self._take(s)
            for name in s.binds - self.changers - self.imported:
                self.changers.add(name)
                left += self.using[name]


def _by_name(
    statements: Iterable[Statement], names: Callable[[Statement], Set[str]]
) -> dict[str, list[Statement]]:
    """Return the statements of each name, in order."""
    index: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        for name in names(statement):
            index[name].append(statement)
    return index

"""What a student is told of how the notebook was read, beside the verdict."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from importlib.util import find_spec
from itertools import groupby

from autograder.statements import Code, Statement, quoted

SHOWN = 12
LOOPS = " (a loop does not count, as one need not end)"
LONGEST = 1000
"""Characters of a note."""


def short(note: str) -> str:
    """A note that fills no page, whatever names it holds."""
    return note if len(note) <= LONGEST else f"{note[:LONGEST]} ..."


def not_run(
    passed_over: Sequence[Statement], needed: Set[Statement], used: Set[str]
) -> list[str]:
    """Sentences on what does not count, first of all where the solution wants it."""
    notes = []
    for s in passed_over:
        where = f"{s.cell.name}, line {s.first}: {quoted(s.text)} is not run, though"
        if s in needed:
            notes.append(
                f"{where} your solution uses {_some(sorted(s.binds & used))}: set it "
                "by an assignment, or in your function"
                + LOOPS
                * (s.kind in (ast.For, ast.While))
            )
        elif changed := s.changes & used:
            notes.append(
                f"{where} it may change {_some(sorted(changed))}, which your solution "
                "uses: write it as an assignment, or do it in your function"
            )
    places = [
        f"{name} ({_lines(list(of_cell))})"
        for name, of_cell in groupby(passed_over, key=lambda s: s.cell.name)
    ]
    if places:
        more = f" and {len(places) - SHOWN} more cells" if len(places) > SHOWN else ""
        places_said = f"{', '.join(places[:SHOWN])}{more}"
        said = "only imports, functions, classes and assignments count"
        return [*_first(notes), f"not run for the mark, as {said}: {places_said}"]
    return notes


def missing(
    names: Sequence[str], cells: Sequence[Code], found: Sequence[Statement]
) -> Iterator[str]:
    """Where a name that nothing defines might be meant; no word where one was said."""
    functions = [
        f"{name} ({s.cell.name})"
        for s in found
        if s.kind is ast.FunctionDef and s.counts
        for name in s.binds
    ]
    for name in names:
        seen = [cell for cell in cells if _writes(cell, name)]
        of_magic = [c for c in seen if c.source.lstrip().startswith("%%")]
        if of_magic:
            yield (
                f"{of_magic[-1].name} is left out, though it defines {name}: take away "
                "the line with %%, and keep the definition in the cell"
            )
        elif not seen and not any(name in s.binds for s in found):
            instead = f"; it defines {_some(functions)}" if functions else ""
            yield (
                f"no cell of your notebook defines {name}{instead}. What is checked "
                f"must be called {name}"
            )


def _writes(cell: Code, name: str) -> bool:
    """Whether a cell reads as if it defined the name, be it Python or not."""
    start = rf"^\s*+(?:(?:async\s++)?def\s++{name}\b|{name}\s*+=)"
    return any(re.match(start, line) for line in cell.source.split("\n"))


def behind(
    entries: Iterable[str],
    before: Mapping[str, list[Statement]],
    after: Mapping[str, list[Statement]],
) -> Iterator[str]:
    """A solution behind the test cell, where another one stands before it."""
    for name in entries:
        texts = {s.text for s in before.get(name, [])}
        other = [s for s in after.get(name, []) if s.text not in texts]
        if texts and other:
            yield (
                f"{other[-1].cell.name}, behind the test, defines {name} too: the one "
                "before the test counts"
            )


def not_here(taken: Iterable[Statement]) -> list[str]:
    """Imports of what the grader has not, as of a file beside the notebook."""
    notes = []
    for s in taken:
        gone = [m for m in _modules(s) if not _is_there(m)]
        if gone:
            notes.append(
                f"{s.cell.name}, line {s.first}: there is no module {_some(gone)} "
                "where submissions are checked. Only the notebook is graded: copy what "
                "you use of a file of your own into a cell"
            )
    return _first(notes)


def _modules(statement: Statement) -> Iterator[str]:
    """The modules that a plain import names, without what they are in."""
    if statement.kind not in (ast.Import, ast.ImportFrom):
        return
    (node,) = ast.parse(statement.text).body
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def _is_there(module: str) -> bool:
    with suppress(ValueError):  # of one that was made by hand, as `__main__`
        return find_spec(module) is not None
    return True


def _lines(found: Sequence[Statement]) -> str:
    spans = [f"{s.first}" + f"-{s.last}" * (s.last > s.first) for s in found]
    spans = list(dict.fromkeys(spans))  # several statements of one line
    return f"line{'s' * (spans != [str(found[0].first)])} {_some(spans)}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _first(notes: Sequence[str]) -> list[str]:
    more = [f"and {len(notes) - SHOWN} more such lines"] if len(notes) > SHOWN else []
    return [*notes[:SHOWN], *more]

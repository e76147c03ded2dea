"""The statements of a cell's top level, with the names that each binds and uses.

Python's own parser and symbol table say what they are; nothing is run.
"""

import ast
import re
import symtable
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.definitions import (
    AROUND,
    asides,
    asks_for_main,
    changes,
    defines,
    hooks,
    is_constant,
    sets,
)

MAGIC = re.compile(r"( *+)([%!]\S|\?|[\w.]++ *+= *+[%!]|[\w.*]++\?{1,2} *+$)")
HARMLESS_CELL_MAGIC = re.compile(r"\A\s*+%%(time|capture)\b[^\n]*")
MOST = 1000
"""Statements of a cell: each of them costs the grader time."""
EVERYTHING = "*"
"""What `from module import *` binds, as no name can."""
FUTURE = "from __future__ import annotations"
"""It holds for all later cells too, as IPython has it."""
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Code:
    """A code cell: the number it is named by, its text, and where it is."""

    number: int
    source: str
    after: bool = False  # behind the test cell

    @property
    def name(self) -> str:
        return f"cell {self.number}"


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement, the lines of its cell that it fills, and whether it defines.

    sets: names of which it sets an item or an attribute; changes: those that it may
    change, where it is not run; hooks: its decorators and bases.
    """

    cell: Code
    kind: type[ast.stmt]
    first: int
    last: int
    text: str
    counts: bool
    binds: frozenset[str]
    uses: frozenset[str]
    sets: frozenset[str]
    changes: frozenset[str]
    hooks: frozenset[str]


def statements(cell: Code, notes: list[str]) -> list[Statement]:
    """The statements of a cell; a note and none where Python cannot read it."""
    source = HARMLESS_CELL_MAGIC.sub("", cell.source, count=1)
    if source.lstrip().startswith("%%"):
        notes.append(f"{cell.name} is left out, for its {quoted(source.strip())}")
        return []
    try:
        source, tree = _parsed(source)
        if len(tree.body) > MOST:
            raise ValueError(f"it has {len(tree.body)} statements, more than {MOST}")
        lines = source.encode().split(b"\n")  # as columns are counted in bytes
        return [s for n in tree.body if not _is_text(n) for s in _read(cell, lines, n)]
    except UNPARSABLE as error:
        notes.append(f"{cell.name} is left out: {why(error, source)}")
        return []


def why(error: BaseException, source: str) -> str:
    """A syntax error in words, with its line."""
    if not isinstance(error, SyntaxError) or not error.lineno:
        return str(error) or f"Python cannot read it ({type(error).__name__})"
    lines = source.split("\n")
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    return f"line {error.lineno}: {error.msg}: {quoted(line.strip())}"


def quoted(text: str) -> str:
    """The first line of a text, shortened, as code."""
    line = text.split("\n")[0]
    return f"`{line[:57]}...`" if len(line) > 60 else f"`{line}`"


def _parsed(source: str) -> tuple[str, ast.Module]:
    """Parse, without IPython's magics where Python alone cannot read the text."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return source, ast.parse(source)
        except SyntaxError:
            source = "\n".join(map(_without_magic, source.split("\n")))
            return source, ast.parse(source)


def _without_magic(line: str) -> str:
    found = MAGIC.match(line)
    return f"{found[1]}..." if found else line


def _read(cell: Code, lines: list[bytes], node: ast.stmt) -> Iterator[Statement]:
    """A statement; and, as statements of their own, those in it that are not run."""
    first, last = _first(node), _last(node)
    mine, left_out = lines[first - 1 : last], []
    if not isinstance(node, AROUND):
        mine[-1] = mine[-1][: node.end_col_offset]
        mine[0] = mine[0][node.col_offset if first == node.lineno else 0 :]
    elif defines(node):
        left_out = list(asides(node))
        for inner in reversed(left_out):
            _replace(mine, first, inner, b"...")
        test = asks_for_main(node)
        if test and test.lineno == test.end_lineno:
            _replace(mine, first, test, b"True")
    yield _statement(cell, node, b"\n".join(mine).decode())
    for inner in left_out:
        yield _statement(cell, inner, ast.unparse(inner))


def _replace(
    lines: list[bytes], number: int, node: ast.stmt | ast.expr, by: bytes
) -> None:
    """Write something else for a node; number: of the first of these lines.

    What follows on its last line goes up to its first one; other lines stay.
    """
    first, last = node.lineno - number, _last(node) - number
    behind = lines[last][node.end_col_offset :]
    lines[first] = lines[first][: node.col_offset] + by + behind
    lines[first + 1 : last + 1] = [b""] * (last - first)


def _first(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def _last(node: ast.stmt | ast.expr) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def _statement(cell: Code, node: ast.stmt, text: str) -> Statement:
    binds, uses = _names(text)
    first, last, counts = _first(node), _last(node), defines(node)
    if isinstance(node, ast.ImportFrom) and node.names[0].name == EVERYTHING:
        binds.add(EVERYTHING)
        text, last = _star(node), first
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        binds |= {FUTURE} if "annotations" in binds else set()
    return Statement(
        *(cell, type(node), first, last, text, counts),
        *map(frozenset, (binds, uses, sets(node), changes(node), hooks(node))),
    )


def _star(node: ast.ImportFrom) -> str:
    """`from module import *` on one line; one that fails costs only its own names."""
    line = ast.unparse(node)
    said = f"{line} fails where submissions are checked:"
    text = f"try:\n {line}\nexcept Exception as e:\n print({said!r}, e)"
    return f"exec({text!r})"


def _names(text: str) -> tuple[set[str], set[str]]:
    """What a statement binds on top, and all names that it takes from there."""
    with warnings.catch_warnings(action="ignore"):
        top = symtable.symtable(text, "a cell", "exec")
    names = top.get_symbols()
    binds = {s.get_name() for s in names if s.is_assigned() or s.is_imported()}
    uses = {s.get_name() for s in names if s.is_referenced()}
    inner = top.get_children()
    while inner:
        table = inner.pop()
        inner += table.get_children()
        uses |= {s.get_name() for s in table.get_symbols() if s.is_global()}
    return binds, uses


def _is_text(node: ast.stmt) -> bool:
    """A statement that is only a string: a comment by another name."""
    constant = getattr(node, "value", None)
    return is_constant(node) and isinstance(getattr(constant, "value", None), str)

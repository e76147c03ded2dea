"""The statements of a cell's top level, with the names that each binds and uses.

Python's own parser and symbol table say what they are; nothing is run.
"""

import ast
import re
import symtable
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

DEFINITIONS = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Pass),
)
MAGIC = re.compile(r"( *+)([%!]\S|\?|[\w.]++ *+= *+[%!]|[\w.*]++\?{1,2} *+$)")
HARMLESS_CELL_MAGIC = re.compile(r"\A\s*+%%(time|capture)\b[^\n]*")
MOST = 1000
"""Statements of a cell: each of them costs the grader time."""
EVERYTHING = "*"
"""What `from module import *` binds, as no name can."""
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
    """A statement, the lines of its cell that it fills, and whether it defines."""

    cell: Code
    first: int
    last: int
    text: str
    counts: bool
    binds: frozenset[str]
    uses: frozenset[str]


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
        lines = source.split("\n")
        return [_statement(cell, lines, n) for n in tree.body if not _is_text(n)]
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


def _statement(cell: Code, lines: list[str], node: ast.stmt) -> Statement:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    assert node.end_lineno is not None and node.end_col_offset is not None
    taken = [line.encode() for line in lines[first - 1 : node.end_lineno]]
    taken[-1] = taken[-1][: node.end_col_offset]  # columns are counted in bytes
    taken[0] = taken[0][node.col_offset if first == node.lineno else 0 :]
    text = b"\n".join(taken).decode()
    binds, uses = _names(text)
    if isinstance(node, ast.ImportFrom) and node.names[0].name == EVERYTHING:
        binds.add(EVERYTHING)
    binds |= {name for target in _targets(node) for name in _subscripted(target)}
    counts = _defines(node) and bool(binds)
    return Statement(
        cell, first, node.end_lineno, text, counts, frozenset(binds), frozenset(uses)
    )


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


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign) else []


def _subscripted(target: ast.expr) -> Iterator[str]:
    """The name of which an assignment changes an item: it counts as bound by it."""
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        yield target.value.id


def _defines(node: ast.stmt) -> bool:
    """Whether it is a definition, or an `if` or `try` of nothing else."""
    if isinstance(node, ast.If):
        return all(map(_defines, node.body + node.orelse))
    if isinstance(node, ast.Try):
        caught = [inner for handler in node.handlers for inner in handler.body]
        return all(map(_defines, node.body + caught + node.orelse + node.finalbody))
    return isinstance(node, DEFINITIONS) or _is_constant(node)


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_text(node: ast.stmt) -> bool:
    """A statement that is only a string: a comment by another name."""
    constant = getattr(node, "value", None)
    return _is_constant(node) and isinstance(getattr(constant, "value", None), str)

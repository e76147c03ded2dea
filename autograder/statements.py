"""The statements of a cell's top level, and the names that each binds, uses, alters.

Python's own parser and symbol table say what they are; nothing is run.
"""

import ast
import re
import symtable
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAGIC = re.compile(r"( *+)([%!]\S|\?|[\w.]++ *+= *+[%!]|[\w.*]++\?{1,2} *+$)")
HARMLESS_CELL_MAGIC = re.compile(r"\A\s*+%%(time|capture)\b[^\n]*")
MOST = 1000
"""Statements of a cell: each of them costs the grader time."""
EVERYTHING = "*"
"""What `from module import *` binds, as no name can; future imports too."""
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)


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
    """A statement and the lines of its cell that it fills.

    alters: names whose values it may change, by setting an item or an attribute, by
    a method or by `global`; where it defines a function, once that is called.
    """

    cell: Code
    kind: type[ast.stmt]
    first: int
    last: int
    text: str
    binds: frozenset[str]
    uses: frozenset[str]
    alters: frozenset[str]
    is_plain_function: bool
    """It runs no more than a `def`, which no decorator sees."""
    modules: tuple[str, ...] = ()
    """The modules that an import names, without what they are in."""


def statements(cell: Code, notes: list[str]) -> list[Statement]:
    """Return the statements of a cell; a note and none where Python cannot read it."""
    source = HARMLESS_CELL_MAGIC.sub("", cell.source, count=1)
    if source.lstrip().startswith("%%"):
        notes.append(
            f"{cell.name} is left out, for its {quoted(source.strip())}: what your "
            "solution uses belongs into a cell without such a line"
        )
        return []
    try:
        source, tree = _parsed(source)
        if len(tree.body) > MOST:
            raise ValueError(f"it has {len(tree.body)} statements, more than {MOST}")
        lines = source.encode().split(b"\n")  # as columns are counted in bytes
        return [_read(cell, lines, n) for n in tree.body if not _is_constant(n)]
    except UNPARSABLE as error:
        notes.append(f"{cell.name} is left out: {_why(error, source)}")
        return []


def quoted(text: str) -> str:
    """Return the first line of a text, shortened, as code."""
    line = text.split("\n")[0]
    return f"`{line[:57]}...`" if len(line) > 60 else f"`{line}`"


def text_of(several: Iterable[Statement]) -> str:
    """Return a cell's statements as text, at the lines where the student has them."""
    text, line = "", 1
    for statement in several:
        if statement.first > line:
            text += "\n" * (statement.first - line)
        elif text:
            text += "; "
        text += statement.text
        line = statement.last
    return text + "\n"


def _why(error: BaseException, source: str) -> str:
    """Return a syntax error in words, with its line."""
    if not isinstance(error, SyntaxError) or not error.lineno:
        return str(error) or f"Python cannot read it ({type(error).__name__})"
    lines = source.split("\n")
    line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
    return f"line {error.lineno}: {error.msg}: {quoted(line.strip())}"


def _parsed(source: str) -> tuple[str, ast.Module]:
    """Parse, without IPython's magics where Python alone cannot read the text."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return source, ast.parse(source)
        except SyntaxError:
            source = "\n".join(map(_without_magic, source.split("\n")))
            return source, ast.parse(source)


def _without_magic(line: str) -> str:
    matched = MAGIC.match(line)
    return f"{matched[1]}..." if matched else line


def _is_constant(node: ast.stmt) -> bool:
    """Return a statement that is only a value: a comment, or what a magic has left."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _read(cell: Code, lines: list[bytes], node: ast.stmt) -> Statement:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    last = node.end_lineno or first
    own_lines = lines[first - 1 : last]
    own_lines[-1] = own_lines[-1][: node.end_col_offset]
    own_lines[0] = own_lines[0][node.col_offset if first == node.lineno else 0 :]
    text = b"\n".join(own_lines).decode()
    binds, uses, declared = _names(text)
    if isinstance(node, ast.ImportFrom) and _binds_unseen(node):
        binds.add(EVERYTHING)
    return Statement(
        *(cell, type(node), first, last, text),
        binds=frozenset(binds),
        uses=frozenset(uses),
        alters=frozenset(declared | (_altered(node) & (binds | uses))),
        is_plain_function=isinstance(node, FUNCTIONS) and not decorators,
        modules=tuple(_modules(node)),
    )


def _binds_unseen(node: ast.ImportFrom) -> bool:
    return node.names[0].name == EVERYTHING or node.module == "__future__"


def _modules(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def _names(text: str) -> tuple[set[str], set[str], set[str]]:
    """Return the names that a cell binds, uses, and binds by `global`."""
    with warnings.catch_warnings(action="ignore"):
        top = symtable.symtable(text, "a cell", "exec")
    names = top.get_symbols()
    binds = {s.get_name() for s in names if s.is_assigned() or s.is_imported()}
    uses = {s.get_name() for s in names if s.is_referenced()}
    declared = set()
    inner = top.get_children()
    while inner:
        table = inner.pop()
        inner += table.get_children()
        uses |= {s.get_name() for s in table.get_symbols() if s.is_global()}
        declared |= {
            s.get_name()
            for s in table.get_symbols()
            if s.is_declared_global() and (s.is_assigned() or s.is_imported())
        }
    return binds, uses, declared


def _altered(node: ast.stmt) -> set[str]:
    """Return the names that `x.a = 1`, `x["a"] += 1`, `del x[0]`, `x.append(1)`,
    `@x.add`, a
    base `x` and `exec(text, x)` begin with, wherever they stand in a statement."""
    names = set[str]()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript | ast.Attribute):
            names |= set() if isinstance(inner.ctx, ast.Load) else _root(inner)
        elif isinstance(inner, ast.Call):
            if isinstance(inner.func, ast.Attribute):
                reads = inner.func.attr in READING
                names |= set() if reads else _root(inner.func)
            elif isinstance(inner.func, ast.Name) and inner.func.id in NAMES_IN_TEXT:
                names |= {name for argument in inner.args for name in _root(argument)}
        for handed in ("decorator_list", "bases"):
            for expression in getattr(inner, handed, []):
                names |= _root(expression)
    return names


READING = ("copy", "count", "get", "index", "items", "keys", "values")
"""Methods of Python's collections that change nothing."""

NAMES_IN_TEXT = ("exec", "setattr", "delattr")
"""Functions of Python's that change what they are given."""


def _root(node: ast.expr) -> set[str]:
    """Return the name that `x.a["b"].c(1)` begins with, `x`.

    No name for what has none.
    """
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()

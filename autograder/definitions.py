"""What a statement is to a program: does it define, what does it change, who is told.

Only the syntax tree is looked at. An `if`, `try` or `with` around a definition is a
definition without the calls in it; a loop is none, as it need not end.
"""

import ast
from collections.abc import Container, Iterator

PLAIN = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.Assign, ast.AnnAssign, ast.AugAssign),
)
AROUND = (ast.If, ast.Try, ast.With)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def defines(node: ast.stmt) -> bool:
    """Whether it is a definition, or an `if`, `try` or `with` around one."""
    if isinstance(node, AROUND):
        return any(map(defines, _inner(node)))
    is_walrus = isinstance(node, ast.Expr) and isinstance(node.value, ast.NamedExpr)
    return isinstance(node, PLAIN) or is_walrus


def asides(node: ast.stmt) -> Iterator[ast.stmt]:
    """What in an `if`, `try` or `with` around a definition is none: it is not run."""
    for inner in _inner(node):
        if defines(inner):
            yield from asides(inner)
        elif not (isinstance(inner, ast.Pass) or is_constant(inner)):
            yield inner


def _inner(node: ast.stmt) -> list[ast.stmt]:
    if isinstance(node, ast.Try):
        caught = [inner for handler in node.handlers for inner in handler.body]
        return node.body + caught + node.orelse + node.finalbody
    if isinstance(node, ast.If):
        return node.body + node.orelse
    return node.body if isinstance(node, ast.With) else []


def is_constant(node: ast.stmt) -> bool:
    """A statement that is only a value, as `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def asks_for_main(node: ast.stmt) -> ast.expr | None:
    """The condition of `if __name__ == "__main__":`, which holds in a notebook."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return None
    sides = [node.test.left, *node.test.comparators]
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    texts = [side.value for side in sides if isinstance(side, ast.Constant)]
    is_equal = [type(operator) for operator in node.test.ops] == [ast.Eq]
    asks = is_equal and names == ["__name__"] and texts == ["__main__"]
    return node.test if asks else None


def sets(node: ast.stmt) -> set[str]:
    """Names of which an assignment in it, where run, sets an item or an attribute."""
    return _set(_here(node, {id(inner) for inner in asides(node)}))


def _set(nodes: Iterator[ast.AST]) -> set[str]:
    found = set()
    for inner in nodes:
        is_target = isinstance(getattr(inner, "ctx", None), ast.Store)
        if is_target and isinstance(inner, ast.Subscript | ast.Attribute):
            found |= root(inner)
    return found


def changes(node: ast.stmt) -> set[str]:
    """Names that a statement may change: `x.append(1)`, `exec(text, x)`, `x[0] = 1`."""
    found = _set(_here(node))
    for inner in _here(node):
        if not isinstance(inner, ast.Call):
            continue
        if isinstance(inner.func, ast.Attribute):
            found |= root(inner.func)
        elif isinstance(inner.func, ast.Name) and inner.func.id == "exec":
            found |= {name for given in inner.args[1:] for name in root(given)}
    return found


def hooks(node: ast.stmt) -> set[str]:
    """Names that a function or class is handed to: its decorators and its bases."""
    found = [*getattr(node, "decorator_list", []), *getattr(node, "bases", [])]
    if isinstance(node, ast.ClassDef):
        found += [keyword.value for keyword in node.keywords]
    return {name for expression in found for name in root(expression)}


def root(node: ast.expr) -> set[str]:
    """The name that `x.a["b"].c(1)` begins with, `x`; no name for what has none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _here(node: ast.stmt, without: Container[int] = ()) -> Iterator[ast.AST]:
    """A statement and what is in it, without these and what runs at another time."""
    left: list[ast.AST] = [node]
    while left:
        inner = left.pop()
        yield inner
        if not isinstance(inner, SCOPES) and id(inner) not in without:
            left += ast.iter_child_nodes(inner)

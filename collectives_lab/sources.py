"""The source of a function, and of all that it needs, as one text.

`Sources(fn)` follows the names that a function uses: what stands in the same notebook
or file comes as source, what can be imported as an import, plain values as they are
written. Here `literal` writes such a value.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import linecache
import math
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch

from collectives_lab.launch.errors import LabError

ALWAYS = ["import datetime", "import os", "import subprocess", "import sys"]
ALWAYS += ["import torch", "import torch.distributed as dist"]
ALWAYS += ["import collectives_lab as lab"]
"""What the script itself uses."""

_PUBLIC = ("torch.distributed", "torch", "math", "collectives_lab")
"""Modules to import a name from, before the one where it was made."""

_RESERVED = {"read_slurm", "join", "main", "SLURM", "TIMEOUT"}
_RESERVED |= {"datetime", "os", "subprocess", "sys", "torch", "dist", "lab"}
"""Names that the script has for itself."""


class Sources:
    """What a function needs, in an order in which it can be executed."""

    def __init__(self, fn: Callable[..., Any]):
        """Follow `fn`; LabError names what has no source."""
        if not isinstance(fn, types.FunctionType) or fn.__name__ == "<lambda>":
            raise LabError(
                f"{fn!r} cannot be written as source; export takes a function that is "
                "defined by def"
            )
        self.home = fn.__module__
        self._imports: set[str] = set()
        self._pieces: list[str] = []
        self._known: dict[str, Any] = {}
        self._take(fn.__name__, fn)

    def imports(self) -> str:
        """The import lines, Python's own packages first, then the others."""
        lines = self._imports | set(ALWAYS)
        own = {line for line in lines if _root(line) in sys.stdlib_module_names}
        return "\n".join(
            [*sorted(own, key=_order), "", *sorted(lines - own, key=_order)]
        )

    def text(self) -> str:
        """The definitions, two empty lines between them."""
        return "\n\n\n".join(self._pieces)

    def _take(self, name: str, value: Any) -> None:
        """Bring a value along under its name."""
        if name in self._known:
            if self._known[name] is not value:
                raise LabError(f"two things are called {name!r}; rename one of them")
            return
        line = _import_of(name, value)
        if name in _RESERVED and line not in ALWAYS:
            raise LabError(f"the script has a {name!r} of its own; rename this one")
        self._known[name] = value
        if getattr(value, "__module__", None) == self.home and _is_definition(value):
            self._define(name, value)
        elif line:
            self._imports.add(line)
        else:
            self._pieces.append(f"{name} = {literal(name, value)}")

    def _define(self, name: str, value: Any) -> None:
        source = _source_of(name, value)
        for other, needed, is_hint in _needs(value, source):
            # Nothing breaks where the name of a type in a hint is missing.
            with suppress(*[LabError] * is_hint):
                self._take(other, needed)
        self._pieces.append(source)
        if name != value.__name__:
            self._pieces.append(f"{name} = {value.__name__}")


def _root(line: str) -> str:
    return line.split()[1].split(".")[0]


def _order(line: str) -> tuple[bool, str]:
    """Whole modules first, by name."""
    return line.startswith("from"), line


def _as(path: str, name: str) -> str:
    head, _, last = path.rpartition(".")
    return f"from {head} import {last}" if last == name else f"import {path} as {name}"


def _is_definition(value: Any) -> bool:
    return isinstance(value, (types.FunctionType, type))


def _import_of(name: str, value: Any) -> str:
    """The line that imports a value by a name; empty if it cannot be imported."""
    if isinstance(value, types.ModuleType):
        path = value.__name__
        return f"import {path}" if path == name else _as(path, name)
    called = getattr(value, "__name__", name)
    for module in (*_PUBLIC, getattr(value, "__module__", None)):
        if module in (None, "__main__"):
            continue
        with suppress(ImportError):
            if getattr(importlib.import_module(module), called, None) is value:
                if isinstance(value, (int, float, str, tuple)):
                    return ""  # equal by chance: a small number is one object
                renamed = f" as {name}" if name != called else ""
                return f"from {module} import {called}{renamed}"
    return ""


def _source_of(name: str, value: Any) -> str:
    try:
        found = inspect.getsource(value)
    except (OSError, TypeError):
        found = _class_in_cell(value)
    if not found:
        raise LabError(
            f"the source of {name} is not to be found; define it in a cell or a file"
        )
    return textwrap.dedent(found).strip()


def _class_in_cell(value: Any) -> str:
    """The source of a class of a notebook, which inspect does not find."""
    files = {
        member.__code__.co_filename
        for member in vars(value).values()
        if isinstance(member, types.FunctionType)
    }
    for file in files:
        source = "".join(linecache.getlines(file))
        with suppress(SyntaxError):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.ClassDef) and node.name == value.__name__:
                    above = [n.lineno for n in node.decorator_list]
                    first = min([node.lineno, *above])
                    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    return ""


def _needs(value: Any, source: str) -> Iterator[tuple[str, Any, bool]]:
    """Every name from outside that a definition uses, its value, if only as a hint."""
    outside = dict(vars(sys.modules[value.__module__]))
    if isinstance(value, types.FunctionType):
        value = inspect.unwrap(value)
        outside |= value.__globals__ | inspect.getclosurevars(value).nonlocals
        used = set(_globals_of(value.__code__)) | set(value.__code__.co_freevars)
    else:
        used = {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name)}
    hints = set(_names_of_head(source)) - used
    for name in sorted(used | hints):
        if name in outside:
            yield name, outside[name], name in hints


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Names that code, and code within it, looks up outside of itself."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _names_of_head(source: str) -> Iterator[str]:
    """Names in a definition's decorators, defaults and annotations."""
    definition = ast.parse(source).body[0]
    for field, part in ast.iter_fields(definition):
        if field != "body":
            for item in part if isinstance(part, list) else [part]:
                if isinstance(item, ast.AST):
                    for node in ast.walk(item):
                        if isinstance(node, ast.Name):
                            yield node.id


def literal(name: str, value: Any) -> str:
    """A value as Python writes it; LabError for what has no such form."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or type(value) in (bool, int, float, complex, str, bytes, range):
        return repr(value)
    if isinstance(value, torch.dtype):
        return repr(value)
    if type(value) in (list, tuple, set, frozenset):
        inside = [literal(f"an element of {name}", v) for v in value]
        return _collected(value, inside)
    if type(value) is dict:
        pairs = [
            f"{literal(f'a key of {name}', k)}: {literal(f'{name}[{k!r}]', v)}"
            for k, v in value.items()
        ]
        return f"{{{', '.join(pairs)}}}"
    raise LabError(
        f"{name} is a {type(value).__name__}, which has no form as source; make it "
        "inside the function"
    )


def _collected(value: Any, inside: list[str]) -> str:
    text = ", ".join(inside)
    if isinstance(value, list):
        return f"[{text}]"
    if isinstance(value, tuple):
        return f"({text}{',' * (len(inside) == 1)})"
    if isinstance(value, set) and inside:
        return f"{{{text}}}"
    return (
        f"{type(value).__name__}([{text}])" if inside else f"{type(value).__name__}()"
    )

"""The source of a function, and of all that it needs, as one text.

`Sources(fn)` follows the names that a function uses: what stands in the same notebook
or file comes as source, what can be imported as an import, plain values as they are
written (`literals`); some of them bring their class along.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import itertools
import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from collectives_lab.launch.errors import LabError
from collectives_lab.literals import literal

ALWAYS = ["import datetime", "import os", "import subprocess", "import sys"]
ALWAYS += ["import torch", "import torch.distributed as dist"]
ALWAYS += ["import collectives_lab as lab"]
"""What the script itself uses."""

FUTURE = "from __future__ import annotations\n"
"""With which the script begins."""

_RESERVED = {"read_slurm", "join", "main", "SLURM", "TIMEOUT"}
_RESERVED |= {"datetime", "os", "subprocess", "sys", "torch", "dist", "lab"}
"""Names that the script has for itself."""

_OF_A_MODULE = {"__annotations__", "__builtins__", "__cached__", "__doc__", "__file__"}
_OF_A_MODULE |= {"__loader__", "__name__", "__package__", "__spec__"}
"""Names that every module has, the script too: not the reader's."""

_LOOKS_OUTSIDE = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
"""Instructions that take a name from outside of a function or a class."""


class Sources:
    """What a function needs, in an order in which it can be executed."""

    def __init__(self, fn: Callable[..., Any]):
        """Follow `fn`; LabError names what has no source."""
        if not isinstance(fn, types.FunctionType) or fn.__name__ == "<lambda>":
            raise LabError(
                f"{fn!r} cannot be written as source; export takes a function that is "
                "defined by def, and what it is called with as args=[...]"
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

    def modules(self) -> set[str]:
        """The packages that the import lines begin at."""
        return {_root(line) for line in self._imports | set(ALWAYS)}

    def text(self) -> str:
        """The definitions, two empty lines between them."""
        return "\n\n\n".join(self._pieces)

    def try_out(self) -> None:
        """Define it all once; LabError where a name comes too late or never."""
        code = compile(f"{FUTURE}{self.imports()}\n{self.text()}", "script", "exec")
        try:
            exec(code, {"__name__": self.home})
        except NameError as error:
            raise LabError(
                f"the script would end at once: {error}. Two things need each other to "
                "be made, or a default is from inside of a function; make them inside "
                "the function"
            ) from None
        except Exception:
            return  # what is refused here may be so for being there already

    def _take(self, name: str, value: Any) -> None:
        """Bring a value along under its name."""
        if name in self._known:
            if self._known[name] is not value:
                raise LabError(
                    f"two things are called {name!r}; rename one of them, or write "
                    "@functools.wraps(fn) in the decorator that makes one of the other"
                )
            return
        line = self._import_of(name, value)
        if name in _RESERVED and line not in ALWAYS:
            raise LabError(f"the script has a {name!r} of its own; rename this one")
        if name == "get_ipython":
            raise LabError("a line with % or ! is for IPython, not for a script")
        self._known[name] = value
        if self._is_from_home(value):
            self._define(name, value)
        elif line:
            self._imports.add(line)
        else:
            self._pieces.append(f"{name} = {self.literal(name, value)}")

    def _import_of(self, name: str, value: Any) -> str:
        """As `_import_of`, but for what is from home: the script brings that along."""
        line = _import_of(name, value)
        return "" if line.startswith(f"from {self.home} import ") else line

    def _is_from_home(self, value: Any) -> bool:
        is_here = getattr(value, "__module__", None) == self.home
        return is_here and _is_definition(value)

    def _define(self, name: str, value: Any) -> None:
        if value.__name__ not in (name, "<lambda>"):
            self._take(value.__name__, value)
            self._pieces.append(f"{name} = {value.__name__}")
            return
        source = _source_of(name, value)
        for other, needed, is_hint in _needs(value, source):
            if is_hint:
                self._take_if_it_goes(other, needed)
            else:
                self._take(other, needed)
                if isinstance(needed, types.ModuleType):
                    self._imports |= _submodules(other, source, self.home)
        self._pieces.append(source)

    def literal(self, name: str, value: Any) -> str:
        """A value as Python writes it; what its text names comes along."""
        return literal(name, value, self._named)

    def _named(self, value: Any) -> str:
        """What the script calls a function, a class or a module; empty for others."""
        has_a_name = isinstance(value, (types.FunctionType, types.ModuleType, type))
        name = value.__name__ if has_a_name else ""
        if not name.isidentifier():  # as that of a lambda is not
            return ""
        if not self._is_from_home(value) and not self._import_of(name, value):
            return ""
        self._take(name, value)
        return name

    def _take_if_it_goes(self, name: str, value: Any) -> None:
        """Nothing breaks where the name of a type in a hint is missing."""
        kept = self._imports.copy(), self._pieces.copy(), self._known.copy()
        try:
            self._take(name, value)
        except LabError:
            self._imports, self._pieces, self._known = kept


def _root(line: str) -> str:
    return line.split()[1].split(".")[0]


def _order(line: str) -> tuple[bool, str]:
    """Whole modules first, by name."""
    return line.startswith("from"), line


def _as(path: str, name: str) -> str:
    head, _, last = path.rpartition(".")
    return f"from {head} import {last}" if last == name else f"import {path} as {name}"


def _is_definition(value: Any) -> bool:
    if isinstance(value, type):
        return True
    inner = getattr(value, "__wrapped__", value)  # of a cache, which is no function
    return callable(value) and isinstance(inner, types.FunctionType)


def _submodules(name: str, source: str, home: str) -> set[str]:
    """The reader's lines `import name.other` whose `name.other` a source uses."""
    return {
        f"import {alias.name}"
        for text in _written(home)
        for node in _nodes(text, ast.Import)
        for alias in node.names
        if alias.asname is None
        and alias.name.startswith(f"{name}.")
        and alias.name in source
    }


def _written(home: str) -> list[str]:
    """What the reader has written: the cells of a notebook, the last first, or a file.

    IPython keeps the cells in `In`.
    """
    module = sys.modules.get(home)
    if home == "__main__" and isinstance(cells := getattr(module, "In", None), list):
        return cells[::-1]
    with suppress(OSError, TypeError):
        return [inspect.getsource(module)]  # type: ignore[arg-type]
    return []


def _nodes(text: str, kind: type) -> list[Any]:
    """All nodes of a kind in a source; none where it is no Python."""
    with suppress(SyntaxError):
        return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kind)]
    return []


def _import_of(name: str, value: Any) -> str:
    """The line that imports a value by a name; empty if it cannot be imported."""
    if isinstance(value, types.ModuleType):
        path = value.__name__
        return f"import {path}" if path == name else _as(path, name)
    called = getattr(value, "__name__", name)
    for path in _modules_of(value):
        with suppress(ImportError):
            module = importlib.import_module(path)
            is_told = called in getattr(module, "__all__", [called])
            if not is_told and path != value.__module__:
                continue
            if getattr(module, called, None) is value:
                if isinstance(value, (int, float, str, tuple)):
                    return ""  # equal by chance: a small number is one object
                renamed = f" as {name}" if name != called else ""
                return f"from {path} import {called}{renamed}"
    return ""


def _modules_of(value: Any) -> list[str]:
    """The module that a value is from, after the packages that this one is in."""
    path = getattr(value, "__module__", None)
    if not isinstance(path, str) or path == "__main__":
        return []
    return list(itertools.accumulate(path.split("."), "{}.{}".format))


def _source_of(name: str, value: Any) -> str:
    try:
        found = inspect.getsource(value)
    except (OSError, TypeError):
        found = _class_in_cell(value)
    if not found:
        raise LabError(
            f"the source of {name} is not to be found; define it by def or class in a "
            "cell or a file"
        )
    source = textwrap.dedent(found).strip()
    try:
        compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise LabError(
            f"the source of {name} does not stand alone ({error.msg}); define it "
            "outside of other functions"
        ) from None
    if not isinstance(value, type):
        _check_makes(name, value, ast.parse(source).body[0])
    return source


def _check_makes(name: str, value: Any, node: ast.AST) -> None:
    """LabError where a source makes something else than this function."""
    if value.__name__ == "<lambda>":
        is_it = isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        if is_it and ast.unparse(node).startswith(f"{name} = lambda"):
            return
        raise LabError(f"{name} is a lambda; write it by def")
    is_wrapped = hasattr(value, "__wrapped__")
    is_decorated = bool(getattr(node, "decorator_list", ()))
    is_kept = inspect.unwrap(value).__globals__.get(value.__name__) is value
    if is_wrapped != is_decorated and not (is_decorated and is_kept):
        raise LabError(
            f"the source of {value.__name__} does not show what is wrapped round it; "
            "write the decorator with @ above its def, and @functools.wraps(fn) above "
            "the function in the decorator"
        )


def _class_in_cell(value: Any) -> str:
    """The source of a class of a notebook, which inspect does not find."""
    files = {
        member.__code__.co_filename
        for member in vars(value).values()
        if isinstance(member, types.FunctionType)
    }
    cells = ["".join(linecache.getlines(file)) for file in files]
    for source in [*cells, *_written(value.__module__)]:
        for node in reversed(_nodes(source, ast.ClassDef)):
            if node.name == value.__name__:
                above = [n.lineno for n in node.decorator_list]
                first = min([node.lineno, *above])
                return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    return ""


def _needs(value: Any, source: str) -> Iterator[tuple[str, Any, bool]]:
    """Every name from outside that a definition uses, its value, if only as a hint."""
    outside = _outside(value)
    # As in the script, where a hint is no code.
    used = set(_names(FUTURE + source))
    hints = set(_names(source)) - used
    for name in sorted((used | hints) & outside.keys() - _OF_A_MODULE):
        yield name, outside[name], name in hints


def _outside(value: Any) -> dict[str, Any]:
    """What a definition finds in its module, and in the functions round it."""
    if isinstance(value, types.FunctionType):
        functions = [inspect.unwrap(value)]
        found = dict(functions[0].__globals__)
    else:
        members = vars(value).values()
        functions = [m for m in members if isinstance(m, types.FunctionType)]
        found = dict(vars(sys.modules[value.__module__]))
    for function in functions:
        found |= inspect.getclosurevars(function).nonlocals
    return found


def _names(source: str) -> Iterator[str]:
    """Names that a definition looks up outside of itself."""
    yield from _names_in(compile(source, "<source>", "exec", dont_inherit=True))


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Names that code, and code within it, looks up outside of itself."""
    own = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_NAME":
            own.add(instruction.argval)
        elif instruction.opname in _LOOKS_OUTSIDE and instruction.argval not in own:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)

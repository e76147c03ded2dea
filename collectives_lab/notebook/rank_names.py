"""The names of variables on ranks, for completion, Shift-Tab and NameErrors.

Here completion and Shift-Tab in a `%%ranks` cell know the variables of the ranks and
the options of its line, and a NameError in a normal cell says that the name lives on
the ranks. Rank 0 is asked; while no ranks stand, only torch and dist are known.
"""

from __future__ import annotations

import ast
import contextlib
import html
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from collectives_lab.launch import LabError, Ranks
from collectives_lab.notebook.options import BACKENDS
from collectives_lab.notebook.rank_groups import RankGroups

PATIENCE = 2.0
"""Seconds in which rank 0 must answer."""

# `dir` may be a variable of the ranks; it reads no property, and some of them raise.
_ATTRIBUTES = "__import__('builtins').dir({owner})"
_KEYS = "{owner}.keys()"
_VARIABLES = "globals()"
_JOINED = "'\\n'.join(name for name in {names} if isinstance(name, str))"

_BODY = re.compile(r"^\s*%%ranks\b", re.MULTILINE)
_LINE = re.compile(r"\s*(%%?ranks)\s")
_VALUE = re.compile(r"\s(--[a-z]+)(?:=|\s+)\S*$")
_IMPORT = re.compile(r"\s*(?:from|import)\s")
_PATH = re.compile(r"(?<![\w.])(?:([^\W\d][\w.]*)\.)?(\w*)$")
_KEY = re.compile(r"(?<![\w.])([^\W\d][\w.]*)\[['\"]([^'\"]*)$")

_DESCRIBE = """
def _described(value):
    import inspect
    if not callable(value):
        return f"On rank 0, {{type(value).__name__}}:\\n{{value!r}}"[:2000]
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = "(...)"
    return f"{name}{{signature}}\\n\\n{{inspect.getdoc(value) or ''}}"
display(_described({name}))
del _described
"""
_HAS = "display({name!r} in globals())"


class Completions(NamedTuple):
    """What the end of a line may go on to be, and whether it can be nothing else."""

    end: str
    texts: list[str]
    are_all: bool


class RankNames:
    """The names on the ranks of a notebook's groups, for its shell.

    words: by the name of a magic, the options and actions of its line.
    """

    def __init__(self, shell: Any, groups: RankGroups, words: Mapping[str, list[str]]):
        self._shell = shell
        self._groups = groups
        self._words = words
        self._inspect = shell.object_inspect_mime
        self._matcher: Any = None

    def attach(self) -> None:
        """Let the shell ask here too."""
        self._shell.events.register("post_run_cell", self._hint)
        self._shell.object_inspect_mime = self._inspect_too
        with contextlib.suppress(ImportError):  # Colab has an older IPython
            self._matcher = _matcher(self)
            self._shell.Completer.custom_matchers.append(self._matcher)

    def detach(self) -> None:
        """Leave the shell as it was."""
        self._shell.events.unregister("post_run_cell", self._hint)
        self._shell.object_inspect_mime = self._inspect
        if self._matcher is not None:
            self._shell.Completer.custom_matchers.remove(self._matcher)

    def complete(self, above: str, line: str) -> Completions | None:
        """Complete a line, up to the cursor, with the lines above it in its cell."""
        if _BODY.search(above):
            return self._complete_code(line)
        magic = _LINE.match(line)
        return self._complete_options(magic[1], line) if magic else None

    def _complete_options(self, magic: str, line: str) -> Completions:
        """Complete an option or action of a magic, or the value of an option."""
        words: Iterable[str] = self._words[magic]
        option = _VALUE.search(line)
        if option and option[1] == "--backend":
            words = BACKENDS
        elif option and option[1] in ("--push", "--cluster", "--fabric"):
            names = self._shell.user_ns.keys() - self._shell.user_ns_hidden.keys()
            words = [name for name in names if not name.startswith("_")]
        elif option and option[1] in ("--on", "--timeout"):
            words = []
        end = re.split(r"[\s=,]", line)[-1]
        return Completions(end, [word for word in words if word.startswith(end)], True)

    def _complete_code(self, line: str) -> Completions | None:
        """Complete a variable of the ranks, or an attribute or a key of one."""
        if _IMPORT.match(line):  # IPython knows the packages, which are those here
            return None
        if key := _KEY.search(line):
            names = self._list(_KEYS.format(owner=key[1]))
            if names is None:
                return None
            texts = [name for name in names if name.startswith(key[2])]
            return Completions(key[2], texts, True)
        path = _PATH.search(line)
        if path is None or not path[0]:
            return None
        owner, start = path[1], path[2]
        if owner is None:
            names = self._list(_VARIABLES) or []
            return Completions(start, _beginning(names, start), False)
        names = self._list(_ATTRIBUTES.format(owner=owner))
        if names is None:
            return None
        texts = [f"{owner}.{name}" for name in _beginning(names, start)]
        return Completions(path[0], texts, True)

    def _list(self, names: str) -> list[str] | None:
        """Return the names that code lists on rank 0; None if it cannot be run."""
        code = _JOINED.format(names=names)
        text = self._ask(self._ranks(), f"display({code})")
        if text is None:
            with contextlib.suppress(Exception):
                text = eval(code, {"torch": torch, "dist": dist})
        return None if text is None else text.splitlines()

    def _inspect_too(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what is shown of a name: of the notebook, or else of the ranks."""
        try:
            return self._inspect(name, *args, **kwargs)
        except KeyError:
            text = None
            if re.fullmatch(r"[^\W\d][\w.]*", name):
                text = self._ask(self._ranks(), _DESCRIBE.format(name=name))
            if text is None:
                raise
            page = f"<pre>{html.escape(text)}</pre>"  # IPython expects one
            return {"text/plain": text, "text/html": page}

    def _hint(self, result: Any) -> None:
        """Say after a NameError that the ranks have a variable of the name."""
        error = result.error_in_exec
        if not isinstance(error, NameError) or not error.name:
            return
        for size, group in self._groups:
            if self._ask(group.ranks, _HAS.format(name=error.name)):
                print(
                    f"`{error.name}` is a variable of the ranks: `%%ranks {size}` "
                    "above a cell runs it there.",
                    file=sys.stderr,
                )
                return

    def _ranks(self) -> Ranks | None:
        return self._groups.find(self._groups.size)

    def _ask(self, ranks: Ranks | None, code: str) -> Any:
        """Return what rank 0 displays; None if it cannot be asked."""
        answers: list[Any] = []
        if ranks is None or not ranks.alive:
            return None

        def take(_: list[int], bundle: dict[str, Any]) -> None:
            answers.append(ast.literal_eval(bundle["text/plain"]))

        with contextlib.suppress(LabError):  # busy, or there is no such name
            ranks.execute(code, [0], PATIENCE, "<names>", quiet=True, display=take)
        return answers[0] if answers else None


def _beginning(names: Iterable[str], start: str) -> list[str]:
    """Return the names with this start; those with `_` only if it has one too."""
    texts = [name for name in names if name.startswith(start)]
    if start.startswith("_"):
        return texts
    return [text for text in texts if not text.startswith("_")]


def _matcher(names: RankNames) -> Any:
    """Return `names.complete` in the form in which IPython asks for it."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher(priority=1000)  # before all those that it may suppress
    def match(context: Any) -> Any:
        lines = context.full_text.split("\n")[: context.cursor_line]
        matched = names.complete("\n".join(lines), context.text_until_cursor)
        if matched is None:
            return {"completions": []}
        # A tensor has more names than IPython shows: the longest are left out.
        texts = sorted(matched.texts, key=len)[: context.limit]
        if matched.are_all and not texts:
            texts = [matched.end]  # only a matcher with a completion suppresses others
        return {
            "completions": [SimpleCompletion(text) for text in texts],
            "matched_fragment": matched.end,
            "suppress": matched.are_all,
        }

    return match

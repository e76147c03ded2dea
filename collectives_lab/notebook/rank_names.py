"""The names on the ranks, wherever a notebook wants names.

Here completion and Shift-Tab in a `%%ranks` cell know the variables of the ranks and
the options of its line, and a NameError in a normal cell says that the name lives on
the ranks. Rank 0 is asked; while no ranks stand, only torch and dist are known.
"""

from __future__ import annotations

import ast
import contextlib
import html
import re
import rlcompleter
import sys
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.launch import LabError, Ranks
from collectives_lab.notebook.rank_groups import RankGroups

PATIENCE = 2.0
"""Seconds in which rank 0 must answer."""

_COMPLETE = """
def _completed(text):
    completer = __import__("rlcompleter").Completer(globals())
    find = completer.attr_matches if "." in text else completer.global_matches
    return sorted(set(find(text)))
display(_completed({name!r}))
del _completed
"""
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


class RankNames:
    """The names on the ranks of a notebook's groups, for its shell.

    options: those of the line of a `%%ranks` cell.
    """

    def __init__(self, shell: Any, groups: RankGroups, options: list[str]):
        self._shell = shell
        self._groups = groups
        self._options = options
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

    def complete(self, cell: str, line: int, name: str) -> list[str]:
        """List what a name in a line of a cell may go on to be."""
        if not cell.lstrip().startswith("%%ranks"):
            return []
        if line == 0:
            return [option for option in self._options if option.startswith(name)]
        if not re.fullmatch(r"[\w.]+", name):
            return []
        texts = self._ask(self._ranks(), _COMPLETE.format(name=name))
        if texts is None:
            completer = rlcompleter.Completer({"torch": torch, "dist": dist})
            find = completer.attr_matches if "." in name else completer.global_matches
            texts = find(name)
        return [text.rstrip("()") for text in texts]

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


def _matcher(names: RankNames) -> Any:
    """Return `names.complete` in the form in which IPython asks for it."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher()
    def match(context: Any) -> Any:
        texts = names.complete(context.full_text, context.cursor_line, context.token)
        return {"completions": [SimpleCompletion(text) for text in texts]}

    return match

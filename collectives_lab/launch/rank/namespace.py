"""The variables that stay on a rank from cell to cell, and what runs among them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.launch.rank import mime
from collectives_lab.recorder.reader_traceback import Unsendable


class Namespace:
    """A rank's variables: those it begins with, torch, dist, and those of cells.

    variables: those it begins with; `display` among them shows figures.
    """

    def __init__(self, variables: Mapping[str, Any]):
        self._initial = {
            "__name__": "__main__",
            "torch": torch,
            "dist": dist,
            **variables,
        }
        self._variables = dict(self._initial)

    def execute(self, source: str, file: str, quiet: bool) -> dict[str, Any] | None:
        """Run a cell; return how its last expression looks, unless quiet.

        A variable it began with is there again, if an earlier cell has deleted it.
        """
        for name, value in self._initial.items():
            self._variables.setdefault(name, value)
        lines = source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)
        tree = ast.parse(source, file)
        last = None
        if not quiet and tree.body and isinstance(end := tree.body[-1], ast.Expr):
            last = ast.Expression(end.value)
            del tree.body[-1]
        # Not ours: a cell has the __future__ that it imports itself.
        exec(compile(tree, file, "exec", dont_inherit=True), self._variables)
        value = None
        if last is not None:
            code = compile(last, file, "eval", dont_inherit=True)
            value = eval(code, self._variables)
        if value is not None:
            self._variables["_"] = value
        mime.publish_figures(self._initial["display"])
        return None if value is None else mime.bundle(value)

    def push(self, variables: Mapping[str, Any]) -> None:
        """Set variables."""
        self._variables.update(variables)

    def pull(self, names: list[str]) -> list[Any]:
        """Return the values of variables.

        Raises Unsendable for one that is not there.
        """
        for name in names:
            if name not in self._variables:
                raise Unsendable(
                    f"there is no variable {name!r}; set it by execute or push first"
                )
        return [self._variables[name] for name in names]

"""The `collectives_lab` inside the box: enough to import, nothing that solves.

A student's cells begin with `import collectives_lab as lab`, and that never fails. What
would run processes, or holds the answer to an exercise, says so when it is asked for.
There are `basics.units`, `checking.constants`, `compute(seconds)`, which declares
computing and does none, and `ask(number, value)`, by which an exercise's own functions
are called that live outside.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from collectives_lab.basics import own_cluster
from collectives_lab.wire.group import ask, compute

SOLVES = ("algorithms", "check", "checking", "costs", "parallel", "plans")
OFFERED = ("basics", "basics.units")
"""Modules that are there; those who start us import them beforehand."""


def _why_not(name: str) -> str:
    if name in SOLVES:
        return (
            f"collectives_lab.{name} is not there while an exercise is checked: it "
            "holds what is asked for. Use torch.distributed"
        )
    return (
        f"collectives_lab.{name} is not there while an exercise is checked: leave it "
        "out of what the exercise's functions need"
    )


class _Checking(ModuleType):
    """`lab.checking` in the box: the constants of one's own, and no checking."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ImportError(_why_not("check"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(_why_not("check"))


class _Refusing(importlib.abc.MetaPathFinder):
    """A finder that refuses the modules of this package, with the reason.

    Python asks finders, and no `__getattr__`, for `import collectives_lab.plans`.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package == "collectives_lab":
            raise ImportError(_why_not(name))
        return None


def put_on() -> None:
    """Replace the package, in this process, by what a student may use of it."""
    offered = ModuleType("collectives_lab")
    for name in [n for n in sys.modules if n.split(".")[0] == "collectives_lab"]:
        module = sys.modules.pop(name)
        if name.removeprefix("collectives_lab.") in OFFERED:
            sys.modules[name] = module
    offered.basics = sys.modules["collectives_lab.basics"]  # type: ignore[attr-defined]
    offered.__path__ = []
    offered.compute, offered.ask = compute, ask  # type: ignore[attr-defined]
    checking = _Checking(f"{offered.__name__}.checking")
    checking.constants = own_cluster.constants  # type: ignore[attr-defined]
    offered.check = offered.checking = checking  # type: ignore[attr-defined]

    def missing(name: str) -> Any:
        if name in SOLVES:
            raise ImportError(_why_not(name))
        raise AttributeError(_why_not(name))

    offered.__getattr__ = missing  # type: ignore[method-assign]
    sys.modules["collectives_lab"] = offered
    sys.meta_path.insert(0, _Refusing())

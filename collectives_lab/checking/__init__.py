"""The check of a solution as the grader makes it: on sealed ranks, by its messages.

`lab.check("ring_all_reduce", ring_all_reduce)` in a notebook returns a `Report`, and
`python -m collectives_lab check ring_all_reduce file.py` prints the same report. The
autograder calls `grade`, which uses the same engine, so a check predicts the grade.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping
from typing import Any

from collectives_lab.basics.own_cluster import constants
from collectives_lab.checking.engine import NotGradable, examine, versions
from collectives_lab.checking.exercises import EXERCISES
from collectives_lab.checking.report import Finding, Report
from collectives_lab.checking.spec import Exercise
from collectives_lab.wire import Box, BoxError, Program

__all__ = [
    "EXERCISES",
    "Exercise",
    "Finding",
    "NotGradable",
    "Report",
    "check",
    "close",
    "constants",
    "grade",
    "versions",
]

SELF_CHECK_TIERS = ("C", "D")
"""A reader's own code needs no outer sandbox; the seal gives it the same limits."""


def find(name: str) -> Exercise:
    """Return the exercise of this name; ValueError lists the names that there are."""
    if name not in EXERCISES:
        raise ValueError(f"no exercise {name!r}; there are {', '.join(EXERCISES)}")
    return EXERCISES[name]


def check(
    name: str,
    solution: Callable | Mapping[str, Any],
    *,
    seed: str | int = 0,
    student: str = "",
) -> Report:
    """Check a solution of the exercise `name` and return the report.

    solution: the function, or, where an exercise asks for several names, a dict of
    them. seed: another one gives other inputs. student: for exercises with constants of
    one's own. Takes about a second, and two more the first time. Raises ValueError for
    an unknown exercise, TypeError for a solution that is none.
    """
    exercise = find(name)
    named = dict(solution) if isinstance(solution, Mapping) else {name: solution}
    if not isinstance(solution, Mapping) and not callable(solution):
        raise TypeError(
            f"the solution of {name} is {type(solution).__name__}; need the function"
        )
    if missing := [n for n in exercise.names if n not in named]:
        raise TypeError(f"{name} asks for {', '.join(missing)} too, in a dict by name")
    with _checking:
        return examine(exercise, _packed(name, named), _own_box(), str(seed), student)


def _packed(name: str, named: Mapping[str, Any]) -> Program:
    try:
        return Program.objects(named)
    except Exception as error:  # pickle raises what the object does
        raise TypeError(
            f"the solution of {name} refers to something that cannot be copied to the "
            f"ranks ({error}), such as a lock, an open file or a function of "
            "functools.singledispatch: make it in the function"
        ) from error


def grade(
    name: str,
    program: Program,
    seed: str | int = 0,
    student: str = "",
    box: Box | None = None,
) -> Report:
    """Grade a program and return the report.

    box: an open sandbox; without one, this call opens the best tier that there is.

    The same program, seed and student give the same points, unless a race in the
    program decides. Raises ValueError for an unknown exercise and NotGradable where the
    box does not work.
    """
    exercise = find(name)
    if box is not None:
        return examine(exercise, program, box, str(seed), student)
    try:
        with Box() as own:
            return examine(exercise, program, own, str(seed), student)
    except BoxError as error:
        raise NotGradable(str(error)) from error


_checking = threading.Lock()
_box: Box | None = None


def _own_box() -> Box:
    """Return the box of this process, which is kept warm between checks."""
    global _box
    if _box is None:
        reasons = []
        for tier in SELF_CHECK_TIERS:
            try:
                box = Box(tier)
                box.open()
            except BoxError as error:
                reasons.append(str(error))
            else:
                _box = box
                return box
        raise NotGradable("; ".join(reasons))
    return _box


@atexit.register
def close() -> None:
    """Close the box that `check` keeps warm; the next check opens another one."""
    global _box
    with _checking:
        box, _box = _box, None
        if box is not None:
            box.close()

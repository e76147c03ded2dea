"""The exercises by name. Each is data: a module of this folder with an `EXERCISE`."""

from __future__ import annotations

import importlib
import pkgutil

from collectives_lab.checking.spec import Exercise


def _exercises_by_name() -> dict[str, Exercise]:
    modules = [
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
    ]
    exercises = [m.EXERCISE for m in modules if hasattr(m, "EXERCISE")]
    return {exercise.name: exercise for exercise in exercises}


EXERCISES = _exercises_by_name()

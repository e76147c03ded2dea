"""Collectives Lab: collective communication you can run, record, draw and take apart.

`run(fn, world_size=4)` calls a function on real processes and records what moved,
`Ranks(4)` keeps the processes, and `%load_ext collectives_lab` gives a notebook
`%%ranks`. `check(name, solution)` says what a graded exercise is worth.
`trace.replay(fabric)` says what a run would take on another cluster, and
`predict(verb, nbytes, fabric)` what a call of NCCL takes there; `explain(folder)` says
why a job hangs, from the files that it has left. Each algorithm is there
three times, in `algorithms`, `plans` and `costs`. Plots are in `collectives_lab.plots`,
steppers in `collectives_lab.widgets`. Each name is imported when it is first used, so
what needs no torch works without it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

try:
    import numpy as _numpy  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"collectives_lab needs numpy, which cannot be imported here ({_error}): "
        "`pip install numpy` in the environment of this Python",
        name="numpy",
    ) from None

__version__ = "0.1.0"

_HOME = {
    **dict.fromkeys(("compare", "table"), "basics.tables"),
    **dict.fromkeys(("Event", "Message", "Trace"), "trace"),
    "Timeline": "replay",
    "what_if": "replay.what_if",
    **dict.fromkeys(("Prediction", "predict"), "predictions"),
    "record": "recorder.script",
    **dict.fromkeys(("Ranks", "Run", "run"), "launch"),
    **dict.fromkeys(
        (
            *("DeadlineExceeded", "Deadlock", "LabError", "LaunchError"),
            *("Mismatch", "RankDied", "RankError"),
        ),
        "basics.errors",
    ),
    "check": "checking",
    "explain": "diagnosis",
}
"""The module that defines each name."""

_ROOMS = (
    *("algorithms", "basics", "bench", "checking", "costs", "diagnosis"),
    *("emulation", "fabrics"),
    *("formats", "libraries", "other_libraries", "parallel", "plans", "plots"),
    *("predictions", "replay", "strategies", "truth", "widgets", "wire"),
)

_THEORY = {
    *("basics", "costs", "fabrics", "libraries", "plans", "plots", "predictions"),
    *("formats", "replay", "strategies", "truth", "widgets", "compare", "table"),
    *("diagnosis", "explain"),
    *("Event", "Message", "Prediction", "Timeline", "Trace", "predict", "what_if"),
}
"""Names that need numpy only."""

__all__ = sorted([*_HOME, *_ROOMS])


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _ROOMS:
        raise AttributeError(f"module 'collectives_lab' has no attribute {name!r}")
    if name not in _THEORY:
        _need_torch(name)
    module = import_module(f"collectives_lab.{_HOME.get(name, name)}")
    value = globals()[name] = getattr(module, name) if name in _HOME else module
    return value


def _need_torch(name: str) -> None:
    """Raise ImportError if torch or cloudpickle is missing."""
    try:
        import_module("cloudpickle")
        if not import_module("torch.distributed").is_available():
            raise ImportError("this torch was built without torch.distributed")
    except (ImportError, OSError) as error:  # OSError: one of its libraries is missing
        raise ImportError(
            f"collectives_lab.{name} needs torch and cloudpickle, which cannot be "
            f"imported here ({error}). `python -m collectives_lab doctor` says what to "
            "do; costs, fabrics, plans, replay and strategies work without it",
            name="torch",
        ) from None


def __dir__() -> list[str]:
    return __all__


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook `%%ranks` and `%ranks`; IPython calls this for `%load_ext`."""
    import_module("collectives_lab.notebook.extension").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics and end their ranks."""
    import_module("collectives_lab.notebook.extension").unload(shell)


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()):
    import_module("collectives_lab.notebook.attach").attach(_shell)

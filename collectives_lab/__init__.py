"""Collectives Lab: collective communication you can run, record, draw and take apart.

`run(fn, world_size=4)` calls a function on real processes and records what moved,
`Ranks(4)` keeps the processes, and `%load_ext collectives_lab` gives a notebook
`%%ranks`. `check(name, solution)` says what a graded exercise is worth.
`trace.replay(fabric)` says what a run would take on another cluster; each
algorithm is there three times, in `algorithms`, `plans` and `costs`. Plots are in
`collectives_lab.plots`, steppers in `collectives_lab.widgets`; both are imported when
they are first used.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

try:
    import numpy as _numpy  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"collectives_lab needs numpy, which cannot be imported here ({_error}): "
        "`pip install numpy` in the environment of this Python",
        name="numpy",
    ) from None

from collectives_lab import costs, fabrics, parts, perfetto, plans, replay
from collectives_lab.replay import Timeline
from collectives_lab.tables import compare, table
from collectives_lab.trace import Event, Message, Trace

_no_torch = ""
"""Why there are no ranks here; the theory, which needs none, works all the same."""

try:
    import cloudpickle as _cloudpickle  # noqa: F401
    import torch.distributed as _dist

    if not _dist.is_available():
        raise ImportError("this torch was built without torch.distributed")
except (ImportError, OSError) as _error:  # OSError: one of its libraries is missing
    _no_torch = str(_error) or type(_error).__name__
else:
    from collectives_lab import algorithms, check, wire
    from collectives_lab.launch import (
        DeadlineExceeded,
        Deadlock,
        LabError,
        LaunchError,
        Mismatch,
        RankDied,
        RankError,
        Ranks,
        Run,
        run,
    )
    from collectives_lab.recording import record

__version__ = "0.1.0"
__all__ = [
    "DeadlineExceeded",
    "Deadlock",
    "Event",
    "LabError",
    "LaunchError",
    "Message",
    "Mismatch",
    "RankDied",
    "RankError",
    "Ranks",
    "Run",
    "Timeline",
    "Trace",
    "algorithms",
    "bench",
    "check",
    "compare",
    "costs",
    "fabrics",
    "parallel",
    "plans",
    "plots",
    "record",
    "replay",
    "run",
    "strategies",
    "table",
    "widgets",
    "wire",
]

_LAZY = {
    "bench",
    "card",
    "magic",
    "parallel",
    "plots",
    "report",
    "strategies",
    "widgets",
}
"""Modules that not everybody needs, and some need a notebook's packages."""

_THEORY = {"plots", "strategies", "widgets"}
"""Those of them that need no torch."""


_PRACTICE = {*__all__, *_LAZY} - _THEORY
"""What needs torch, and what is imported by now."""


class _Refusing:
    """Has `python -m collectives_lab.bench` end in the words of `lab.bench`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        package, _, module = name.partition(".")
        if package == __name__ and module in _PRACTICE:
            __getattr__(module)


if _no_torch:
    sys.meta_path.insert(0, _Refusing)


def __getattr__(name: str) -> Any:
    if _no_torch and name in _PRACTICE:
        raise ImportError(
            f"collectives_lab.{name} needs torch and cloudpickle, which cannot be "
            f"imported here ({_no_torch}). `python -m collectives_lab doctor` says "
            "what to do; costs, fabrics, plans, replay and strategies work without it",
            name="torch",
        )
    if name in _LAZY:
        return importlib.import_module(f"collectives_lab.{name}")
    raise AttributeError(f"module 'collectives_lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


# What reads best from the object is bound here, the one place that sees all floors.
def _run_html(self: Run) -> str:
    return __getattr__("report").run_html(self)


def _report_html(self: check.Report) -> str:
    return __getattr__("card").card_html(self)


def _run_text(self: Run) -> str:
    return __getattr__("report").run_text(self)


_load_file = Trace.load


def _load(path: str | Path, partial: bool = False) -> Trace:
    """Read a trace: a file that `save` wrote, or a folder that `record` wrote.

    The parts of a folder are joined, with all times on rank 0's clock
    (`parts.join`). partial: take what is there, where parts are missing. Raises
    ValueError for any other file, and for parts that do not make one recording.
    """
    if Path(path).is_dir():
        return parts.join(path, partial)
    return _load_file(path)


Trace.load = staticmethod(_load)  # type: ignore[method-assign]
Trace.replay = replay.replay  # type: ignore[attr-defined]
Trace.chrome = perfetto.chrome  # type: ignore[attr-defined]
Trace.save_chrome = perfetto.save_chrome  # type: ignore[attr-defined]
if not _no_torch:
    Run._repr_html_ = _run_html  # type: ignore[attr-defined]
    check.Report._repr_html_ = _report_html  # type: ignore[attr-defined]
    Run.__repr__ = _run_text  # type: ignore[assignment]


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook `%%ranks` and `%ranks`; IPython calls this for `%load_ext`."""
    __getattr__("magic").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away and end their ranks."""
    __getattr__("magic").unload_ipython_extension(shell)

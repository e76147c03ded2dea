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
from typing import Any

from collectives_lab import (
    algorithms,
    check,
    costs,
    fabrics,
    perfetto,
    plans,
    replay,
    wire,
)
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
from collectives_lab.replay import Timeline
from collectives_lab.tables import compare, table
from collectives_lab.trace import Event, Message, Trace

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


def __getattr__(name: str) -> Any:
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


Trace.replay = replay.replay  # type: ignore[attr-defined]
Trace.chrome = perfetto.chrome  # type: ignore[attr-defined]
Trace.save_chrome = perfetto.save_chrome  # type: ignore[attr-defined]
Run._repr_html_ = _run_html  # type: ignore[attr-defined]
check.Report._repr_html_ = _report_html  # type: ignore[attr-defined]
Run.__repr__ = _run_text  # type: ignore[assignment]


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook `%%ranks` and `%ranks`; IPython calls this for `%load_ext`."""
    __getattr__("magic").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away and end their ranks."""
    __getattr__("magic").unload_ipython_extension(shell)

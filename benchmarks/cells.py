"""A cell on 4 standing ranks, beside ipyparallel's engines."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator

import collectives_lab as lab
from benchmarks.measure import Row, interleave, times_faster
from benchmarks.peers.engines import CELL
from benchmarks.worker import Worker


def measure(quick: bool) -> list[Row]:
    """Our two ways to a cell, each with the peer's cells between its own."""
    rounds = 3 if quick else 100
    engines = Worker("benchmarks.peers.engines")
    with engines, lab.Ranks(4) as ranks, shell() as notebook:

        def by_execute() -> None:
            ranks.execute(CELL)

        def by_magic() -> None:
            notebook.run_cell_magic("ranks", "4", CELL)

        sides = (timed(by_execute), timed(by_magic), engines.ask)
        executed, typed, other = interleave(*sides, rounds=rounds)
    return [
        row("a `%%ranks` cell on 4 standing ranks", typed, other),
        row("the same by `Ranks.execute`", executed, other),
    ]


def row(what: str, mine: list[float], other: list[float]) -> Row:
    """At most 5 ms, and at most a third of the peer's."""
    ratio = times_faster(mine, other)
    reached = sorted(mine)[len(mine) // 2] <= 5e-3 and ratio >= 3
    target = "5 ms, 3 times faster"
    faster = f"{ratio:.1f} times faster"
    return Row("cells", what, "ms", mine, target, reached, "ipyparallel", other, faster)


def timed(act: Callable[[], None]) -> Callable[[], float]:
    """The seconds that something takes, as a function; what it prints is not shown."""

    def seconds() -> float:
        with contextlib.redirect_stdout(io.StringIO()):
            begun = time.perf_counter()
            act()
            return time.perf_counter() - begun

    return seconds


@contextlib.contextmanager
def shell() -> Iterator:
    """A real IPython shell with our magics, which keeps no history."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    made = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    lab.load_ipython_extension(made)
    try:
        yield made
    finally:
        lab.unload_ipython_extension(made)

"""A cell on 4 running ranks, beside ipyparallel's engines."""

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
    """Measure our two ways to run a cell, in turn with the peer's."""
    rounds = 3 if quick else 100
    engines = Worker("benchmarks.peers.engines")
    with engines, lab.Ranks(4) as ranks, shell() as notebook:

        def by_execute() -> None:
            ranks.execute(CELL)

        def by_magic() -> None:
            notebook.run_cell_magic("ranks", "4", CELL)

        sides = (timed(by_execute), timed(by_magic), engines.ask)
        by_execute_seconds, by_magic_seconds, peer_seconds = interleave(
            *sides, rounds=rounds
        )
    return [
        row("a `%%ranks` cell on 4 standing ranks", by_magic_seconds, peer_seconds),
        row("the same by `Ranks.execute`", by_execute_seconds, peer_seconds),
    ]


def row(title: str, ours: list[float], peer: list[float]) -> Row:
    """Make the row; the target is 5 ms at most, and a third of the peer's time."""
    ratio = times_faster(ours, peer)
    reached = sorted(ours)[len(ours) // 2] <= 5e-3 and ratio >= 3
    target = "5 ms, 3 times faster"
    faster = f"{ratio:.1f} times faster"
    return Row("cells", title, "ms", ours, target, reached, "ipyparallel", peer, faster)


def timed(action: Callable[[], None]) -> Callable[[], float]:
    """Return a function that times an action; the action's output is not shown."""

    def seconds() -> float:
        with contextlib.redirect_stdout(io.StringIO()):
            start = time.perf_counter()
            action()
            return time.perf_counter() - start

    return seconds


@contextlib.contextmanager
def shell() -> Iterator:
    """Start an IPython shell with our magics and without a history."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    ipython = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    lab.load_ipython_extension(ipython)
    try:
        yield ipython
    finally:
        lab.unload_ipython_extension(ipython)

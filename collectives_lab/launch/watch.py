"""The watch over a job: it proves a deadlock while the ranks are still in it.

A `Watch` looks at the status board; when ranks wait and nothing has moved for a tick,
it asks them what they wait for and lets the wait-for graph judge. `Progress` says of a
job that goes on for how long it runs, and what its ranks are at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from collectives_lab import deadlock
from collectives_lab.basics import source_lines
from collectives_lab.deadlock import Snapshot
from collectives_lab.deadlock.status_board import Board
from collectives_lab.launch.job_errors import places
from collectives_lab.launch.processes.job import Outcome

TICK = 0.05
"""Seconds between two checks of the board."""

QUIET = 1.0
"""Seconds without a step of any rank after which nothing is on its way any more."""

AWAKE = 0.002
"""Seconds of processor time that a thread may use and still count as asleep."""

SHOWN = 1.0
"""Seconds after which a job says that it goes on."""

PLACED = 3.0
"""Seconds after which it shows where the ranks are, and between two such requests."""


Ask = Callable[[str, Sequence[int]], dict[int, Any]]
"""Takes a question and ranks; returns the answers of those that have one."""


class Watch:
    """The watch over a group's job, which proves a deadlock as soon as there is one.

    is_remote: whether ranks may be on other hosts, behind a slow network.
    """

    def __init__(self, outcome: Outcome, board: Board, ask: Ask, is_remote: bool):
        self._outcome = outcome
        self._board = board
        self._ask = ask
        self._is_remote = is_remote
        self._epochs: list[int] = []
        self._since = 0.0
        self._judged: tuple | None = None
        self._readings: dict[int, tuple[float, float]] = {}
        self._sleepers: dict[int, Snapshot] = {}
        self._requested = 0.0

    def check(self, now: float) -> None:
        """Set the outcome's `deadlock` if ranks wait that can never go on.

        Only a state that has lasted a tick is judged, and only once: first by what must
        be so, and after a quiet second, when every rank waits, by what the library has
        done.
        """
        outcome, board = self._outcome, self._board
        epochs = board.epoch.tolist()
        if epochs != self._epochs:
            self._epochs, self._since, self._judged, self._readings = (
                epochs,
                now,
                None,
                {},
            )
            return
        if now - self._since < TICK:
            return
        waiting = [r for r in outcome.pending if board.blocked[r]]
        still = now - self._since >= QUIET
        asleep = self._asleep(now, set(outcome.pending) - set(waiting)) if still else {}
        quiet = still and len(waiting) + len(asleep) == len(outcome.pending)
        if self._is_remote:
            quiet = False  # a slow network may carry bytes for longer than a second
        case = (quiet, *asleep)
        if not (waiting or asleep) or self._judged == case:
            return
        resting = [r for r in range(len(epochs)) if r not in outcome.pending]
        by_rank = self._ask("snapshot", waiting + resting) | asleep
        if outcome.failed or board.epoch.tolist() != epochs:
            return
        self._judged = case
        snapshots = [_named(s) for s in by_rank.values() if s.epoch == epochs[s.rank]]
        stuck_ranks = deadlock.stuck_ranks(snapshots, quiet)
        if stuck_ranks:
            outcome.deadlock = stuck_ranks, deadlock.explain(snapshots, stuck_ranks)

    def _asleep(self, now: float, ranks: set[int]) -> dict[int, Snapshot]:
        """Return ranks that sleep inside torch: no processor time in half a second."""
        if not ranks or now - self._requested < QUIET / 4:
            return self._sleepers
        self._requested, self._sleepers = now, {}
        for rank, reading in self._ask("asleep", sorted(ranks)).items():
            if reading is None:
                self._readings.pop(rank, None)
                continue
            used, snapshot = reading
            first, since = self._readings.setdefault(rank, (used, now))
            if used - first > AWAKE:
                self._readings[rank] = (used, now)
            elif now - since >= QUIET / 2 and snapshot.waiting:
                self._sleepers[rank] = snapshot
        return self._sleepers


def _named(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the reader's lines in words."""
    waits = [replace(w, where=source_lines.describe(w.where)) for w in snapshot.waiting]
    dropped = {k: source_lines.describe(line) for k, line in snapshot.dropped.items()}
    return replace(snapshot, waiting=tuple(waits), dropped=dropped)


class Progress:
    """The progress of a job, as its ranks report it every few seconds."""

    def __init__(self, outcome: Outcome, ask: Ask):
        self._outcome = outcome
        self._ask = ask
        self._began = 0.0
        self._requested = 0.0
        self._seen: dict[int, dict[str, Any]] = {}

    def text(self, now: float) -> str:
        """Return the seconds since the first call, and where the ranks are."""
        self._began = self._began or now
        seconds = now - self._began
        if seconds < SHOWN:
            return ""
        pending = self._outcome.pending
        if seconds >= PLACED and now - self._requested >= PLACED:
            self._requested = now
            self._seen = self._ask("place", pending)
        lines = places(pending, self._seen) if self._seen else []
        return "\n".join([f"{int(seconds)} s", *lines])

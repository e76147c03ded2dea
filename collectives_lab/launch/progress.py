"""The progress of a job in words: for how long it runs, and what its ranks are at."""

from __future__ import annotations

from typing import Any

from collectives_lab.launch.job_errors import places
from collectives_lab.launch.watch import Watched

SHOWN = 1.0
"""Seconds after which a job says that it goes on."""

PLACED = 3.0
"""Seconds after which it shows where the ranks are, and between two such requests."""


class Progress:
    """The progress of a group's job, as its ranks report it every few seconds."""

    def __init__(self, group: Watched):
        self._group = group
        self._began = 0.0
        self._requested = 0.0
        self._seen: dict[int, dict[str, Any]] = {}

    def text(self, now: float) -> str:
        """Return the seconds since the first call, and where the ranks are."""
        self._began = self._began or now
        seconds = now - self._began
        if seconds < SHOWN:
            return ""
        pending = self._group.outcome.pending
        if seconds >= PLACED and now - self._requested >= PLACED:
            self._requested = now
            self._seen = self._group.ask("place", pending)
        lines = places(pending, self._seen) if self._seen else []
        return "\n".join([f"{int(seconds)} s", *lines])

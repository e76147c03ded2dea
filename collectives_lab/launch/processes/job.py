"""A job of a group of ranks: the request, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectives_lab.launch.processes.printed_output import Display, Transcript
from collectives_lab.launch.rank.channel import Parts


@dataclass
class Outcome:
    """The outcome of a job: each rank's report, and what ended it early, if anything.

    deaths: exit status by rank, or words where nobody could see it. last_line: of the
    last call of a rank that died, or 0. deadlock: its ranks and the explanation, where
    one was proved. late: the deadline passed. progress: where the ranks that had not
    ended were. clocks: how well the clocks of other hosts are known, if there are any.
    """

    ranks: list[int]
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    results: dict[int, Parts] = field(default_factory=dict)
    deaths: dict[int, int | str] = field(default_factory=dict)
    leaving: dict[int, tuple[int, str]] = field(default_factory=dict)
    last_line: dict[int, int] = field(default_factory=dict)
    mismatched: dict[int, dict[str, Any]] = field(default_factory=dict)
    deadlock: tuple[list[int], str] | None = None
    late: bool = False
    progress: dict[int, dict[str, Any]] = field(default_factory=dict)
    described: dict[int, tuple[str, str]] = field(default_factory=dict)
    output: list[Transcript] = field(default_factory=list)
    clocks: dict[str, Any] = field(default_factory=dict)

    @property
    def pending(self) -> list[int]:
        """Ranks that have neither reported nor died."""
        return [r for r in self.ranks if r not in self.reports and r not in self.deaths]

    @property
    def failed(self) -> bool:
        """Whether anything went wrong on any rank."""
        errors = any("kind" in report for report in self.reports.values())
        ended = self.deaths or self.mismatched or self.deadlock or self.late
        return errors or bool(ended)


@dataclass(frozen=True)
class JobRequest:
    """A job as its ranks get it. Times in seconds."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=list)
    ranks: Sequence[int] | None = None
    timeout: float = 30.0
    display: Display | None = None

"""What a check found: a Report of Findings, as data, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from collectives_lab.trace import Trace

FORMAT = "collectives_lab report 1"

NOT_JUDGED = "not judged, as the result does not hold: "
"""How the message begins of a property that is looked at in right results only."""


@dataclass(frozen=True)
class Finding:
    """One property: whether it holds, the points earned of max_points, and why.

    title: what it promises. case: the smallest case that it failed in, empty if none.
    sent, bound: of a property about traffic, the bytes by rank and those that would do.
    """

    name: str
    passed: bool
    points: float
    max_points: float
    message: str
    title: str = ""
    case: str = ""
    sent: Sequence[float] = ()
    bound: float = 0.0


@dataclass(frozen=True)
class Report:
    """The verdict on one exercise.

    tier: the sandbox that it ran in. seed: what its inputs came from. trace: one of its
    own runs, the smallest that failed if one did, else one on 4 ranks; None where
    nothing was sent. shown: which case that is. runs: for each case what it sent and
    how it ended. versions: of what has judged. note: why the grader's verdict may be
    another one, empty where nothing speaks for that. look: why a person should look at
    this verdict: the check came to no end on this submission, which has a zero for it.
    """

    name: str
    findings: Sequence[Finding]
    tier: str = ""
    seed: str = ""
    shown: str = ""
    printed: str = ""
    runs: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    look: str = ""
    trace: Trace | None = field(default=None, compare=False, repr=False)

    @property
    def points(self) -> float:
        return sum(finding.points for finding in self.findings)

    @property
    def max_points(self) -> float:
        return sum(finding.max_points for finding in self.findings)

    @property
    def score(self) -> float:
        """Points as a share of all, 0 to 1."""
        return self.points / self.max_points if self.max_points else 0.0

    @property
    def passed(self) -> bool:
        """Whether every property holds."""
        return all(finding.passed for finding in self.findings)

    def as_json(self) -> str:
        """All but the trace, to be kept and read again by `from_json`."""
        kept = {
            k: v for k, v in self.__dict__.items() if k not in ("trace", "findings")
        }
        kept["findings"] = [asdict(finding) for finding in self.findings]
        return json.dumps({"format": FORMAT, **kept}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that `as_json` has written; raises ValueError for all else."""
        try:
            kept = json.loads(text)
            if kept.pop("format") != FORMAT:
                raise ValueError("of another format")
            findings = [Finding(**finding) for finding in kept.pop("findings")]
            return cls(findings=findings, **kept)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"no report of a check: {error}") from None

    def said(self, finding: Finding) -> str:
        """A finding's message with its case; one that was told already is not again."""
        for earlier in self.findings:
            if earlier is finding:
                break
            if finding.passed or earlier.passed:
                continue
            if earlier.message == finding.message:
                return f"as {earlier.name}"
            if finding.message == NOT_JUDGED + earlier.message:
                return f"{NOT_JUDGED}as {earlier.name}"
        case = f"{finding.case}: " if finding.case else ""
        return f"{case}{finding.message}"

    def __str__(self) -> str:
        """For a terminal: a line a property, and what to do about those that failed."""
        lines = [f"{self.name}: {self.points:g} of {self.max_points:g} points"]
        for finding in self.findings:
            mark = "ok  " if finding.passed else "FAIL"
            lines.append(
                f"  {mark} {finding.points:g}/{finding.max_points:g} "
                f"{finding.name}: {finding.title}"
            )
            lines += [f"         {line}" for line in self.said(finding).splitlines()]
        if self.note:
            lines.append(f"  note: {self.note}")
        if self.look:
            lines.append("  a person should look at this verdict")
        return "\n".join(lines)

    __repr__ = __str__

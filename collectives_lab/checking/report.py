"""The report of a check: its findings as data, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from collectives_lab.trace import Trace

FORMAT = "collectives_lab report 1"

NOT_JUDGED = "not judged, as the result does not hold: "
"""The beginning of the message of a property that only right results can have."""


@dataclass(frozen=True)
class Finding:
    """The verdict on one property: whether it holds, its points, and the reason.

    title: the promise. case: the smallest case in which it failed, empty if none. sent,
    bound: for traffic, the bytes by rank and those that suffice.
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

    tier: the sandbox that it ran in. seed: the seed of its inputs. trace: one of its
    runs, the smallest that failed if one did, else one on 4 ranks; None where nothing
    was sent. shown: the case of that run. printed: the first output of the solution.
    runs: for each case, the bytes sent and the ending. versions: of torch and Python.
    note: why the grader's verdict may differ, empty if it should not. look: why a
    person should look at this verdict, which is a zero because the check did not end.
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
        """The points as a share of all points, 0 to 1."""
        return self.points / self.max_points if self.max_points else 0.0

    @property
    def passed(self) -> bool:
        """True if every property holds."""
        return all(finding.passed for finding in self.findings)

    def as_json(self) -> str:
        """Return all but the trace as JSON, for `from_json`."""
        fields = {
            k: v for k, v in self.__dict__.items() if k not in ("trace", "findings")
        }
        fields["findings"] = [asdict(finding) for finding in self.findings]
        return json.dumps({"format": FORMAT, **fields}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read a report that `as_json` has written; ValueError for any other text."""
        try:
            fields = json.loads(text)
            if (version := fields.pop("format")) != FORMAT:
                raise ValueError(
                    f"its format is {version!r}, and this version of collectives_lab "
                    f"reads {FORMAT!r}"
                )
            findings = [Finding(**finding) for finding in fields.pop("findings")]
            return cls(findings=findings, **fields)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"no report of a check: {error}") from None

    def message_of(self, finding: Finding) -> str:
        """Return a finding's message with its case, or the name of an equal finding."""
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
        """Return the report for a terminal: a line a property, and what to do."""
        lines = [f"{self.name}: {self.points:g} of {self.max_points:g} points"]
        for finding in self.findings:
            mark = "ok  " if finding.passed else "FAIL"
            lines.append(
                f"  {mark} {finding.points:g}/{finding.max_points:g} "
                f"{finding.name}: {finding.title}"
            )
            lines += [
                f"         {line}" for line in self.message_of(finding).splitlines()
            ]
        if self.note:
            lines.append(f"  note: {self.note}")
        if self.look:
            lines.append("  a person should look at this verdict")
        return "\n".join(lines)

    __repr__ = __str__

"""The marks of a class: one row a student, as a table and as CSV with a status."""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from autograder import course, nbgrader_commands, receipts, regrading, words
from autograder.jobs import Receipt

GRADED, BY_HAND = "graded", "to be graded by hand"
NOT_GRADABLE, UNCHECKED, MISSING = "not gradable", "not checked", "missing"
DISMISSED = "dismissed"
WIDEST = 32
"""Of a student's id in the summary; a longer one pushes its own row only."""


@dataclass(frozen=True)
class Row:
    """A student's marks for an assignment; score is None where there is none to give.

    `score` has the late penalty taken off and lacks what is `waiting`: the cells that a
    person has yet to grade. `checked` is what the check alone gave.
    """

    student_id: str
    assignment: str
    status: str
    score: float | None = None
    max_score: float | None = None
    checked: float | None = None
    late_penalty: float | None = None
    timestamp: str = ""
    reason: str = ""
    waiting: str = ""
    look: str = ""
    regrade: str = ""


def rows(assignment: str, failed: Mapping[str, str] | None = None) -> list[Row]:
    """Return every student who should hand in, and all who did.

    Those on the roster should; without one, all students of the gradebook. failed: why
    nbgrader could not record a submission, by student.
    """
    submitted = course.submitted(assignment)
    with nbgrader_commands.gradebook() as book:
        expected = course.roster(assignment)
        if expected is None:
            expected = {student.id for student in book.students}
        return [
            _row(book, assignment, name, name in submitted, (failed or {}).get(name))
            for name in sorted(expected | set(submitted))
        ]


def _row(
    book: Gradebook, assignment: str, student: str, handed_in: bool, failed: str | None
) -> Row:
    receipt = receipts.load(assignment, student)
    submission = nbgrader_commands.submission(book, assignment, student)
    if receipt is None or submission is None or failed:
        status, reason = _without_marks(receipt, handed_in, failed)
        return Row(student, assignment, status, reason=reason)
    grades = nbgrader_commands.marks(submission)
    status, reason = status_of(receipt, grades)
    has_score = status in (GRADED, BY_HAND)
    return Row(
        student,
        assignment,
        status,
        score=nbgrader_commands.score(submission) if has_score else None,
        max_score=submission.max_score,
        checked=_checked(receipt),
        late_penalty=submission.late_submission_penalty or 0.0,
        timestamp=str(submission.timestamp or ""),
        reason=reason,
        waiting=" ".join(sorted(g.name for g in grades if g.needs_manual_grade)),
        look="" if "dismissed" in receipt else receipt.get("look") or "",
        regrade=regrading.state(assignment, student),
    )


def _without_marks(
    receipt: Receipt | None, handed_in: bool, failed: str | None
) -> tuple[str, str]:
    if receipt is None:
        return (UNCHECKED if handed_in else MISSING), ""
    if "dismissed" in receipt:
        return DISMISSED, receipt["dismissed"]
    reasons = [v.get("reason", "") for v in receipt["exercises"].values()]
    reasons_once = dict.fromkeys([*reasons, failed or ""])
    return NOT_GRADABLE, "; ".join(filter(None, reasons_once))


def status_of(receipt: Receipt, grades: Iterable[Any]) -> tuple[str, str]:
    """Return what marks wait for.

    One given by hand stands for a verdict that is missing.
    """
    waiting = {grade.name for grade in grades if grade.needs_manual_grade}
    reasons = dict.fromkeys(
        verdict["reason"]
        for name, verdict in receipt["exercises"].items()
        if verdict["status"] != GRADED and f"check_{name}" in waiting
    )
    if reasons and "dismissed" in receipt:
        return DISMISSED, receipt["dismissed"]
    if reasons:
        return NOT_GRADABLE, "; ".join(reasons)
    return (BY_HAND if waiting else GRADED), ""


def _checked(receipt: Receipt) -> float | None:
    verdicts = receipt["exercises"].values()
    points = [verdict["points"] for verdict in verdicts if "points" in verdict]
    return sum(points) if points else None


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Write rows for a spreadsheet."""
    header = [field.name for field in fields(Row)]
    write_table([header, *(list(asdict(row).values()) for row in rows)], path)


def write_table(table: Iterable[Iterable[Any]], path: Path) -> None:
    """Write a table as CSV; no cell of it can be taken for a formula."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(map(_cell, row) for row in table)


def _cell(value: Any) -> Any:
    dangerous = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t")
    return f"'{value}" if dangerous else value


def summary(rows: list[Row]) -> str:
    """Return a line for each student who handed in, who is missing, and the class in a
    few.
    """
    counts = Counter(row.status for row in rows)
    missing = [words.one_line(r.student_id) for r in rows if r.status == MISSING]
    there = [row for row in rows if row.status != MISSING]
    names = [words.one_line(row.student_id) for row in there]
    wide = min(max(map(len, names), default=7), WIDEST)
    lines = [
        f"{name:{wide}}  {_points(row):>13}  {_standing(row)}"
        for name, row in zip(names, there, strict=True)
    ]
    if missing:
        lines += ["", f"missing: {', '.join(missing)}"]
    lines += ["", ", ".join(f"{count} {status}" for status, count in counts.items())]
    for name, scores in (
        ("all marks", [r.score for r in there if r.status == GRADED]),
        ("a check, of the check alone", [r.checked for r in there]),
    ):
        marks = [score for score in scores if score is not None]
        if marks:
            lines.append(f"mean of the {len(marks)} with {name}: {_mean(marks):.1f}")
    return "\n".join(lines)


def _standing(row: Row) -> str:
    """Return a row's status, and whatever wants a person's attention."""
    parts = [": ".join(filter(None, (row.status, words.one_line(row.reason))))]
    parts += [f"look at it: {words.one_line(row.look)}"] * bool(row.look)
    return "; ".join(filter(None, [*parts, row.regrade]))


def _mean(scores: list[float]) -> float:
    return sum(scores) / len(scores)


def _points(row: Row) -> str:
    if row.score is None:
        return "-"
    whole = "so far" if row.status == BY_HAND else f"of {row.max_score:g}"
    return f"{row.score:g} {whole}"


def by_property(assignment: str, chosen: Collection[str]) -> str:
    """Return how many of the checked submissions hold each property, the rarest
    last.
    """
    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for student in chosen or course.submitted(assignment):
        receipt = receipts.load(assignment, student) or {"exercises": {}}
        for name, verdict in receipt["exercises"].items():
            for finding in verdict.get("report", {}).get("findings", []):
                passed[f"{name}.{finding['name']}"] += finding["passed"]
                total[f"{name}.{finding['name']}"] += 1
    wide = max(map(len, total), default=0)
    return "\n".join(
        f"{name:{wide}}  {passed[name]} of {total[name]}"
        for name in sorted(total, key=lambda name: -passed[name])
    )

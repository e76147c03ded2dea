"""The marks of a class: one row a student, as a table and as CSV with a status."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry

from autograder import books, course, receipts, words

GRADED, BY_HAND = "graded", "to be graded by hand"
NOT_GRADABLE, UNCHECKED, MISSING = "not gradable", "not checked", "missing"
WIDEST = 32
"""Of a student's id in the summary; a longer one pushes its own row only."""


@dataclass(frozen=True)
class Row:
    """A student's marks for an assignment; score is None where there is none to give.

    `score` has the late penalty taken off; `checked` is what the check alone gave.
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


def rows(assignment: str, failed: Mapping[str, str] | None = None) -> list[Row]:
    """Every student of the gradebook, and all who handed in.

    failed: why nbgrader could not record a submission, by student.
    """
    submitted = course.submitted(assignment)
    with books.gradebook() as book:
        names = {student.id for student in book.students} | set(submitted)
        return [
            _row(book, assignment, name, name in submitted, (failed or {}).get(name))
            for name in sorted(names)
        ]


def _row(
    book: Gradebook, assignment: str, student: str, handed_in: bool, failed: str | None
) -> Row:
    receipt = receipts.load(assignment, student)
    try:
        found = book.find_submission(assignment, student)
    except MissingEntry:
        found = None
    if receipt is None or found is None or failed:
        status, reason = _without_marks(receipt, handed_in, failed)
        return Row(student, assignment, status, reason=reason)
    grades = [grade for notebook in found.notebooks for grade in notebook.grades]
    status, reason = status_of(receipt, grades)
    penalty = found.late_submission_penalty or 0.0
    score = None if status == NOT_GRADABLE else max(0.0, found.score - penalty)
    return Row(
        *(student, assignment, status, score, found.max_score),
        *(_checked(receipt), penalty, str(found.timestamp or ""), reason),
    )


def _without_marks(
    receipt: receipts.Receipt | None, handed_in: bool, failed: str | None
) -> tuple[str, str]:
    if receipt is None:
        return (UNCHECKED if handed_in else MISSING), ""
    reasons = [v.get("reason", "") for v in receipt["exercises"].values()]
    said = dict.fromkeys([*reasons, failed or ""])
    return NOT_GRADABLE, "; ".join(filter(None, said))


def status_of(receipt: receipts.Receipt, grades: Iterable[Any]) -> tuple[str, str]:
    """What marks wait for; one given by hand stands for a verdict that is missing."""
    waiting = {grade.name for grade in grades if grade.needs_manual_grade}
    reasons = dict.fromkeys(
        verdict["reason"]
        for name, verdict in receipt["exercises"].items()
        if verdict["status"] != GRADED and f"check_{name}" in waiting
    )
    if reasons:
        return NOT_GRADABLE, "; ".join(reasons)
    return (BY_HAND if waiting else GRADED), ""


def _checked(receipt: receipts.Receipt) -> float:
    return sum(verdict.get("points", 0.0) for verdict in receipt["exercises"].values())


def write_csv(found: Iterable[Row], path: Path) -> None:
    """Write rows for a spreadsheet; no cell of it can be taken for a formula."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Row))
        for row in found:
            writer.writerow(_cell(value) for value in asdict(row).values())


def _cell(value: Any) -> Any:
    dangerous = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t")
    return f"'{value}" if dangerous else value


def summary(found: list[Row]) -> str:
    """The class in a few lines, and a line for each student."""
    counts = Counter(row.status for row in found)
    names = [words.one_line(row.student_id) for row in found]
    wide = min(max(map(len, names), default=7), WIDEST)
    lines = [
        f"{name:{wide}}  {_points(row):>13}  {row.status}"
        + (f": {words.one_line(row.reason)}" if row.reason else "")
        for name, row in zip(names, found, strict=True)
    ]
    lines += ["", ", ".join(f"{count} {status}" for status, count in counts.items())]
    scores = [row.score for row in found if row.score is not None]
    if scores:
        lines.append(f"mean of the {len(scores)} with marks: {_mean(scores):.1f}")
    return "\n".join(lines)


def _mean(scores: list[float]) -> float:
    return sum(scores) / len(scores)


def _points(row: Row) -> str:
    return "-" if row.score is None else f"{row.score:g} of {row.max_score:g}"


def by_property(assignment: str) -> str:
    """How many of the checked submissions hold each property, the rarest last."""
    held: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for student in course.submitted(assignment):
        receipt = receipts.load(assignment, student) or {"exercises": {}}
        for name, verdict in receipt["exercises"].items():
            for finding in verdict.get("report", {}).get("findings", []):
                held[f"{name}.{finding['name']}"] += finding["passed"]
                total[f"{name}.{finding['name']}"] += 1
    wide = max(map(len, total), default=0)
    return "\n".join(
        f"{name:{wide}}  {held[name]} of {total[name]}"
        for name in sorted(total, key=lambda name: -held[name])
    )

"""Check a receipt's program once more, with its own seeds, and compare."""

import json
from pathlib import Path
from typing import Any

from autograder import course, receipts
from autograder.workers import IDENTITY, Worker


def repeat(path: Path, tier: str | None = None) -> str:
    """Say for each exercise of a receipt what it gave then and what it gives now.

    Raises CourseError for a file that is no receipt, or one without a verdict.
    """
    then = _read(path)
    graded = {n: v for n, v in then["exercises"].items() if v["status"] == "graded"}
    if not graded:
        raise course.CourseError(f"{path} holds no verdict that could be repeated")
    worker = Worker(tier)
    try:
        worker.ready()
        worker.give(
            {name: then[name] for name in IDENTITY}
            | {"seeds": {name: v["seed"] for name, v in graded.items()}}
            | {"programs": {name: v["program"] for name, v in graded.items()}}
        )
        now = worker.receipt()["exercises"]
    finally:
        worker.end()
    lines = [_compared(name, verdict, now[name]) for name, verdict in graded.items()]
    if then["engine"] != receipts.engine():
        lines.append(f"the receipt is of another engine, {then['engine']}")
    return "\n".join(lines)


def _read(path: Path) -> receipts.Receipt:
    try:
        receipt = json.loads(path.read_text())
        return receipt if receipt["exercises"] and receipt["engine"] else {}
    except (OSError, ValueError, KeyError, TypeError):
        raise course.CourseError(f"{path} is no receipt of this autograder") from None


def _compared(name: str, then: dict[str, Any], now: dict[str, Any]) -> str:
    if now["status"] != "graded":
        return f"{name}: {then['points']:g} points then; now {now['reason']}"
    same = _passed(then) == _passed(now)
    verdict = (
        "the same" if same else f"OTHERWISE: then {_passed(then)}, now {_passed(now)}"
    )
    return f"{name}: {then['points']:g} points then, {now['points']:g} now: {verdict}"


def _passed(verdict: dict[str, Any]) -> list[str]:
    return [f["name"] for f in verdict["report"]["findings"] if f["passed"]]

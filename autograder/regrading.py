"""Regrade requests with their answers, and checks that an instructor has dismissed.

Requests lie beside the receipts, as a receipt is written again with each new verdict. A
dismissal stands in the receipt that it is about, and so ends with it.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder import course, receipts, repeating

Request = dict[str, Any]


def place(assignment: str, student: str) -> Path:
    """Return where a student's requests are kept."""
    return course.REGRADES / assignment / f"{student}.json"


def requests(assignment: str, student: str) -> list[Request]:
    """Return the requests of a student, the first one first."""
    file = place(assignment, student)
    try:
        return json.loads(file.read_text()) if file.exists() else []
    except (OSError, ValueError) as error:
        raise course.CourseError(f"{file} cannot be read: {error}") from None


def ask(assignment: str, student: str, request: str, tier: str | None = None) -> str:
    """Keep a student's request and check the receipt once more; says what that gave."""
    _receipt(assignment, student)
    try:
        now = repeating.repeat(receipts.place(assignment, student), tier)
        repeated = f"The check was repeated. {now}"
    except course.CourseError as error:
        repeated = f"The check was not repeated: {error}"
    made = {"asked": _now(), "request": _words(request), "repeated": repeated}
    _save(assignment, student, [*requests(assignment, student), made])
    return repeated


def answer(assignment: str, student: str, words: str) -> str:
    """Keep the answer to a student's last request; says what is told to whom."""
    known = requests(assignment, student)
    if not known:
        raise course.CourseError(
            f"{student} has asked nothing about {assignment}: give --request first"
        )
    known[-1] |= {"answer": _words(words), "answered": _now()}
    _save(assignment, student, known)
    return f"the next feedback of {assignment} tells {student} so"


def state(assignment: str, student: str) -> str:
    """Return what the summary says of a student's last request, if there is one."""
    known = requests(assignment, student)
    if not known:
        return ""
    return "regrade answered" if "answer" in known[-1] else "regrade requested"


def text(assignment: str, student: str) -> str:
    """Return the requests and answers of a student, as the feedback has them."""
    lines = []
    for request in requests(assignment, student):
        lines += [f"Regrade request of {request['asked'][:10]}: {request['request']}"]
        lines += [request["repeated"]]
        if "answer" in request:
            lines += [f"Answer of {request['answered'][:10]}: {request['answer']}"]
    return "\n".join(lines)


def dismiss(assignment: str, student: str, reason: str) -> str:
    """Leave a check as it is: later runs neither try it again nor ask for a look."""
    receipt = _receipt(assignment, student)
    verdicts = receipt["exercises"].values()
    if not receipt.get("look") and all(v["status"] == "graded" for v in verdicts):
        raise course.CourseError(
            f"there is nothing to dismiss: {student}'s {assignment} has its verdict"
        )
    receipts.save(receipt | {"dismissed": _words(reason)})
    return f"{assignment} of {student} is left as it is, until it is handed in again"


def _receipt(assignment: str, student: str) -> receipts.Receipt:
    receipt = receipts.load(assignment, student)
    if receipt is None:
        raise course.CourseError(
            f"there is no receipt of {student} for {assignment}: grade it first"
        )
    return receipt


def _words(text: str) -> str:
    if not text.strip():
        raise course.CourseError("write a sentence; it was empty")
    return text.strip()


def _save(assignment: str, student: str, all_requests: list[Request]) -> None:
    file = place(assignment, student)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(all_requests, indent=1))
    partial.replace(file)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

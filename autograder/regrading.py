"""Regrade requests and their answers, repeated checks, and checks that are dismissed.

Requests lie beside the receipts, as a receipt is written again with each new verdict. A
dismissal stands in the receipt that it is about, and so ends with it.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from autograder import course, receipts
from autograder.jobs import Receipt
from autograder.workers import IDENTITY, Worker

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
        now = repeat(receipts.place(assignment, student), tier)
        repeated = f"The check was repeated. {now}"
    except course.CourseError as error:
        repeated = f"The check was not repeated: {error}"
    made = {"asked": course.now(), "request": _words(request), "repeated": repeated}
    course.save([*requests(assignment, student), made], place(assignment, student))
    return repeated


def answer(assignment: str, student: str, words: str) -> str:
    """Keep the answer to a student's last request; returns who gets it, and where."""
    known = requests(assignment, student)
    if not known:
        raise course.CourseError(
            f"{student} has asked nothing about {assignment}: give --request first"
        )
    known[-1] |= {"answer": _words(words), "answered": course.now()}
    course.save(known, place(assignment, student))
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


def _receipt(assignment: str, student: str) -> Receipt:
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


def repeat(path: Path, tier: str | None = None) -> str:
    """Say for each exercise of a receipt what it gave then and what it gives now.

    Raises CourseError for a file that is no receipt, or one without a verdict.
    """
    then = _receipt_in(path)
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


def _receipt_in(path: Path) -> Receipt:
    with suppress(OSError, ValueError, KeyError, TypeError):
        receipt = json.loads(path.read_text())
        if receipt["exercises"] and receipt["engine"]:
            return receipt
    raise course.CourseError(f"{path} is no receipt of this autograder")


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

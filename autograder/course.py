"""The folders of a course, and the secret from which its hidden inputs are made."""

import csv
import hashlib
import hmac
import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXERCISES = ROOT / "exercises"
SUBMITTED = HERE / "submitted"
AUTOGRADED = HERE / "autograded"
FEEDBACK = HERE / "feedback"
RECEIPTS = HERE / "receipts"
REGRADES = HERE / "regrades"
ROSTERS = HERE / "rosters"
SECRET = HERE / "course_secret"
CONFIG = HERE / "nbgrader_config.py"


class CourseError(Exception):
    """Something that the instructor has to put right, in words."""


def assignments() -> list[str]:
    """Return the names of all assignments that have a released notebook."""
    return sorted(path.parent.name for path in EXERCISES.glob("*/*.ipynb"))


def released(assignment: str) -> Path:
    """Return the notebook that students were given.

    Raises CourseError where there is none.
    """
    path = EXERCISES / assignment / f"{assignment}.ipynb"
    if not path.is_file():
        known = ", ".join(assignments()) or "none yet"
        raise CourseError(
            f"there is no {path.relative_to(ROOT)}: it must be an assignment that "
            f"`nbgrader generate_assignment` has made ({known})"
        )
    return path


def submitted(assignment: str) -> dict[str, Path]:
    """Return the notebook's place of each student with a folder for this assignment."""
    folders = sorted(SUBMITTED.glob(f"*/{assignment}/"))
    return {path.parent.name: path / f"{assignment}.ipynb" for path in folders}


def roster(assignment: str) -> set[str] | None:
    """Return the students on the assignment's roster; None where it has none.

    Raises CourseError for a roster that cannot be read.
    """
    path = ROSTERS / f"{assignment}.csv"
    if not path.exists():
        return None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            ids = [row[0].strip() for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise CourseError(f"{path} is no list of students: {error}") from None
    return {name for name in ids if name} - {"id"}


def secret() -> bytes:
    """Return the course's secret, made when it is first needed.

    Only its owner can read it.

    Whoever knows it can foresee the hidden inputs. Whoever loses it regrades with other
    inputs, and so perhaps to other marks: keep it with the course.
    """
    try:
        fd = os.open(SECRET, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        text = SECRET.read_text().strip()
        if len(text) < 32:
            raise CourseError(
                f"{SECRET} holds no secret: restore it from a copy"
            ) from None
        return text.encode()
    made = secrets.token_hex(32)
    with os.fdopen(fd, "w") as file:
        file.write(made + "\n")
    return made.encode()


def save(value: Any, path: Path) -> None:
    """Write a value as JSON, at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(value, indent=1, allow_nan=False))
    partial.replace(path)


def now() -> str:
    """Return the time to the second, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def keyed(*parts: str) -> str:
    """Return 64 hexadecimal digits that follow from texts and the course's secret."""
    message = "".join(f"{len(part)}:{part}" for part in parts)
    return hmac.new(secret(), message.encode(), hashlib.sha256).hexdigest()

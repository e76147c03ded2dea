"""A course on a real JupyterHub: its proxy, PAM, and a server for each Unix account."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from typing import Any

import hub
import pytest
from hub import ANN, BEN, PROF, STRANGER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """One assignment, from its release to its feedback; CI does not do without."""
    if lacks := hub.missing():
        reason = f"a JupyterHub needs {', '.join(lacks)}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    done = subprocess.run(
        [*hub.IN_NAMESPACES, sys.executable, hub.__file__],
        capture_output=True,
        text=True,
        timeout=360,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(seen: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        row["student_id"]: row for row in csv.DictReader(seen["grades"].split("\n"))
    }


def test_each_user_is_an_account(seen: dict[str, Any]) -> None:
    """Servers run as their users; a wrong password and an outsider are refused."""
    assert sorted(seen["owners"].split()) == [ANN, BEN, PROF]
    assert seen["refused"] == [403, 403]
    assert seen["another's server"] == 403


def test_work_is_graded_and_comes_back(seen: dict[str, Any]) -> None:
    """Ann's solution has full marks, Ben's has not, and each gets their own page."""
    assert rows(seen)[ANN]["checked"] == "20" and seen["marks"][ANN] == 20
    assert rows(seen)[BEN]["checked"] == "18" and seen["marks"][BEN] == 18
    (right,), (wrong,) = seen["feedback"][ANN], seen["feedback"][BEN]
    message = "it went through float32 on its way"
    assert "two_ranks" in right and message not in right
    assert message in wrong


def test_an_instructors_account_grades_in_a_sandbox(seen: dict[str, Any]) -> None:
    """It is no root and has no cgroup, so the tier is B; only it has the formgrader."""
    assert seen["receipt"]["tier"].startswith("B: bubblewrap")
    assert seen["formgrader"] == {PROF: 200, ANN: 404, BEN: 404}


def test_a_student_reads_nothing_of_others(seen: dict[str, Any]) -> None:
    """No secret, gradebook, solution, submission, feedback page or cookie."""
    assert len(seen["read"]) == 8 and 0 not in seen["read"].values(), seen["read"]
    assert ".ipynb" not in seen["solutions"]


def test_the_exchange_is_not_believed(seen: dict[str, Any]) -> None:
    """Nobody hands in for another, stops the collecting, or gets what a link shows."""
    assert "it was made by stranger" in seen["collected"]
    assert "+nonsense+x': its name holds no student" in seen["collected"]
    assert "own': 'ring_all_reduce.ipynb'" in seen["collected"]
    assert rows(seen)[STRANGER]["checked"] in ("", "0")

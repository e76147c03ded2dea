"""The benchmarks run, leave nothing behind, and their table is whole and honest."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import until

from benchmarks import cells, table
from benchmarks.measure import Row, interleave, quartiles, spread, times_faster
from benchmarks.worker import Worker

ROOT = Path(__file__).parents[2]
WHERE = {"cores": "2"}


def row(**changes) -> Row:
    """A row whose target is reached."""
    return Row(
        **{"figure": "f", "what": "w", "unit": "ms", "ours": [1e-3, 2e-3, 3e-3]}
        | {"target": "5 ms", "reached": True}
        | changes
    )


def test_sides_take_turns() -> None:
    """Drift hits all sides: each is measured in every round, and goes first in half."""
    seen: list[str] = []

    def side(name: str):
        return lambda: float(len(seen)) if seen.append(name) is None else 0.0

    a, b = interleave(side("a"), side("b"), rounds=2, runs=2)
    assert "".join(seen) == "ab" + "aabb" + "bbaa"
    assert a == [3.0, 4.0, 9.0, 10.0] and b == [5.0, 6.0, 7.0, 8.0]


def test_the_median_comes_with_its_quartiles() -> None:
    """The outer samples do not move what is printed."""
    assert quartiles([1.0, 2.0, 3.0, 4.0, 500.0]) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)
    assert spread([0.001, 0.0023, 0.003], "ms") == "2.3 ms (1.65 to 2.65)"
    assert times_faster([1.0, 2.0, 9.0], [6.0, 6.0, 6.0]) == 3.0


def test_a_missed_target_is_reported() -> None:
    """Both conditions of a cell must hold, and a miss shows in the table."""
    slow = cells.row("cell", [6e-3] * 3, [60e-3] * 3)
    close = cells.row("cell", [4e-3] * 3, [8e-3] * 3)
    good = cells.row("cell", [4e-3] * 3, [16e-3] * 3)
    assert [r.reached for r in (slow, close, good)] == [False, False, True]
    assert "**no**" in table.markdown([slow], WHERE)
    assert "**no**" not in table.markdown([good], WHERE)


def test_the_page_quotes_what_was_kept() -> None:
    """The figures in docs/benchmarks.md are those of the last whole run."""
    kept = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    rows = [Row(**one) for one in kept["rows"]]
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert table.quoted(page, rows, kept["machine"]) == page
    assert table.quoted(page, rows[1:], kept["machine"]) != page


def test_what_is_kept_holds_every_sample(tmp_path: Path) -> None:
    """The table can be computed again from the file beside it."""
    table.keep([row(), row(peer_name="p", peer=[1e-3])], WHERE, tmp_path)
    kept = json.loads((tmp_path / "results.json").read_text())
    assert kept["machine"] == WHERE and kept["rows"][0]["ours"] == [1e-3, 2e-3, 3e-3]
    lines = (tmp_path / "results.md").read_text().splitlines()
    assert len({len(line) for line in lines if line.startswith("|")}) == 1


SILENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
from benchmarks.worker import serve
answers = iter([child.pid])
serve(lambda: next(answers, None) or time.sleep(600))
"""


def test_a_worker_has_a_deadline_and_leaves_nothing(
    tmp_path: Path, monkeypatch
) -> None:
    """A peer that hangs is said to hang, and ends with what it has started."""
    (tmp_path / "silent.py").write_text(SILENT)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    worker = Worker("silent")
    child = psutil.Process(worker.ask())
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="silent did not answer in time"):
        worker.ask(0.2)
    worker.close(0.2)
    assert time.monotonic() - begun < 10
    child.wait(5)


def test_a_worker_that_fails_is_quoted(tmp_path: Path, monkeypatch) -> None:
    """The reason is in the error, not lost in a file."""
    (tmp_path / "broken.py").write_text("raise SystemExit('no torch here')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    with pytest.raises(RuntimeError, match="broken ended; it printed:\nno torch here"):
        Worker("broken")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_figures_are_measured(tmp_path: Path) -> None:
    """A quick run has every row, bounded memory, and leaves no process behind."""
    mark = {"BENCHMARKS_OF": str(tmp_path)}  # whatever is started inherits it
    command = [sys.executable, "-m", "benchmarks", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | mark,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "results.json").read_text())["rows"]
    expected = {"fresh": 2, "cells": 2, "many": 4, "recording": 3, "ring": 6}
    expected |= {"replay": 5, "grading": 4, "emulation": 9, "profiles": 6}
    counts = dict.fromkeys(expected, 0)
    for one in kept:
        counts[one["figure"]] += 1
    assert counts == expected
    assert {"mp.spawn", "a plain fork", "ipyparallel"} <= {r["peer_name"] for r in kept}
    for one in kept:
        assert one["what"] in done.stdout and all(value > 0 for value in one["ours"])
        if (one["figure"], one["unit"]) == ("profiles", "MB"):
            assert one["reached"], "a profile of 200 MB takes too much memory"

    def left() -> list[psutil.Process]:
        every = psutil.process_iter(["environ"])
        return [p for p in every if mark.items() <= (p.info["environ"] or {}).items()]

    assert until(lambda: not left())

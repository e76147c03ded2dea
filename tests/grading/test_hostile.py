"""Hostile submissions: each gets its verdict, and nobody else is harmed.

A file of `hostile/` says in its first line `verdict: <points> — <text>`: the points of
ring_all_reduce, `20` or `0..20`, and what the report says. Tier D promises nothing
against such files, so none of them is run there.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import psutil
import pytest
from conftest import ROOT, Memory, files_left, new_files, until

from collectives_lab.checking import Report, grade
from collectives_lab.launch.processes.forked import servers
from collectives_lab.notebook.report_html import report_html
from collectives_lab.sandbox import tiers
from collectives_lab.wire import Box, Program

pytestmark = pytest.mark.slow

HOSTILE = Path(__file__).parent / "hostile"
FILES = sorted(HOSTILE.glob("*.py"))
HONEST = [HOSTILE / "honest.py", HOSTILE / "honest_class.py"]
REACHING_OUT = (
    "covert|fills|fork|hogs|honest|imports|memory|patches|probes|reads|searches"
)
ENDING = (
    "closes|exits|flood_of_m|interrupts|kills|loop_|output|recursion_w|segfaults|st|wri"
)
MEETING_THE_SANDBOX = {
    "B": REACHING_OUT,
    "C": f"{REACHING_OUT}|{ENDING}|tampers_with_the_r",
}
"""How the names begin of those that a tier meets in its own way.

Reaching out is held by other layers in each tier, and processes end in another way in
C, where no bubblewrap is around them. The others meet only the wire and the check,
which are the same in all tiers.
"""

MOST_MEMORY = 512 << 20
"""Bytes that a verdict may cost the process that grades."""

RING = HONEST[0].read_text()
ODD_TEXTS = {
    "empty": ("", "0", "not defined"),
    "only a comment": ("# nothing", "0", "not defined"),
    "no Python": ("ring all reduce!", "0", "SyntaxError"),
    "a NUL": (RING + "\x00", "0", "raised"),
    "a lone surrogate": (RING + "# \ud800", "0..20", "points"),
    "a byte order mark": ("\ufeff" + RING, "20", "points"),
    "lines of Windows": (RING.replace("\n", "\r\n"), "20", "points"),
    "form feeds": (RING.replace("\n\n", "\n\f\n"), "20", "points"),
    "an encoding cookie": ("# -*- coding: utf-7 -*-\n" + RING, "20", "points"),
    "mixed tabs": (RING + "if 1:\n\tx = 1\n        y = 2\n", "0", "TabError"),
    "deep brackets": ("(" * 100_000, "0", "raised"),
    "deep signs": ("x = " + "-" * 1_000_000 + "1", "0", "points"),
    "a long line": (RING + f"x = {'1 + ' * 200_000} 1", "0..20", "points"),
    "a long text": (RING + "# all work and no play\n" * 200_000, "20", "points"),
}


def verdict(text: str) -> tuple[str, str]:
    """Points and words of the first line of a file; "a or b" where speed decides."""
    line = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]
    points, dash, words = line.removeprefix("verdict: ").partition(" — ")
    assert dash and words, f"{line!r} has no ' — ' with what the report says"
    return points, words


def wrong(report: Report, points: str, words: str) -> str:
    """Why a report is not the verdict that was asked for; empty if it is."""
    least, _, most = points.partition("..")
    if not float(least) <= report.points <= float(most or least):
        return f"{report.points} points, not {points}:\n{report}"
    is_said = any(some in str(report) for some in words.split(" or "))
    return "" if is_said else f"does not say {words!r}:\n{report}"


@pytest.fixture(scope="module")
def boxes() -> Iterator[Callable[[str], Box]]:
    """Open a box of a tier, once; somebody has been graded in it already."""
    with contextlib.ExitStack() as stack:

        @cache
        def opened(tier: str) -> Box:
            if reason := tiers.probe(tier):
                pytest.skip(f"tier {tier}: {reason}")
            box = stack.enter_context(Box(tier))
            graded(RING, box)
            return box

        yield opened


@pytest.fixture
def box(boxes: Callable[[str], Box]) -> Box:
    """The box of the best tier."""
    return boxes(tiers.best())


CASES = [
    pytest.param(tier, path, id=f"{tier}-{path.stem}")
    for tier in "ABC"
    for path in FILES
    if tier == tiers.best() or re.match(MEETING_THE_SANDBOX.get(tier, ""), path.stem)
]
"""All files in the best tier, and in the others those that meet the sandbox."""


def graded(text: str, box: Box) -> Report:
    return grade("ring_all_reduce", Program.source([("cell 3", text)]), 7, box=box)


SOONER = {"cpu_seconds": 2.0, "wall_seconds": 8.0}
"""Limits for what has the same verdict as under the usual ones, at their end."""


@contextlib.contextmanager
def limits(box: Box, points: str, words: str) -> Iterator[None]:
    """Give the ranks of a box less time where a file does not end, or may not."""
    if "did not end" in words or points == "0..20":
        box.ranks = partial(box.ranks, **SOONER)  # type: ignore[method-assign]
    try:
        yield
    finally:
        vars(box).pop("ranks", None)


def running() -> int:
    """How many processes there are below this one, without the ranks of `lab.run`.

    Their fork server makes some ahead of need, whenever it comes to it.
    """
    forking = {server.process.pid for server in servers.all()}
    me = psutil.Process()
    apart = [p for p in me.children() if p.pid in forking]
    ranks = {q for p in apart for q in (p, *p.children(recursive=True))}
    return len(set(me.children(recursive=True)) - ranks)


def package() -> dict[str, tuple[int, int]]:
    """The files that a submission might want to change, as they are now.

    A folder has no time here: it changes when Python makes a `__pycache__` in it.
    """
    folders = [ROOT / "collectives_lab", ROOT / "autograder", ROOT / "solutions"]
    paths = (path for folder in folders for path in folder.rglob("*"))
    own = [path for path in paths if "__pycache__" not in path.parts]
    stats = {str(path): path.stat() for path in own if path.is_file()}
    files = {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}
    return dict.fromkeys((str(path) for path in own if path.is_dir()), (0, 0)) | files


def changed(before: dict[str, tuple[int, int]]) -> list[str]:
    """Which of these files are others now, or new.

    But for a course's secret that was not there: a grader beside us has made it.
    """
    now = package()
    secret = str(ROOT / "autograder" / "course_secret")
    if secret not in before:
        now.pop(secret, None)
    return [path for path in now | before if now.get(path) != before.get(path)]


def harmless(report: Report) -> str:
    """Why a report would harm who looks at it; empty if it does not."""
    text, html = str(report), report_html(report)
    if Report.from_json(report.as_json()).as_json() != report.as_json():
        return "it is another one after it was kept"
    if odd := {c for c in text if not c.isprintable()} - {"\n"}:
        return f"its text has {odd} in it"
    if len(text) > 50_000 or len(html) > 1_000_000:
        return f"it has {len(text)} characters, and {len(html)} as HTML"
    return "its HTML has a script in it" if "<script>alert" in html else ""


def survives(text: str, box: Box, points: str, words: str, number: int) -> None:
    """Grade a text; then nothing is left, and the next student has full marks.

    The next is another hostile one, and after every third of them one of the honest.
    """
    before, count, files = package(), running(), files_left()
    memory = Memory()
    with limits(box, points, words):
        report = graded(text, box)
    grown = memory.grown()
    assert not (why := wrong(report, points, words)), why
    assert not (why := harmless(report)), f"{why}:\n{report!r}"
    assert grown < MOST_MEMORY, f"the verdict took {grown >> 20} MiB"
    if number % 3 == 0:
        following = graded(HONEST[number % 2].read_text(), box)
        assert following.passed, f"the next student has\n{following}"
    assert until(lambda: running() <= count), "something is left running"
    assert until(lambda: not new_files(files)), f"left: {new_files(files)}"
    assert not (paths := changed(before)), f"{paths} have changed"


@pytest.mark.parametrize("tier, path", CASES)
def test_a_hostile_file_gets_its_verdict(
    tier: str, path: Path, boxes: Callable[[str], Box]
) -> None:
    """The verdict is right, nothing is left behind, and nobody else is harmed."""
    text = path.read_text()
    survives(text, boxes(tier), *verdict(text), FILES.index(path))


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_an_odd_text_gets_its_verdict(name: str, box: Box) -> None:
    """What is hardly a program is graded as it is, and so is the next one."""
    text, points, words = ODD_TEXTS[name]
    survives(text, box, points, words, list(ODD_TEXTS).index(name))


def test_secrets_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the grader's is not in the box."""
    monkeypatch.setenv("COURSE_SECRET", "of this course")
    with Box() as box:
        report = graded((HOSTILE / "probes_the_environment.py").read_text(), box)
    assert report.passed, report


def test_a_wrong_verdict_is_found(box: Box) -> None:
    """The tests above fail where they should."""
    report = graded(RING, box)
    assert "20 points, not 0..5" in wrong(report, "0..5", "points")
    assert "does not say" in wrong(report, "20", "no such words")
    assert not wrong(report, "0..20", "points") and not harmless(report)


def test_a_thief_has_full_marks_where_nothing_is_hidden() -> None:
    """The hostile file that looks for the solution finds it in a plain process."""
    with Box("D") as box:
        report = graded((HOSTILE / "reads_the_solution.py").read_text(), box)
    assert report.passed, report


@pytest.mark.timeout(400)
def test_nothing_is_found_where_the_kernel_has_no_landlock() -> None:
    """Tiers A and B keep the solution from a rank, and two ranks apart, without it."""
    if reason := tiers.probe("B"):
        pytest.skip(reason)
    hostile, channels = (
        f"{HOSTILE.with_name(file)}::test_{name}"
        for file, name in (
            ("test_hostile.py", "a_hostile_file_gets_its_verdict"),
            ("test_tiers.py", "two_sealed_ranks_have_no_channel"),
        )
    )
    pytest_there = [HOSTILE.with_name("without.py"), "Landlock", "-m", "pytest", "-qrA"]
    tests = [f"{hostile}[{tier}-reads_the_solution]" for tier in "AB"]
    tests += [f"{channels}[{tier}]" for tier in "AB"]
    completed = subprocess.run(
        [sys.executable, *pytest_there, *tests],
        capture_output=True,
        text=True,
        timeout=360,
    )
    assert completed.returncode == 0, completed.stdout
    passed = [x.split("::")[1] for x in completed.stdout.splitlines() if "PASSED" in x]
    assert "test_a_hostile_file_gets_its_verdict[B-reads_the_solution]" in passed
    assert "test_two_sealed_ranks_have_no_channel[B]" in passed


def test_what_a_probe_reaches_shows() -> None:
    """A probe that reaches something where nothing is sealed says so."""
    text = (HOSTILE / "probes_the_environment.py").read_text()
    space: dict = {"__name__": "submission"}
    os.environ["COURSE_SECRET"] = "of this course"
    try:
        exec(text, space)
    finally:
        del os.environ["COURSE_SECRET"]
    assert "COURSE_SECRET" in space["REACHED"]

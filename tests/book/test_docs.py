"""README and the pages of docs/: README is short, and what the pages write works."""

import os
import re
import sys
from functools import reduce
from pathlib import Path

import pytest
from conftest import ROOT
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

import collectives_lab as lab
from book import execution, pages
from collectives_lab.__main__ import COMMANDS
from collectives_lab.notebook.magics import RanksMagics

README = ROOT / "README.md"
DETAILS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DETAILS]
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "autograder" / "GUIDE.md"]

LINES = 150
"""That README may have."""

SECONDS = 100
"""That the code of a page may take."""

OWN = {"README.md": "tests/grading/zoo/ring_all_reduce/ok_plain.py"}
"""What a page calls and leaves to the reader to write."""

ELSEWHERE = {
    "import ipyparallel": "test_ipyparallel has clusters",
    "%%ranks --cluster c": "the same",
}
"""How a block begins that does not run here, and which test has it."""

SHELL = ["torchrun --nproc-per-node 4 train.py"]
"""Blocks for a shell that run between those of Python; other tests have the others."""


def blocks(text: str, languages: str = "python") -> list[str]:
    """The blocks of code of a page in one of some languages, `python|sh` for two."""
    return re.findall(
        rf"^```(?:{languages})\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    )


def cells(text: str) -> list[str]:
    """What of a page runs, in its order, as cells of a notebook."""
    python, collected = blocks(text), []
    for block in blocks(text, "python|sh"):
        if block.strip() in SHELL:
            collected.append(f"%%sh\n{block}")
        elif block in python and not block.startswith(tuple(ELSEWHERE)):
            collected.append(block)
    return collected


def run(sources: list[str], folder: Path) -> None:
    """Run cells in a new kernel; raises what a cell raises, or if a process stays."""
    notebook = new_notebook(cells=[new_code_cell(one) for one in sources])
    execution.run(notebook, SECONDS, folder=folder)


def test_readme_is_one_short_page() -> None:
    """It can be read at a sitting, and names every page that has the details."""
    text = README.read_text()
    assert len(text.splitlines()) <= LINES
    assert [*map(str, DETAILS)] == sorted(map(str, pages.details()))
    for path in DETAILS:
        assert f"](docs/{path.name})" in text


@pytest.mark.parametrize(
    "page", [p for p in PAGES if cells(p.read_text())], ids=lambda p: p.stem
)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch) -> None:
    """All of it in one kernel, from the first block to the last, as a reader would."""
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", here)
    own = [(ROOT / OWN[page.name]).read_text()] if page.name in OWN else []
    run([*own, *cells(page.read_text())], tmp_path)


def test_code_that_fails_is_found(tmp_path: Path) -> None:
    """The test above fails where it should, on ranks too."""
    text = README.read_text().replace(
        "dist.all_reduce(x)\nx\n", "dist.all_produce(x)\n"
    )
    with pytest.raises(CellExecutionError, match="all_produce"):
        run(cells(text)[1:3], tmp_path)


def test_what_does_not_run_here_stands_on_a_page() -> None:
    """A block that is left out, or run by a shell, is one that a page has."""
    text = "".join(path.read_text() for path in DETAILS)
    programs = [block.strip() for block in blocks(text, "python|sh")]
    assert set(SHELL) <= set(programs)
    for beginning in ELSEWHERE:
        assert any(block.startswith(beginning) for block in programs)


# -- what the texts name ---------------------------------------------------------------

TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def unknown(text: str) -> list[str]:
    """The commands and names of a text that are not there."""
    code = "\n".join([*blocks(text, r"\w+"), *re.findall(r"`[^`\n]+`", text)])
    made = re.findall(
        r"(?:^|`)make ([a-z][\w-]*(?: [a-z][\w-]*(?!\w|=))*)", code, re.MULTILINE
    )
    wrong = [
        f"make {name}" for line in made for name in line.split() if name not in TARGETS
    ]
    asked = re.findall(r"-m collectives_lab(?:\.bench\b| (\w+))", code)
    wrong += [f"command {name!r}" for name in asked if name not in COMMANDS]
    for name in re.findall(r"\blab\.([A-Za-z_][\w.]*\b)", code):
        try:
            reduce(getattr, name.split("."), lab)
        except AttributeError:
            wrong.append(f"lab.{name}")
    return wrong


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.stem)
def test_what_a_text_names_is_there(page: Path) -> None:
    """Targets of make, commands of the package, and names of the library."""
    assert unknown(page.read_text()) == []


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("`make labs`", "make labs"),
        ("```sh\nmake env proxies\n```\n", "make proxies"),
        ("`python -m collectives_lab.bench all_reduce`", "command ''"),
        ("`python -m collectives_lab bend`", "command 'bend'"),
        ("```python\nlab.export(fn)\n```\n", "lab.export"),
        ("`lab.Trace.lode(path)`", "lab.Trace.lode"),
    ],
)
def test_a_name_that_is_not_there_is_found(text: str, wrong: str) -> None:
    """The test above fails where it should."""
    assert unknown(text) == [wrong]


def test_the_page_of_notebooks_has_every_option() -> None:
    """The table of `%%ranks` lists what its parser knows, no more and no less."""
    text = (ROOT / "docs" / "notebooks.md").read_text()
    listed = re.findall(r"^\| `(--\w+)", text, re.MULTILINE)
    known = RanksMagics.run_cell.parser._option_string_actions
    assert sorted(listed) == sorted(name for name in known if name.startswith("--"))


def minutes(text: str) -> dict[str, int]:
    """The minutes in README, by the number of a chapter or the name of an exercise."""
    rows = re.findall(r"^\| \[(\d+(?= )|\w+)[^|]*\|.*\| (\d+) \|$", text, re.MULTILINE)
    return {name: int(number) for name, number in rows}


def test_the_preface_sends_readers_on_ways_of_the_hours_that_it_names() -> None:
    """By README's minutes, each within a twentieth."""
    takes = minutes(README.read_text())
    chapters = [name for name in takes if name.isdigit()]
    exercises = [name for name in takes if not name.isdigit()]
    assert len(chapters) == 15 and len(exercises) == 13
    preface = (ROOT / "docs" / "preface.md").read_text()
    rows = re.findall(r"^\| (\d+) hours \|(.*?)\|(.*?)\|", preface, re.MULTILINE)
    assert [int(hours) for hours, _, _ in rows] == [4, 12, 30]
    way: dict[str, int] = {}
    for hours, read, handed_in in rows:
        way = dict(way) if "the same" in read else {}
        parts = re.findall(r"(\d+) \(to [\d.]+, in (\d+) minutes\)", read)
        way |= {name: int(spent) for name, spent in parts}
        whole = re.sub(r"\(.*?\)", "", read)
        if span := re.search(r"(\d+) to (\d+)", whole):
            named = [str(n) for n in range(int(span[1]), int(span[2]) + 1)]
        else:
            named = re.findall(r"\d+|\w+", whole + handed_in)
        for name in takes.keys() & set(named):
            way.setdefault(name, takes[name])
        assert sum(way.values()) == pytest.approx(60 * int(hours), rel=0.05), hours
    assert sum(takes[name] for name in exercises) == pytest.approx(600, rel=0.05)

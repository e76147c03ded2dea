"""The promises of Colab: a notebook opened there installs what it needs, and runs.

The slow tests make an environment with Colab's versions, once, and run chapters in it
as Colab would: as root of a container, on two cores, from the notebook's text alone.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from book import badges, execution, pages
from book.badges import Setting

ROOT = execution.ROOT
EXAMPLE = Setting("owner/name", "v1.0")
ARCHIVE = "https://github.com/owner/name/archive/v1.0.zip"

# -- the badge and the first cell ------------------------------------------------------


def notebook(*cells: NotebookNode) -> NotebookNode:
    opening = new_markdown_cell("# 1 · Ring\n\nA question.", id="opening")
    return new_notebook(cells=[opening, *cells, new_code_cell("x = 1", id="setup")])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of four notebooks, one with a name that an address must quote."""
    for name in (
        "chapters/01_ring.ipynb",
        "chapters/02_größer & kleiner.ipynb",
        "solutions/tree/tree.ipynb",
        "exercises/tree/tree.ipynb",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook(new_markdown_cell("Text.", id="text")), tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    badges.write_setting(Setting(), tmp_path)
    badges.write(tmp_path)
    return tmp_path


def state(tree: Path) -> dict[str, str]:
    files = (path for path in tree.rglob("*") if path.is_file())
    return {path.relative_to(tree).as_posix(): path.read_text() for path in files}


def command(tree: Path, *words: str) -> None:
    """What `make badges` runs."""
    badges.main(words, tree)


GIVEN = ("--repository", EXAMPLE.repository, "--tag", EXAMPLE.tag)


def test_a_badge_opens_its_notebook(tree: Path) -> None:
    """It stands under the title and leads to that path, at that tag, quoted."""
    command(tree, *GIVEN)
    blob = "https://colab.research.google.com/github/owner/name/blob/v1.0"
    for name, opened in {
        "chapters/01_ring.ipynb": "chapters/01_ring.ipynb",
        "chapters/02_größer & kleiner.ipynb": (
            "chapters/02_gr%C3%B6%C3%9Fer%20%26%20kleiner.ipynb"
        ),
        "solutions/tree/tree.ipynb": "exercises/tree/tree.ipynb",
        "exercises/tree/tree.ipynb": "exercises/tree/tree.ipynb",
    }.items():
        first, text, install, *_ = nbformat.read(tree / name, as_version=4).cells
        title, _, badge, _, rest = first.source.split("\n")
        assert (title, rest, text.source) == ("# 1 · Ring", "A question.", "Text.")
        assert badge.startswith("[![Open in Colab](") and badge.endswith(
            f"badge.svg)]({blob}/{opened})"
        )
        assert install.id == "install" and ARCHIVE in install.source


def test_the_command_can_be_repeated_and_undone(tree: Path) -> None:
    """A second run changes nothing; without a repository all is as it was."""
    before = state(tree)
    command(tree, *GIVEN)
    after = state(tree)
    assert all(after[name] != before[name] for name in before)
    written = (tree / "pyproject.toml").stat().st_mtime_ns
    for words in (), ("--tag", "v1.0"), GIVEN:
        command(tree, *words)
        assert state(tree) == after
    # make would set up the environment again.
    assert (tree / "pyproject.toml").stat().st_mtime_ns == written
    command(tree, "--tag", "v2")
    assert badges.read_setting(tree) == Setting("owner/name", "v2")
    assert "blob/v1.0" not in "".join(state(tree).values())
    command(tree, "--repository", "")
    assert state(tree) == before


@pytest.mark.parametrize(
    "words, message",
    [
        (("--repository", "owner/name"), "need both"),
        (("--tag", "v1"), "need both"),
        (("--repository", "name", "--tag", "v1"), "owner/name, as on"),
        (("--repository", "https://x.org/a/b", "--tag", "v1"), "owner/name, as on"),
        (("--repository", "a/b", "--tag", 'v"1'), "a tag has"),
    ],
)
def test_a_wrong_setting_changes_nothing(
    tree: Path, words: tuple[str, ...], message: str
) -> None:
    """It is refused with the rule, before a file is touched."""
    before = state(tree)
    with pytest.raises(SystemExit, match=message):
        command(tree, *words)
    assert state(tree) == before


def test_all_notebooks_are_as_the_setting_says() -> None:
    """`make badges` would change none of those that are committed."""
    setting = badges.read_setting()
    for path, opened in badges.notebooks():
        written = nbformat.read(path, as_version=4)
        before = nbformat.writes(written)
        badges.set_up(written, setting, opened)
        assert nbformat.writes(written) == before, f"{path}: run `make badges`"


def first_cell(setting: Setting, asked: list[str] | None = None) -> None:
    """Run it where `%pip` only notes what it is asked; without `asked` it fails."""
    code = TransformerManager().transform_cell(badges.install_cell(setting))

    class Shell:
        def run_line_magic(self, *words: str) -> None:
            asked.append(" ".join(words))

    exec(code, {} if asked is None else {"get_ipython": Shell})


@pytest.mark.parametrize("setting", [Setting(), EXAMPLE], ids=["none", "example"])
def test_where_the_package_is_the_cell_is_silent(
    setting: Setting, capfd: pytest.CaptureFixture[str]
) -> None:
    """It asks for nothing and says nothing, and has 3 to 6 lines."""
    first_cell(setting)
    assert capfd.readouterr() == ("", "")
    assert 3 <= len(badges.install_cell(setting).splitlines()) <= 6


@pytest.mark.parametrize(
    "setting, source",
    [(Setting(), "./collectives_lab-*.whl"), (EXAMPLE, ARCHIVE)],
    ids=["none", "example"],
)
def test_where_it_is_missing_the_cell_installs_it(
    setting: Setting, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip gets the tag's archive, else an uploaded wheel, and no dependencies."""
    monkeypatch.setitem(sys.modules, "collectives_lab", None)
    asked: list[str] = []
    first_cell(setting, asked)
    assert asked == [f"pip install -q --no-deps cloudpickle {source}"]


def test_the_site_asks_no_other_host() -> None:
    """On a page the badge is a link in words, and no cell installs anything."""
    own = notebook()
    badges.set_up(own, EXAMPLE, "chapters/01_ring.ipynb")
    own.metadata["language_info"] = {"name": "python"}
    done = execution.Execution(execution.chapters()[0], own, 1.0)
    opening, setup, _ = pages.chapter_page(done).cells
    assert setup.id == "setup" and "![" not in opening.source
    assert "\n\n[Open in Colab](https://colab." in opening.source


# -- an environment like Colab's -------------------------------------------------------

WANTED = ROOT / "tests" / "book" / "colab" / "requirements.txt"
CONFINED = ROOT / "tests" / "book" / "colab" / "confined.py"
CHAPTERS = [c for c in execution.chapters() if c.name[:2] in ("04", "10", "14")]
"""They keep ranks from cell to cell and show a widget, start programs, meet faults.

The others run in `test_chapters` only, with this project's versions.
"""

DEADLINE = 300.0
"""Seconds for a chapter; `test_chapters` holds the minute."""

HERE = """
import os, shutil, subprocess, sys, IPython, ipykernel, ipywidgets
from importlib.util import find_spec
versions = [module.__version__ for module in (IPython, ipykernel, ipywidgets)]
assert versions == ["7.34.0", "6.17.1", "7.7.1"], versions
assert len(os.sched_getaffinity(0)) <= 2
assert shutil.which("unshare") and not shutil.which("bwrap")
for flag in ("--user", "--net", "--mount", "--pid"):
    assert subprocess.run(["unshare", flag, "true"], capture_output=True).returncode
assert not any(map(find_spec, ("nbgrader", "jupyterlab", "book", "autograder")))
assert not os.listdir("."), "nothing lies beside the notebook"
"""


def pip(python: Path, *words: str) -> str:
    """What pip prints in that environment."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def installed(python: Path) -> set[str]:
    return set(pip(python, "list", "--format", "freeze").split())


def pinned(name: str) -> str:
    """The line of constraints.txt for a package."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


@pytest.fixture(scope="session")
def colab() -> Path:
    """The Python of an environment like Colab's, made once, without this package."""
    chosen = ROOT / ".venv" / ".torch"  # see the Makefile
    torch = chosen.read_text().split() if chosen.exists() else [pinned("torch")]
    wanted = f"{sys.version}\n{torch}\n{WANTED.read_text()}"
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"colab-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        command = [sys.executable, "-m", "venv", "--clear", str(folder)]
        subprocess.run(command, check=True, timeout=120)
        pip(python, "install", "-q", *torch, "-r", str(WANTED))
        (folder / "complete").touch()
    pip(python, "uninstall", "-q", "-y", "collectives-lab")
    return python


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What GitHub would pack for a tag, as far as pip reads it."""
    path = tmp_path_factory.mktemp("github") / "v1.0.zip"
    package = (ROOT / "collectives_lab").rglob("*")
    files = [f for f in package if f.is_file() and "__pycache__" not in f.parts]
    files += [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE")]
    with zipfile.ZipFile(path, "w") as packed:
        for file in files:
            packed.write(file, Path("name-1.0") / file.relative_to(ROOT))
    return path


@pytest.fixture(scope="session")
def kernels(colab: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tell Jupyter of two kernels there, one of them on a kernel without Landlock."""
    folder = tmp_path_factory.mktemp("jupyter")
    for name, options in {"colab": [], "colab-old": ["--no-landlock"]}.items():
        confined = [sys.executable, str(CONFINED), *options, str(folder / "path")]
        kernel = [str(colab), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (folder / "kernels" / name).mkdir(parents=True)
        (folder / "kernels" / name / "kernel.json").write_text(
            json.dumps({"argv": [*confined, *kernel], "display_name": name})
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        yield folder


def opened(path: Path, archive: Path) -> NotebookNode:
    """A notebook as its badge opens it, where GitHub is a file."""
    chapter = nbformat.read(path, as_version=4)
    badges.set_up(chapter, EXAMPLE, path.name)
    for cell in chapter.cells:
        if cell.get("id") == badges.INSTALL:
            assert ARCHIVE in cell.source
            cell.source = cell.source.replace(ARCHIVE, str(archive))
    return chapter


def run(chapter: NotebookNode, folder: Path, kernel: str = "colab") -> None:
    """Run a notebook in a folder of its own; nothing may stand in its stderr."""
    folder = folder / "content"
    folder.mkdir()
    chapter.cells.insert(0, new_code_cell(HERE))
    execution.run(chapter, DEADLINE, folder=folder, kernel=kernel)
    assert not execution.complaints(chapter)


@pytest.fixture(scope="session")
def package(
    colab: Path, kernels: Path, archive: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Have the first cell of an exercise install it, and hold pip to nothing else."""
    before = installed(colab)
    exercise = opened(ROOT / "exercises/which_verb/which_verb.ipynb", archive)
    exercise.cells = [
        cell for cell in exercise.cells if cell.get("id") == badges.INSTALL
    ]
    exercise.cells.append(new_code_cell("import collectives_lab as lab; lab.__file__"))
    run(exercise, tmp_path_factory.mktemp("first"))
    assert str(colab.parents[1]) in value(exercise.cells[-1])
    after = installed(colab)
    assert before <= after, "pip has replaced something"
    assert [line.split("==")[0] for line in after - before] == ["collectives-lab"]


IN_COLAB = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first makes it all


@pytest.mark.parametrize(
    "chapter", [pytest.param(c, id=c.stem, marks=IN_COLAB) for c in CHAPTERS]
)
def test_a_chapter_runs_on_colab(
    chapter: Path, package: None, archive: Path, tmp_path: Path
) -> None:
    """Run All works there, and no process is left."""
    run(opened(chapter, archive), tmp_path)


@pytest.mark.parametrize(
    "kernel, tier",
    [
        pytest.param(
            "colab",
            "C: no bubblewrap, limits, Landlock, seccomp",
            id="C",
            marks=IN_COLAB,
        ),
        pytest.param("colab-old", "D: no sandbox, limits", id="D", marks=IN_COLAB),
    ],
)
def test_a_check_works_on_colab(
    kernel: str, tier: str, package: None, archive: Path, tmp_path: Path
) -> None:
    """A solved exercise has all its points, in the best sandbox that is left."""
    path = ROOT / "solutions/ring_all_reduce/ring_all_reduce.ipynb"
    exercise = opened(path, archive)
    exercise.cells.append(new_code_cell("report.tier"))
    run(exercise, tmp_path, kernel)
    (check,) = (cell for cell in exercise.cells if cell.get("id") == "check")
    assert value(check) == str(check.metadata.nbgrader.points)
    assert value(exercise.cells[-1]) == repr(tier)


def value(cell: NotebookNode) -> str:
    """What the last expression of a cell gave."""
    return cell.outputs[-1].data["text/plain"]

"""What is released: a wheel and an sdist that work where the repository is not."""

import email
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from test_repository import name_of, pins, project
from zoo_programs import zoo_program

import collectives_lab as lab

NEEDED = ["torch", "numpy", "cloudpickle", "matplotlib"]
"""What the fresh environment has beside the package: the core, and figures."""

PYTHONS = ["3.11", "3.12", "3.13"]
THEORY = ["units", "trace", "trees", "fabrics", "costs", "plans", "replay"]


def test_the_version_stands_in_one_place() -> None:
    """pyproject.toml takes it from the package, and the changelog tells of it."""
    assert "version" not in project() and project()["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", lab.__version__)
    assert "\n## " in (ROOT / "CHANGELOG.md").read_text()


def test_the_linters_read_the_oldest_python() -> None:
    """ruff and mypy hold the code to the oldest Python that the package takes."""
    oldest = project()["requires-python"].removeprefix(">=")
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tools["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert tools["mypy"]["python_version"] == oldest
    assert PYTHONS[0] == oldest
    for version in PYTHONS:
        assert (
            f"Programming Language :: Python :: {version}" in project()["classifiers"]
        )


def test_the_citation_is_whole() -> None:
    """CITATION.cff has what its format wants, and says what pyproject.toml says."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == project()["license"]
    assert citation["type"] == "software"
    assert set(citation["keywords"]) == set(project()["keywords"])
    assert "version" not in citation  # it stands in one place


def files_of_the_package() -> set[str]:
    """All that a wheel must hold, as paths in the repository."""
    paths = (ROOT / "collectives_lab").rglob("*")
    kept = (p for p in paths if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(ROOT).as_posix() for p in kept}


def quiet() -> dict[str, str]:
    """An environment in which pip says only what is wrong."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "PIP_QUIET": "3",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel and the sdist, built as they are for an index."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=quiet()
    )
    output = completed.stdout + completed.stderr
    if "hatchling" in output and re.search("No matching|Could not find", output):
        pytest.skip("hatchling cannot be had: there is no package index here")
    assert completed.returncode == 0, output
    assert not re.search("warn|deprecat", output, re.IGNORECASE), output
    return folder


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def sdist_in(folder: Path) -> Path:
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_no_more(built: Path) -> None:
    """Every file of the package, its data too; no test, no chapter; some MB."""
    names = set(zipfile.ZipFile(wheel_in(built)).namelist())
    beside = {n for n in names if ".dist-info/" in n}
    assert names - beside == files_of_the_package()
    assert wheel_in(built).stat().st_size < 4e6


@pytest.mark.slow
def test_the_sdist_holds_what_the_tests_need(built: Path) -> None:
    """Tests, chapters, exercises and their set-up come with the source; some MB."""
    with tarfile.open(sdist_in(built)) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    assert files_of_the_package() <= names
    folders = ("tests", "chapters", "exercises", "solutions", "autograder", "book")
    for folder in (*folders, "docs"):
        here = {p.name for p in (ROOT / folder).iterdir() if p.suffix in (".py", ".md")}
        assert {f"{folder}/{name}" for name in here} <= names
    for name in ("Makefile", "constraints.txt", "CITATION.cff", ".ci/run", "LICENSE"):
        assert name in names
    assert not any(re.search(r"\.venv|__pycache__|\.git/|^build/", n) for n in names)
    assert sdist_in(built).stat().st_size < 12e6


@pytest.mark.slow
def test_the_metadata_is_complete(built: Path) -> None:
    """An index can show what it is, for whom, under which licence, and its extras."""
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        (name,) = (n for n in wheel.namelist() if n.endswith("METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    assert (
        metadata["Name"] == "collectives-lab" and metadata["Version"] == lab.__version__
    )
    assert metadata["Summary"] == project()["description"]
    assert (
        metadata["License-Expression"] == "MIT"
        and metadata["License-File"] == "LICENSE"
    )
    assert metadata["Requires-Python"] == project()["requires-python"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Classifier"] and metadata["Keywords"]
    extras = project()["optional-dependencies"]
    assert set(metadata.get_all("Provides-Extra")) == set(extras)


def closure(names: list[str]) -> set[str]:
    """These packages and all that they require here, by name."""
    collected: set[str] = set()
    todo = list(names)
    while todo:
        name = name_of(todo.pop())
        if name in collected:
            continue
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system, or of an extra
        collected.add(name)
        todo += [line for line in required if "extra ==" not in line]
    return collected


def linked(src: str, dst: str) -> None:
    """The same file under another name, or a copy on another disk."""
    try:
        os.link(src, dst)
    except OSError:
        shutil.copy2(src, dst)


def pip_of(python: Path) -> list[str]:
    """Our pip, for an environment that then needs none of its own: seconds each."""
    return [sys.executable, "-m", "pip", "--python", str(python)]


def fresh_environment(folder: Path) -> Path:
    """A new environment with the files of our torch and what it needs; its Python.

    Hard links of those packages' files and of no others: neither the repository nor
    its editable install can be reached from there. It saves minutes of downloading.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    completed = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    site = Path(completed.stdout.strip())
    for name in closure(NEEDED):
        files = importlib.metadata.distribution(name).files or []
        tops = {f.parts[0]: f.locate() for f in files if ".." not in f.parts}
        for top in tops:
            source = Path(importlib.metadata.distribution(name).locate_file(top))
            if source.is_dir() and not (site / top).exists():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(
                    source, site / top, copy_function=linked, ignore=ignored
                )
            elif source.is_file() and not (site / top).exists():
                linked(str(source), str(site / top))
    return python


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(request, built, tmp_path_factory) -> Iterator[Path]:
    """The Python of a fresh environment with the package installed from a file."""
    folder = tmp_path_factory.mktemp(request.param)
    python = fresh_environment(folder / "env")
    package = wheel_in(built) if request.param == "wheel" else sdist_in(built)
    command = [*pip_of(python), "install", str(package)]
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=quiet(), cwd=folder
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    yield python
    shutil.rmtree(folder / "env")


def in_an_empty_folder(python: Path, folder: Path, *command: str, code: int = 0) -> str:
    """Run Python there, with nothing of the repository; what it prints."""
    completed = subprocess.run(
        [python, *command],
        cwd=folder,
        env=quiet(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert completed.returncode == code, completed.stdout + completed.stderr
    return completed.stdout


EVERYTHING = """
import importlib, pkgutil, sys
import torch.distributed as dist, torch
import collectives_lab as lab
from collectives_lab import plots, widgets

def add():
    x = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(x)
    return x.item()

def mean(shard):
    told = torch.tensor([shard.sum(), len(shard)])
    dist.all_reduce(told)
    return (told[0] / told[1]).item()

def imported(error):
    return error.name and error.name.partition(".")[0]

if __name__ == "__main__":
    assert lab.__file__.startswith(sys.prefix), lab.__file__
    assert not any(folder.startswith(sys.argv[1]) for folder in sys.path), sys.path
    run = lab.run(add, 2)
    print("results", run.results, run.trace.ops())
    plots.space_time(run.trace).savefig("run.png")
    widgets.step_through(lab.plans.ring_all_reduce(4, 1024))._repr_html_()
    missing = set()
    for module in pkgutil.walk_packages(lab.__path__, "collectives_lab."):
        if "__main__" in module.name or ".scripts" in module.name:
            continue
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            missing.add(imported(error))
    print("missing", *sorted(missing))
"""
OPTIONAL = {"IPython", "ipyparallel", "ipywidgets", "jax", "mpi4py", "nbformat"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_works_where_the_repository_is_not(installed: Path, tmp_path: Path) -> None:
    """Ranks, figures and steppers; every module comes, or lacks an optional package."""
    (tmp_path / "everything.py").write_text(EVERYTHING)
    command = ("everything.py", str(ROOT))
    lines = in_an_empty_folder(installed, tmp_path, *command).splitlines()
    assert "results [3.0, 3.0] {'all_reduce': 2}" in lines
    assert (tmp_path / "run.png").stat().st_size > 5000
    (missing,) = (line for line in lines if line.startswith("missing"))
    assert set(missing.split()[1:]) <= OPTIONAL


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_solution_is_checked_there(installed: Path, tmp_path: Path) -> None:
    """The check passes what is right and fails what is wrong, from a file."""
    for name, code in (("ok_all_reduce", 0), ("local_mean", 1)):
        (tmp_path / f"{name}.py").write_text(
            zoo_program("distributed_mean", name).source
        )
        check = ("-m", "collectives_lab", "check", "distributed_mean", f"{name}.py")
        assert "distributed_mean" in in_an_empty_folder(
            installed, tmp_path, *check, code=code
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_commands_work_there(installed: Path, tmp_path: Path) -> None:
    """The doctor finds the core well, and the bench measures a line."""
    report = json.loads(
        in_an_empty_folder(
            installed, tmp_path, "-m", "collectives_lab", "doctor", "--json"
        )
    )
    assert report["works"] and report["findings"][-1]["state"] == "ok"
    assert report["collectives_lab"] == lab.__version__
    listed = in_an_empty_folder(installed, tmp_path, "-m", "collectives_lab")
    assert "bench" in listed and "check" in listed
    bench = ("bench", "all_reduce", "--sizes", "8:8", "--world-size", "2")
    assert "all_reduce" in in_an_empty_folder(
        installed, tmp_path, "-m", "collectives_lab", *bench
    )
    assert not [p for p in tmp_path.iterdir() if p.name != "__pycache__"]


def python_of(version: str) -> str | None:
    """An interpreter of this version, from the path or from pyenv."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    path = [str(p) for p in sorted(home.glob(f"{version}.*/bin/python"))]
    return next(iter(path), None) or shutil.which(f"python{version}")


SKIPS = '''"""A test that wants ranks is skipped: there is no torch here."""
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    outcome = yield
    error = outcome.excinfo and outcome.excinfo[1]
    if isinstance(error, ImportError) and error.name == "torch":
        outcome.force_exception(pytest.skip.Exception("needs torch"))
'''


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", PYTHONS)
def test_theory_needs_numpy_only(version: str, tmp_path: Path) -> None:
    """Plans, costs, replay and fabrics hold on each Python, where there is no torch."""
    base = python_of(version)
    if base is None:
        pytest.skip(f"there is no Python {version} here")
    python = tmp_path / "env" / "bin" / "python"
    create = [base, "-m", "venv", "--without-pip", tmp_path / "env"]
    subprocess.run(create, check=True, timeout=120)
    wanted = [pins()[name] for name in ("numpy", "pytest", "pytest-timeout")]
    install = [*pip_of(python), "install", *wanted]
    subprocess.run(install, check=True, timeout=300, env=quiet())
    (tmp_path / "without_torch.py").write_text(SKIPS)
    completed = subprocess.run(
        [
            *(python, "-m", "pytest", "--noconftest", "-q", "-p", "without_torch"),
            *("-p", "no:cacheprovider", "-m", "not slow", "-rs"),
            *(f"tests/units/test_{name}.py" for name in THEORY),
        ],
        cwd=ROOT,
        env=quiet() | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert completed.returncode == 0, completed.stdout
    (passed,) = re.findall(r"(\d+) passed", completed.stdout)
    (skipped,) = re.findall(r"(\d+) skipped", completed.stdout)
    assert int(passed) > 300 and int(skipped) < 20

"""The promises of the repository itself: its set-up, and which way modules import."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "collectives_lab"

GROUND = ["units", "own_cluster", "tables", "event", "trace", "clocks", "perfetto"]
GROUND += ["trees", "nodes", "data", "pipes"]
THEORY = ["fabrics", "costs", "plans", "replay", "strategies"]
PRACTICE = [
    *["deadlock", "board", "tcp_info", "devices", "stream_clock"],
    *["_c10d", "callers", "records", "staging", "emulation"],
    *["counts", "recorder", "clock_readings", "parts", "launch"],
    "recording",
    *["algorithms", "parallel", "bench", "wire", "check"],
    *["scripts", "libraries"],
]
VIEWS = ["plots", "widgets", "report", "card", "looks", "magic"]
VIEWS += ["doctor", "__main__"]
FLOORS = GROUND + THEORY + PRACTICE + VIEWS + ["__init__"]
"""Every module or sub-package, bottom first: it imports only what is before it."""

BLIND = {"deadlock", "recorder", "launch", "algorithms", "parallel"}
PREDICTION = {"costs", "plans", "replay"}
"""What acts does not know what was predicted, though it stands above it.

Only emulation does: it is replay acted out, and nobody would call it a measurement.
"""

ROOMS = {
    "matplotlib": {"plots", "report"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "IPython": {"magic"},
    "ipyparallel": {"launch"},
    "pandas": set(),
    "nbgrader": set(),
}
"""Packages that only some modules may import."""
PROCESSES = {"torch", "multiprocessing", "subprocess", "socket"}


def imports(source: str, module: str, is_package: bool = False) -> Iterator[str]:
    """Every dotted name that the source of a module imports, in functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *filter(None, [node.module])])
            if base == "collectives_lab":
                yield from (f"{base}.{alias.name}" for alias in node.names)
            else:
                yield base


def wrong_arrows(source: str, module: str, is_package: bool = False) -> list[str]:
    """Say, in a sentence each, what this module imports and must not."""
    floor = module.split(".")[1] if "." in module else "__init__"
    if floor not in FLOORS:
        return [f"{module} has no floor: put {floor!r} into FLOORS (DESIGN.md, Layout)"]
    wrong = []
    for name in imports(source, module, is_package):
        top, _, rest = name.partition(".")
        below = rest.split(".")[0] or "__init__"
        if top == "collectives_lab" and below != floor:
            if below not in FLOORS:
                wrong.append(
                    f"{module} imports {name}, which is no module in FLOORS; import "
                    "names from the module that defines them"
                )
            elif FLOORS.index(below) > FLOORS.index(floor):
                wrong.append(f"{module} imports {below}, which stands above it")
            elif floor in BLIND and below in PREDICTION:
                wrong.append(f"{module} imports {below}: what acts knows no prediction")
        elif floor not in ROOMS.get(top, {floor}):
            room = " and ".join(sorted(ROOMS[top])) or "no module"
            wrong.append(f"{module} imports {top}, which only {room} may")
        elif floor in GROUND + THEORY and top in PROCESSES:
            wrong.append(f"{module} imports {top}, but theory knows no processes")
    return wrong


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(p for p in parts if p != "__init__"), path


@pytest.mark.parametrize("module, path", [pytest.param(*m, id=m[0]) for m in modules()])
def test_a_module_imports_only_what_stands_below_it(module: str, path: Path) -> None:
    """Data flows one way: no module imports from a floor above its own."""
    wrong = wrong_arrows(path.read_text(), module, path.name == "__init__.py")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "module, source, complaint",
    [
        ("trace", "from collectives_lab.launch import run", "imports launch, which"),
        ("trace", "from collectives_lab import plots", "imports plots, which"),
        ("trace", "def f():\n    from . import magic", "imports magic, which"),
        ("launch.server", "from ..check import x", "imports check, which"),
        ("launch", "import collectives_lab", "imports __init__, which"),
        ("launch", "from collectives_lab import run", "no module in FLOORS"),
        ("launch", "from collectives_lab.plans import ring", "no prediction"),
        ("replay", "import torch.distributed", "no processes"),
        ("launch", "import matplotlib.pyplot as plt", "only plots and report may"),
        ("plots", "from IPython.display import HTML", "only magic may"),
        ("magic", "import pandas", "only no module may"),
        ("novelty", "", "has no floor"),
    ],
)
def test_a_wrong_arrow_is_found(module: str, source: str, complaint: str) -> None:
    """The test above fails where it should."""
    (wrong,) = wrong_arrows(source, f"collectives_lab.{module}")
    assert complaint in wrong


@pytest.mark.parametrize(
    "module, source",
    [
        ("launch.server", "from collectives_lab.launch.rank.channel import send"),
        ("launch.server", "from .channel import send"),
        ("launch.server", "from collectives_lab import board"),
        ("plots.space_time", "import matplotlib, numpy\nfrom ..trace import Trace"),
        ("check", "from collectives_lab.replay import replay\nimport torch"),
    ],
)
def test_a_right_arrow_passes(module: str, source: str) -> None:
    """Importing downwards, or within one's own sub-package, is no error."""
    assert not wrong_arrows(source, f"collectives_lab.{module}")


def test_importing_the_package_needs_no_notebook() -> None:
    """A GPU node without Jupyter and matplotlib can import collectives_lab."""
    code = "import sys, collectives_lab; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split()
    assert not set(loaded) & set(ROOMS)


def name_of(requirement: str) -> str:
    """`"torch>=2.6"` -> `"torch"`, spelled as pip compares names."""
    return re.split(r"[\[=<>!~; ]", requirement)[0].lower().replace("_", "-")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def required() -> set[str]:
    """The packages that pyproject.toml names, in the core and in every extra."""
    extras = project()["optional-dependencies"].values()
    lines = [*project()["dependencies"], *(line for extra in extras for line in extra)]
    return {name_of(line) for line in lines} - {"collectives-lab"}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {name_of(line): line for line in lines if line and not line.startswith("#")}


def conda() -> dict:
    return yaml.safe_load((ROOT / "environment.yml").read_text())


def test_the_core_needs_three_packages() -> None:
    """The package asks for torch, numpy and cloudpickle, and pins none of them."""
    assert project()["dependencies"] == ["torch>=2.6", "numpy", "cloudpickle"]


def test_constraints_pin_what_pyproject_requires() -> None:
    """Every package named in pyproject.toml has a tested version."""
    assert required() <= set(pins())
    for line in pins().values():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), f"{line!r} is no exact pin"


def test_conda_installs_the_same() -> None:
    """environment.yml holds the packages of pyproject.toml at the tested versions."""
    *_, section = conda()["dependencies"]
    options = {"--constraint constraints.txt", "--editable ."}
    listed = set(section["pip"])
    assert options <= listed
    assert listed - options == {pins()[name] for name in required()}


def test_conda_takes_a_python_that_the_package_supports() -> None:
    """The Python of environment.yml is no older than requires-python."""
    least = project()["requires-python"].removeprefix(">=")
    (python,) = (
        line.removeprefix("python=")
        for line in conda()["dependencies"]
        if str(line).startswith("python")
    )
    assert [int(n) for n in python.split(".")] >= [int(n) for n in least.split(".")]


READ_BY_THE_SETUP = [
    *("pyproject.toml", "constraints.txt", "environment.yml", "Makefile", ".ci/run")
]
ADDRESS = re.compile(
    r"\w://|index-url|find-links|PIP_\w*(INDEX|LINKS)|install\b.*\s-[if]\s"
)


@pytest.mark.parametrize("name", READ_BY_THE_SETUP)
def test_the_setup_holds_no_index_address(name: str) -> None:
    """Where packages come from is the reader's choice: their pip's, or TORCH=..."""
    assert not ADDRESS.search((ROOT / name).read_text())


@pytest.mark.parametrize(
    "line",
    [
        "--extra-index-url file:///wheels",
        "torch @ https://example.org/torch.whl",
        "pip install -i example.org/simple torch",
        "export PIP_INDEX_URL=x",
    ],
)
def test_an_index_address_is_found(line: str) -> None:
    """The test above fails where it should."""
    assert ADDRESS.search(line)


PYTHON = """#!/bin/sh
# A Python that makes environments and installs packages in no time.
case "$*" in
    "-m venv "*) echo made >> made; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
    *) : ;;
esac
"""


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
def test_a_clone_that_has_moved_is_set_up_anew(tmp_path: Path) -> None:
    """The scripts in .venv/bin know their old path; elsewhere a set-up is kept."""
    here = tmp_path / "here"
    here.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, here)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)

    def times_made(folder: Path) -> int:
        command = ["make", "env", f"PYTHON={tmp_path / 'python'}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return (folder / "made").read_text().count("made")

    assert times_made(here) == times_made(here) == 1
    (here / "pyproject.toml").touch()
    assert times_made(here) == 1
    there = here.rename(tmp_path / "there")
    assert times_made(there) == times_made(there) == 2


@pytest.mark.parametrize("name", ["exercises", "solutions", "autograder"])
def test_a_folder_says_what_belongs_in_it(name: str) -> None:
    """A reader who opens a folder finds a README there."""
    assert (ROOT / name / "README.md").read_text().startswith("# ")

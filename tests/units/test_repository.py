"""The promises of the repository itself: its set-up, and which way modules import."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml

import collectives_lab as lab
from collectives_lab.basics.verbs import VERBS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "collectives_lab"

FLOORS = [
    ["basics", "data", "fabrics"],
    ["deadlock", "trace"],
    ["algorithms", "costs", "plans", "sandbox"],
    ["formats", "libraries", "recorder"],
    ["launch.rank", "predictions", "replay", "wire"],
    ["emulation", "launch.processes", "plots", "strategies"],
    ["checking", "launch", "other_libraries", "parallel", "truth", "widgets"],
    ["bench", "diagnosis", "doctor", "notebook", "scripts"],
    ["", "__main__"],
]
"""The rooms, bottom first. A room imports only rooms of lower floors; "" is the top."""

MEASURING = {"deadlock", "recorder", "launch", "launch.rank", "launch.processes"}
PREDICTING = {"costs", "libraries", "plans", "predictions", "replay"}
"""What measures knows nothing of what was predicted, directly or by others."""

REPLAY = ("collectives_lab.trace.trace", "collectives_lab.replay")
"""The one edge that goes up, for `Trace.replay`; it is not followed."""

THEORY = {
    *("trace", "fabrics", "plans", "costs", "libraries", "predictions", "replay"),
    *("strategies", "truth", "formats"),
}
PROCESSES = {"torch", "multiprocessing", "subprocess", "socket"}
"""Theory knows none of these."""

USERS = {
    "matplotlib": {"plots"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "google": {"formats"},
    "IPython": {"notebook"},
    "ipyparallel": {"launch.processes"},
    "pandas": set(),
    "nbgrader": set(),
}
"""Packages that only some rooms may import."""

TOP = "collectives_lab"


def names_in(source: str, module: str, is_package: bool = False) -> Iterator[str]:
    """Every dotted name that a module imports, in functions, for types and in strings.

    A string counts that is such a name, as for importlib or `python -m`, but not a
    docstring.
    """
    docs = set()
    for node in ast.walk(ast.parse(source)):  # a docstring comes after what it is of
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)):
            if node.body and isinstance(node.body[0], ast.Expr):
                docs.add(id(node.body[0].value))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: None if is_package else -1]
            above = above[: len(above) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and id(node) not in docs:
            text = node.value if isinstance(node.value, str) else ""
            if text.startswith(TOP) and re.fullmatch(rf"{TOP}(\.\w+)+", text):
                yield text


def modules() -> dict[str, tuple[str, bool]]:
    """The source of each module, and whether it is a room's `__init__`."""
    sources = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        sources[name] = path.read_text(), path.name == "__init__.py"
    return sources


def room(module: str) -> str:
    """The room of a module: the longest name in FLOORS that it begins with."""
    parts = module.split(".")[1:]
    known = {name for floor in FLOORS for name in floor}
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in known), parts[0] if parts else "")


@cache
def imported(source: str, module: str, is_package: bool) -> frozenset[str]:
    """Read a source once, however many tests ask."""
    return frozenset(names_in(source, module, is_package))


def edges(sources: Mapping[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """By module, the modules that it imports; packages of others stay as they are."""
    graph: dict[str, set[str]] = {}
    for module, (source, is_package) in sources.items():
        graph[module] = set()
        for name in imported(source, module, is_package):
            while name.startswith(TOP) and name not in sources and "." in name:
                name = name.rpartition(".")[0]
            if name != module and (module, name) != REPLAY:
                graph[module].add(name)
    return graph


def wrong_arrows(sources: Mapping[str, tuple[str, bool]]) -> list[str]:
    """Say, in a sentence each, what a module imports and must not."""
    levels = {name: n for n, floor in enumerate(FLOORS) for name in floor}
    wrong = []
    for module, names in edges(sources).items():
        here = room(module)
        if here not in levels:
            wrong.append(f"{module} has no floor: put {here!r} into FLOORS (DESIGN.md)")
            continue
        for name in sorted(names):
            top = name.split(".")[0]
            if top == TOP and room(name) != here and name != TOP:
                if room(name) not in levels:
                    wrong.append(f"{module} imports {name}, which has no floor")
                elif levels[room(name)] >= levels[here]:
                    wrong.append(f"{module} imports {name}, which is no floor below")
            elif here not in USERS.get(top, {here}):
                wrong.append(f"{module} imports {top}, which only others may")
            elif here in THEORY and top in PROCESSES:
                wrong.append(f"{module} imports {top}, but theory knows no processes")
    return wrong


def reached(graph: Mapping[str, set[str]], module: str) -> set[str]:
    """All that a module imports, followed to the end."""
    names: set[str] = set()
    todo = [module]
    while todo:
        for name in graph.get(todo.pop(), set()) - names:
            names.add(name)
            todo.append(name)
    return names


def circles(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules that import themselves in the end."""
    return [module for module in graph if module in reached(graph, module)]


def test_a_room_imports_only_rooms_of_lower_floors() -> None:
    """No arrow goes up or stays on its floor, and at most nine floors stand."""
    assert not wrong_arrows(modules())
    assert len(FLOORS) <= 9


def test_no_module_imports_itself_in_the_end() -> None:
    """There is no circle of imports, those for types included."""
    assert not circles(edges(modules()))


def test_what_measures_knows_no_prediction() -> None:
    """The recorder and the launch reach no plan, no cost and no replay, by no way."""
    graph = edges(modules())
    for module in graph:
        if room(module) in MEASURING:
            assert not {room(name) for name in reached(graph, module)} & PREDICTING


def test_an_algorithm_can_be_pasted_with_one_file() -> None:
    """It is `algorithms.steps`, which needs torch only; two need trees or nodes too."""
    graph = edges(modules())

    def beside(name: str) -> set[str]:
        names = graph[f"{TOP}.algorithms.{name}"]
        return {n.removeprefix(f"{TOP}.") for n in names if n.startswith(TOP)}

    for verb in VERBS:
        assert beside(verb) <= {"algorithms.steps", "basics.nodes", "basics.trees"}
    assert not beside("steps")


def test_nothing_lies_loose_at_the_top() -> None:
    """The package is rooms, its own `__init__` and `__main__`, and `py.typed`."""
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_no_room_has_the_name_of_a_public_function() -> None:
    """`lab.check` is a function and `lab.checking` a room."""
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert not rooms & set(lab._HOME)


NOUN_FIRST = re.compile(
    r"(The|An?|Whether|What|How|Which|Why|Where|When|Who|Whose|All|Each|Every|One|By"
    r"|For|At|So|Once|Again|Until|Nobody|Nothing)\b|[A-Z][a-z]*[^\Ws]s\b|[^A-Z]|[A-Z]{2}"
)
"""What no imperative begins with: these words, plurals, code, numbers, acronyms."""

SHOWN = {"collectives_lab/scripts/collective_cheatsheet.py", "autograder/examples.py"}
"""Modules that print their docstrings: what a verb does, what somebody handed in."""


def without_imperative(source: str) -> list[str]:
    """Return the functions whose docstring begins with a noun; properties may."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("__")
        and NOUN_FIRST.match(ast.get_docstring(node) or "")
        and not any("property" in ast.unparse(d) for d in node.decorator_list)
    ]


@pytest.mark.parametrize("folder", ["collectives_lab", "autograder"])
def test_a_functions_docstring_begins_with_an_imperative(folder: str) -> None:
    """A reader learns first what the function does."""
    nouns = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (names := without_imperative(path.read_text()))
    }
    assert nouns.keys() <= SHOWN, nouns


def test_a_docstring_without_an_imperative_is_found() -> None:
    """The test above fails where it should, and lets properties pass."""
    doc = '    """The size."""'
    function, computed = f"def size():\n{doc}\n", f"@property\ndef size():\n{doc}\n"
    assert without_imperative(function) == ["size"]
    assert without_imperative(computed) == []


@pytest.mark.parametrize(
    "module, source, complaint",
    [
        ("trace.x", "from collectives_lab.launch import run", "no floor below"),
        ("trace.x", "from collectives_lab import plots", "no floor below"),
        ("trace.x", "def f():\n    from ..notebook import y", "no floor below"),
        ("trace.x", "if TYPE_CHECKING:\n    import collectives_lab.plans", "below"),
        ("plans.x", "import_module('collectives_lab.replay')", "no floor below"),
        ("bench.x", "import collectives_lab.doctor", "no floor below"),
        ("launch.rank.x", "from collectives_lab.launch import run", "no floor below"),
        ("replay.x", "import torch.distributed", "no processes"),
        ("launch.x", "import matplotlib.pyplot as plt", "only others may"),
        ("plots.x", "from IPython.display import HTML", "only others may"),
        ("novelty", "", "has no floor"),
    ],
)
def test_a_wrong_arrow_is_found(module: str, source: str, complaint: str) -> None:
    """The tests above fail where they should."""
    (wrong,) = wrong_arrows(modules() | {f"{TOP}.{module}": (source, False)})
    assert complaint in wrong


def test_a_circle_and_a_long_way_to_a_prediction_are_found() -> None:
    """Both are followed over several modules."""
    more = {
        f"{TOP}.basics.a": (f"from {TOP}.basics import b", False),
        f"{TOP}.basics.b": (f"from {TOP}.basics.a import f", False),
        f"{TOP}.recorder.a": (f"from {TOP}.trace.a import f", False),
        f"{TOP}.trace.a": (f"from {TOP} import plans", False),
    }
    graph = edges(modules() | more)
    assert circles(graph) == [f"{TOP}.basics.a", f"{TOP}.basics.b"]
    assert f"{TOP}.plans" in reached(graph, f"{TOP}.recorder.a")


@pytest.mark.parametrize(
    "module, source",
    [
        ("launch.processes.x", "from collectives_lab.launch.rank.channel import send"),
        ("launch.processes.x", "from .forked import send"),
        ("launch.x", "from collectives_lab.launch.processes import forked"),
        ("plots.x", "import matplotlib, numpy\nfrom ..trace import Trace"),
        ("checking.x", "from collectives_lab.replay import replay\nimport torch"),
    ],
)
def test_a_right_arrow_passes(module: str, source: str) -> None:
    """Importing downwards, or within one's own room, is no error."""
    assert not wrong_arrows(modules() | {f"{TOP}.{module}": (source, False)})


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
    assert not set(loaded) & set(USERS)


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


def journeys() -> dict[str, list[str]]:
    """The modules that CONTRIBUTING names, by the room whose journey they are in."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split("## Five journeys through the house\n")[1].split("\n## ")[0]
    paragraphs = [p for p in section.split("\n\n") if p.startswith("**")]
    named = {}
    for paragraph in paragraphs:
        (room,) = re.findall(r"in\s`(\w+)/`", paragraph)
        named[room] = re.findall(r"`([\w/]+)`", paragraph.split("**")[2])
    return named


def missing(room: str, name: str) -> bool:
    """Return whether no module or room has this name, here or in the whole package."""
    folders = [ROOT, PACKAGE, PACKAGE / room, ROOT / room]
    return not any((f / f"{name}.py").exists() or (f / name).is_dir() for f in folders)


def test_the_journeys_name_modules_that_exist() -> None:
    """A maintainer who follows a journey opens the files in its order."""
    by_room = journeys()
    assert len(by_room) == 5 and all(len(names) > 7 for names in by_room.values())
    assert not [n for room, names in by_room.items() for n in names if missing(room, n)]
    assert missing("launch", "zygote")

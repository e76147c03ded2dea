"""Run the tests that depend most on torch in an environment of each torch we name.

`python tests/machines/versions.py` takes the oldest torch that pyproject.toml claims,
one in the middle, the pinned one and the newest on the index; with `2.9.1` behind it,
it takes that one. Each pulls its own CUDA build: one environment at a time, removed
after its run. What was run is written into tests/machines/VERSIONS.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "machines" / "VERSIONS.md"

MIDDLE = "2.10.0"
DISK = 8 * 10**9
"""Bytes that the largest of these environments takes (2.10.0: 7.0 GB), and some."""

FILES = [
    *("recorder", "deadlock", "tcp_info", "ranks", "launch"),
    *("wire", "seal", "tiers", "check"),
]
"""What leans on torch's private parts: the recorder, the ranks, the wire, the check."""

BESIDE = ["numpy", "cloudpickle", "pytest", "pytest-timeout", "psutil", "matplotlib"]
SECONDS = 2400.0

LIMITS = """\
What is known of a torch and is not ours to mend:

- **2.6**: its Gloo has no `reduce_scatter` of a list and no `ReduceOp.AVG`;
  `reduce_scatter_tensor` does the same. FSDP2 wants a GPU. On the sealed wire
  `torch.optim` and functional collectives cannot be imported, because a file is
  written when they are.
- **2.6, 2.10**: Gloo has no `all_to_all` of lists; `all_to_all_single` does the same.
- **2.10**: Gloo prints a line on every rank, "[Gloo] Rank 0 is connected to ...", which
  is left out of the output of a run.
- **2.15**: `gather_single` is NCCL's; Gloo refuses it.
"""

HEAD = """\
# What was run on which torch

Written by `make versions`, which runs `{files}` (all but the slow ones)
in a fresh environment for each torch; CI runs the pinned one.

"""


@dataclass
class Result:
    """What came of the tests on one torch."""

    torch: str
    python: str = ""
    numpy: str = ""
    date: str = ""
    passed: int = 0
    skipped: int = 0
    failed: int = 0
    seconds: float = 0.0
    again: int = 0
    failures: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Its line in the table."""
        cells = (self.date, self.torch, self.python, self.numpy)
        counts = (self.passed, self.skipped, self.failed, f"{self.seconds:.0f}")
        return f"| {' | '.join(map(str, cells + counts))} |"


def pins() -> dict[str, str]:
    """The tested versions of constraints.txt, by package."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def oldest() -> str:
    """The oldest torch that pyproject.toml claims: ">=2.6" is 2.6.0."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (least,) = re.findall(r"torch>=([\d.]+)", " ".join(project["dependencies"]))
    return least if least.count(".") == 2 else f"{least}.0"


def newest() -> str:
    """The newest torch on the reader's index."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if match := re.search(r"Available versions: ([\d.]+)", completed.stdout):
        return match[1]
    raise SystemExit(
        f"versions: the index does not say which torch is newest: {completed}"
    )


def make(folder: Path, torch: str) -> Path:
    """An environment with this torch and what the tests need; returns its Python.

    One that was kept is used again.
    """
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    pinned = pins()
    wanted = [f"torch=={torch}", *(f"{name}=={pinned[name]}" for name in BESIDE)]
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # No cache: what is downloaded for one run of the tests would fill the disk twice.
    subprocess.run([*pip, "--no-cache-dir", *wanted], check=True, timeout=3600)
    return python


def copied(folder: Path) -> Path:
    """A copy of the tree as it is now, which nobody edits under the tests."""
    left = (".*", "build", "__pycache__", "*.npz.tmp")
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*left))
    return folder


def tested(python: Path, tree: Path, torch: str, options: Sequence[str]) -> Result:
    """Run the tests there and count."""
    report = tree / "report.xml"
    files = [str(next(tree.glob(f"tests/**/test_{name}.py"))) for name in FILES]
    command = [python, "-m", "pytest", "-q", "-m", "not slow", *files, *options]
    command += [f"--junitxml={report}", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=tree, timeout=SECONDS, check=False)
    ask = (
        "import json, platform, numpy, torch; print(json.dumps([torch.__version__, "
        "platform.python_version(), numpy.__version__]))"
    )
    completed = subprocess.run([python, "-c", ask], capture_output=True, check=True)
    result = Result(*json.loads(completed.stdout))
    result.date = datetime.date.today().isoformat()
    if not report.exists():
        raise SystemExit(f"versions: pytest told nothing on torch {torch}")
    count(report, result)
    return result


def again(result: Result, python: Path, tree: Path) -> None:
    """Run once more what has failed, as a busy machine fails tests of deadlines."""
    report = tree / "report.xml"
    failures = [name.split("::", 1) for name in result.failures]
    names = [f"{file.replace('.', '/')}.py::{name}" for file, name in failures]
    command = [python, "-m", "pytest", "-q", *names, f"--junitxml={report}"]
    subprocess.run(
        [*command, "-p", "no:cacheprovider"], cwd=tree, timeout=SECONDS, check=False
    )
    fresh = Result(result.torch)
    count(report, fresh)
    result.again += len(result.failures) - len(fresh.failures)
    result.passed += result.failed - fresh.failed
    result.failed, result.failures = fresh.failed, fresh.failures


def count(report: Path, result: Result) -> None:
    """Read pytest's report into the result."""
    (suite,) = ET.parse(report).getroot().iter("testsuite")
    number = {name: int(suite.attrib[name]) for name in ("tests", "skipped")}
    for case in suite.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            result.failures.append(f"{case.attrib['classname']}::{case.attrib['name']}")
    result.skipped, result.failed = number["skipped"], len(set(result.failures))
    result.passed = number["tests"] - result.skipped - result.failed
    result.seconds = float(suite.attrib["time"])


def known(text: str) -> dict[str, Result]:
    """The results that VERSIONS.md holds, by torch; they stand in it as JSON too."""
    kept = re.search(r"<!-- (\[.*\]) -->", text, re.DOTALL)
    return {r["torch"]: Result(**r) for r in json.loads(kept[1])} if kept else {}


def _order(version: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", version)]


def written(results: dict[str, Result]) -> str:
    """VERSIONS.md with these results, oldest torch first."""
    rows = [results[torch] for torch in sorted(results, key=_order)]
    files = " ".join(f"test_{name}.py" for name in FILES)
    lines = [
        "| date | torch | Python | numpy | passed | skipped | failed | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(result.row() for result in rows),
        "",
        *(f"- torch {r.torch} failed: `{name}`" for r in rows for name in r.failures),
        *(
            f"- torch {r.torch}: {r.again} of these passed only when run again, alone, "
            "on a machine busy with other work"
            for r in rows
            if r.again
        ),
    ]
    kept = json.dumps([asdict(result) for result in rows])
    table = "\n".join(lines).rstrip()
    return f"{HEAD.format(files=files)}{table}\n\n{LIMITS}\n<!-- {kept} -->\n"


def one(torch: str, folder: Path, keep: bool, options: Sequence[str]) -> Result:
    """Make an environment, run the tests in it and take it away again."""
    free = shutil.disk_usage(folder).free
    if free < DISK:
        raise SystemExit(
            f"versions: torch {torch} with its CUDA libraries takes up to "
            f"{DISK / 1e9:.0f} GB and {free / 1e9:.1f} GB are free in {folder}; "
            "--folder takes another place"
        )
    home = folder / f"torch-{torch}"
    print(f"versions: torch {torch}: installing (up to {DISK / 1e9:.0f} GB)")
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(dir=folder) as tree:
            python = make(home, torch)
            print(f"versions: installed in {time.monotonic() - begun:.0f} s; testing")
            copy = copied(Path(tree) / "tree")
            result = tested(python, copy, torch, options)
            if result.failures:
                again(result, python, copy)
            return result
    finally:
        if keep:
            print(f"versions: kept {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    """Test what is asked for; exit code 1 if a test failed somewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("torch", nargs="*", help="versions; default: four of them")
    parser.add_argument(
        "--keep", action="store_true", help="they stay for the next time"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "versions")
    parser.add_argument("--pytest", default="", help="more options for pytest")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    wanted = asked.torch or [oldest(), MIDDLE, pins()["torch"], newest()]
    failed = 0
    for torch in dict.fromkeys(wanted):
        result = one(torch, asked.folder, asked.keep, asked.pytest.split())
        results = known(KEPT.read_text() if KEPT.exists() else "")
        KEPT.write_text(written(results | {result.torch: result}))
        print(f"versions: {result.row()}")
        failed += result.failed
    print(f"versions: written to {KEPT.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

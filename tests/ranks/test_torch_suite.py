"""PyTorch's own tests end the same plain, recorded and on standing ranks."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from torch_suite import EXCEPTIONS

PROGRAM = Path(__file__).with_name("torch_suite.py")

WAYS = ("plain", "recorded", "ranks")

PASSED = 97
"""How many tests pass at least; most others of some 240 want GPUs."""

Verdicts = Callable[[str], dict[str, str]]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """The verdict of each test by the way in which it runs; each way runs once."""
    folder = tmp_path_factory.mktemp("suite")

    @cache
    def run(way: str) -> dict[str, str]:
        file = folder / way
        command = [sys.executable, str(PROGRAM), way, str(file)]
        if way != "plain":  # most tests are skipped there, as there is no GPU
            run("plain")
            command.append(str(folder / "plain"))
        quiet = subprocess.DEVNULL
        subprocess.run(command, check=True, stdout=quiet, stderr=quiet, timeout=850)
        return json.loads(file.read_text())

    return run


@pytest.mark.slow
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("way", WAYS)
def test_pytorch_s_own_tests_pass(verdicts: Verdicts, way: str) -> None:
    """All that can on a machine without GPUs; what fails fails with torch alone."""
    count = Counter(verdict.split(":")[0] for verdict in verdicts(way).values())
    assert count["passed"] >= PASSED, count
    failed = {n: v for n, v in verdicts(way).items() if v.startswith("failed")}
    assert failed.keys() <= EXCEPTIONS.keys(), failed


@pytest.mark.slow
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("way", WAYS[1:])
def test_pytorch_s_own_tests_end_as_with_torch_alone(
    verdicts: Verdicts, way: str
) -> None:
    """None is newly skipped, and none fails or passes for our presence."""
    differing = {
        name: (plain, verdicts(way).get(name))
        for name, plain in verdicts("plain").items()
        if plain != "skipped"
        and plain.split(":")[0] != verdicts(way).get(name, "").split(":")[0]
    }
    assert not differing

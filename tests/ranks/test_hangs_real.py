"""Real jobs that hang, die or are well: `explain` names who is at fault, or nobody."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from hangs import battery, cases, torchfrtrace
from hangs.battery import complaints, complaints_without, dumps, marks, marks_without
from hangs.generated import GENERATED

import collectives_lab as lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

AT_ONCE = 4
"""Launchers that share the jobs: most of a job is waiting."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What each job leaves, in a folder of its name."""
    folder, names = tmp_path_factory.mktemp("hangs"), list(cases.JOBS_BY_NAME)
    command = [sys.executable, "-m", "hangs.launch", str(folder)]
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    launchers = [
        subprocess.Popen(
            [*command, *names[n::AT_ONCE]], env=os.environ | {"PYTHONPATH": path}
        )
        for n in range(AT_ONCE)
    ]
    try:
        assert [launcher.wait(250) for launcher in launchers] == [0] * AT_ONCE
    finally:
        for launcher in launchers:
            launcher.kill()
            launcher.wait()
    yield folder


def test_with_all_files_explain_names_the_culprit(folder: Path) -> None:
    """The right one nine times of ten, nobody where nothing hangs, no false proof."""
    lines = marks(lab.explain, cases.REAL, folder)
    assert not complaints(lines), "\n".join(complaints(lines))


def test_without_a_file_explain_names_nobody_wrong(folder: Path) -> None:
    """Whichever file is missing, the culprit is the right one, or unknown."""
    wrong = complaints_without(marks_without(lab.explain, cases.REAL, folder))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("judge", battery.WRONG)
def test_who_guesses_fails(judge: battery.Judge, folder: Path) -> None:
    """The rank with the lowest number, nobody, or all well: none passes."""
    assert complaints(marks(judge, cases.REAL, folder))


def test_each_job_left_what_it_should(folder: Path) -> None:
    """A log a rank; a dump of each that did not die at once; torchrun's last words."""
    died = {"died_memory": {2}, "died_extension": {1}, "shapes_last_batch": {2}}
    for job in cases.JOBS:
        ranks = set(range(job.world_size))
        assert len(list((folder / job.name).glob("rank*.log"))) == job.world_size
        found = set(dumps(folder / job.name))
        if job.name in ("shapes_vocabulary", "dtypes_labels"):  # who aborts is by luck
            assert found < ranks
        else:
            assert found == ranks - died.get(job.name, set())
    assert "SIGKILL" in (folder / "died_memory" / "launcher.log").read_text()


def test_a_dump_on_paper_has_the_fields_of_a_real_one(folder: Path, tmp_path) -> None:
    """Names and types, in pickle and JSON, as this torch's recorder writes them."""
    GENERATED["pipeline_checkpoint"](tmp_path / "pickle")
    GENERATED["straggler_gpu"](tmp_path / "json")
    real = dumps(folder / "busy_loader")
    if real[1]["version"] != "2.10":
        pytest.skip(f"this torch writes version {real[1]['version']}")
    paper = dumps(tmp_path / "pickle")[2], dumps(tmp_path / "json")[0]
    for ours, theirs in zip(paper, (real[2], real[0]), strict=True):
        assert set(ours) == set(theirs)
        assert types(ours["pg_status"]["0"]) == types(theirs["pg_status"]["0"])
        entry, like = ours["entries"][-1], theirs["entries"][-1]
        assert types(entry) | {"duration_ms": "float"} == types(like) | DIFFERS


DIFFERS = {"duration_ms": "float"}
"""What NCCL's recorder writes and Gloo's does not."""


def types(fields: dict) -> dict[str, str]:
    """The type of each field; a time that is not known may be missing."""
    times = ("time_discovered_started_ns", "time_discovered_completed_ns")
    return {name: type(v).__name__ for name, v in fields.items() if name not in times}


def test_torchs_own_tool_answers_about_each_job(folder: Path, tmp_path) -> None:
    """The table beside ours: it reads what is mended for it, and is often wrong."""
    said = {
        case: torchfrtrace.about(case, folder / case.name)[1] for case in cases.REAL
    }
    assert not any(words.startswith("crash") for words in said.values())
    right = {case for case, words in said.items() if words.startswith("right")}
    assert 5 <= len(right) <= len(said) - 5
    ours = marks(lab.explain, cases.REAL, folder)
    assert sum(line.mark == "right" for line in ours) > len(right)

"""Jobs on paper that hang, or do not: `explain` names who is at fault, or nobody."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from conftest import ROOT

import collectives_lab as lab
from collectives_lab.diagnosis import KINDS, dump_times
from collectives_lab.diagnosis.call_code import Unwritten
from collectives_lab.diagnosis.evidence import collect
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.program_text import program
from hangs import battery, cases
from hangs.battery import (
    complaints,
    complaints_without,
    dumps,
    marks,
    marks_without,
    summary,
)
from hangs.generated import GENERATED


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each job leaves, in a folder of its name."""
    folder = tmp_path_factory.mktemp("hangs")
    for name, write in GENERATED.items():
        write(folder / name)
    return folder


def test_with_all_files_explain_names_the_culprit(folder: Path) -> None:
    """The right one nine times of ten, nobody where nothing hangs, no false proof."""
    lines = marks(lab.explain, cases.GENERATED, folder)
    assert not complaints(lines), "\n".join(complaints(lines))


def test_without_a_file_explain_names_nobody_wrong(folder: Path) -> None:
    """Whichever file is missing, the culprit is the right one, or unknown."""
    lines = marks_without(lab.explain, cases.GENERATED, folder)
    wrong = complaints_without(lines)
    assert not wrong, "\n".join(wrong)


ON_NCCL = ROOT / "tests/hangs/on_nccl"


def test_what_jobs_on_nccl_left_names_the_culprit() -> None:
    """All files, and all but one, of real jobs under NCCL on a GPU."""
    for case in cases.ON_NCCL:
        (line,) = marks(lab.explain, [case], ON_NCCL)
        assert line.mark == "right", line
    wrong = complaints_without(marks_without(lab.explain, cases.ON_NCCL, ON_NCCL))
    assert not wrong, "\n".join(wrong)


def test_two_ranks_that_both_receive_are_not_well_for_ras() -> None:
    """RAS counts no messages: where they hang it sees nothing, which is no health."""
    verdict = lab.explain(ON_NCCL / "circle_recv")
    assert (verdict.kind, verdict.culprits) == ("unknown", [])
    assert "neither sends nor receives" in str(verdict)


def test_one_report_of_ras_may_be_of_a_bad_moment(tmp_path: Path) -> None:
    """Two groups in different orders are said to hang where the counts stay."""
    twice = (ON_NCCL / "circle_groups" / "ras.txt").read_text()
    first, second = twice.split("NCCL version")[1:]
    (tmp_path / "ras.txt").write_text(first)
    assert lab.explain(tmp_path).kind == "unknown"
    (tmp_path / "ras.txt").write_text(first + second)
    assert lab.explain(tmp_path).kind == "deadlock"
    went_on = second.replace("operation 2", "operation 4")
    went_on = went_on.replace("operation 1", "operation 3")
    (tmp_path / "ras.txt").write_text(first + went_on)
    assert lab.explain(tmp_path).kind == "unknown"


def test_a_rank_that_ras_lists_without_a_count_is_read(tmp_path: Path) -> None:
    """It is behind in one communicator, and has an error in the other."""
    report = (ON_NCCL / "circle_groups" / "ras.txt").read_text()
    ahead = "Rank 0 has launched up to operation 2 --"
    (tmp_path / "ras.txt").write_text(report.replace(ahead, "Rank 0 --"))
    assert lab.explain(tmp_path).kind in ("busy", "unknown")


def test_a_dump_on_paper_has_the_fields_of_nccls(folder: Path) -> None:
    """Names and types, as torch 2.11 writes them for NCCL."""
    real = dumps(ON_NCCL / "missed_call")[0]
    paper = dumps(folder / "pipeline_checkpoint")[0]
    lacks = set(real) - set(paper)
    assert lacks <= {"comm_lib_version"}, lacks
    one, other = real["entries"][-1], paper["entries"][-1]
    assert set(one) >= ENTRY and set(one) >= set(other)
    for name in ENTRY:
        if None not in (one[name], other[name]):  # what has not happened has no time
            assert type(one[name]) is type(other[name]), name


def test_the_command_says_what_the_function_says(folder: Path) -> None:
    """The exit status tells whether something hangs."""
    for name, status in (("pipeline_circle", 1), ("healthy_pipeline", 0)):
        command = [sys.executable, "-m", "collectives_lab", "explain", "--json"]
        done = subprocess.run([*command, folder / name], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        answer, said = lab.explain(folder / name), json.loads(done.stdout)
        assert said["culprits"] == list(answer.culprits)
        assert (said["kind"], said["proved"]) == (answer.kind, answer.proved)


def test_each_failure_has_a_program_or_a_sentence(folder: Path) -> None:
    """Of any choice of files, too: what they lack is made up, or nothing is offered."""
    random, without = Random(19), set()
    for case in cases.GENERATED * 3:
        files = battery.files_of(folder / case.name)
        some = random.sample(files, random.randint(1, len(files)))
        for paths in ([folder / case.name], some):
            verdict = lab.explain(paths)
            if verdict.kind in ("healthy", "unknown"):
                continue
            try:
                job = read_job(paths)
                text = program(job, verdict).text
            except Unwritten:
                without.add(case.name)
                continue
            compile(text, case.name, "exec")
            assert len(text.splitlines()) <= 32, text
    assert without == {"forgotten_wait_streams"}


def read_job(paths: list[Path]) -> Job:
    job = Job.of(collect(paths))
    dump_times.sort_out(job)
    return job


@pytest.mark.parametrize("judge", battery.WRONG)
def test_who_guesses_fails(judge: battery.Judge, folder: Path) -> None:
    """The rank with the lowest number, nobody, or all well: none passes."""
    lines = marks(judge, cases.GENERATED, folder)
    assert complaints(lines)
    assert summary(lines)["right"] <= len(lines) // 3


def test_who_trusts_the_lowest_number_is_wrong_without_a_file(folder: Path) -> None:
    """The battery of missing files finds that, too."""
    lines = marks_without(battery.lowest_number, cases.GENERATED, folder)
    assert complaints_without(lines)


def test_whoever_knows_the_answers_passes(folder: Path) -> None:
    """The battery asks for nothing that an answer cannot have."""
    answers = {case.name: case for case in cases.GENERATED}

    def knows(path: Path, *_more: Path) -> battery.Said:
        case = answers[path.name if path.is_dir() else path.parent.name]
        return battery.Said(case.culprits, case.kinds[0], proved=case.provable)

    assert not complaints(marks(knows, cases.GENERATED, folder))
    assert not complaints_without(marks_without(knows, cases.GENERATED, folder))


def test_each_class_of_failure_is_there_twice() -> None:
    """Real jobs and those on paper together: twenty failures, five that are none."""
    every = [*cases.REAL, *cases.GENERATED]
    failures = [case for case in every if not case.is_healthy]
    assert len(failures) >= 20 and len(every) - len(failures) == 5
    kinds = {kind for case in failures for kind in case.kinds} - {"unknown"}
    for kind in kinds:
        assert sum(case.kinds[0] == kind for case in failures) >= 2, kind
    assert {case.name for case in cases.GENERATED} == set(GENERATED)
    assert {case.name for case in cases.REAL} == set(cases.JOBS_BY_NAME)


ENTRY = {
    *("frames", "record_id", "pg_id", "process_group", "collective_seq_id"),
    *("p2p_seq_id", "op_id", "profiling_name", "time_created_ns", "timeout_ms"),
    *("input_sizes", "input_dtypes", "output_sizes", "output_dtypes"),
    *("state", "retired", "is_p2p"),
    *("time_discovered_started_ns", "time_discovered_completed_ns"),
}


def test_a_dump_on_paper_has_what_its_version_writes(folder: Path) -> None:
    """The names of the fields, as in torch's tutorial and headers of each version."""
    extra = {"2.5": [], "2.7": ["nccl_version"], "2.10": ["comm_lib_version"]}
    seen = set()
    for name in GENERATED:
        for dump in dumps(folder / name).values():
            version = dump["version"]
            outside = {"entries", "pg_config", "pg_status", "version", *extra[version]}
            assert set(dump) - {"nccl_comm_state"} == outside
            threads = {"thread_id", "thread_name"} if version == "2.10" else set()
            for found in dump["entries"]:
                assert (ENTRY | threads) - {"frames"} <= set(found)
                assert set(found) <= ENTRY | threads | {"duration_ms"}
            seen.add(version)
    assert seen == set(extra)


def test_the_page_has_every_job_and_every_kind() -> None:
    """Its table says what each job's answer is, and `lab.explain` is right on it."""
    page = (ROOT / "docs" / "explain.md").read_text()
    for case in (*cases.REAL, *cases.GENERATED):
        row = f"| {case.name} | {'/'.join(case.kinds)} {list(case.culprits)} | right | "
        assert row in page, row
    assert all(f"| `{kind}` |" in page for kind in KINDS)

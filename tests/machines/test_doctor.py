"""The doctor: what it says of this machine, a poorer one, and one without torch."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import versions
from conftest import ROOT
from test_repository import name_of, project

import collectives_lab as lab
from collectives_lab import __main__ as commands
from collectives_lab import doctor
from collectives_lab.doctor import core, machine, optional, rank_probes
from collectives_lab.doctor.finding import MARKS, Finding, run_probes
from collectives_lab.sandbox import cgroup


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    """What the doctor finds here."""
    return list(doctor.examine())


def named(findings: list[Finding], name: str) -> Finding:
    (one,) = (f for f in findings if f.name == name)
    return one


def test_the_core_runs_here(findings: list[Finding]) -> None:
    """Nothing is missing where these tests run, and the last word is a real run's."""
    assert doctor.works(findings)
    last = findings[-1]
    assert (last.section, last.state) == ("a run", "ok")
    assert last.result.startswith("added 1 and 2 to 3")


def test_what_can_be_tried_was_tried(findings: list[Finding]) -> None:
    """Bytes on the wire were counted and a deadlock proved, where that can be had."""
    assert named(findings, "deadlocks").state == "ok"
    assert named(findings, "sandbox").result.startswith("tier ")
    if sys.platform == "linux":
        assert named(findings, "TCP_INFO").state == "ok"


@pytest.mark.parametrize("width", [40, 60, 80])
def test_it_fits_a_terminal(findings: list[Finding], width: int) -> None:
    """No line is longer than the terminal, and every finding has its mark."""
    for finding in [*findings, Finding("a", "b", "bad", "word " * 90, "word " * 90)]:
        lines = finding.text(width).splitlines()
        assert max(map(len, lines)) <= width
        assert lines[0].startswith(f"  {MARKS[finding.state]} {finding.name}")


@pytest.mark.parametrize("missing, code", [(False, 0), (True, 1)])
def test_json_and_exit_code(findings, missing, code, monkeypatch, capsys) -> None:
    """A bug report holds all of it; the exit code says whether the core can run."""
    examined = [*findings, Finding("core", "x", "bad", "not there")][
        : None if missing else -1
    ]
    monkeypatch.setattr(doctor, "examine", lambda: iter(examined))
    assert doctor.main(["--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert report["collectives_lab"] == lab.__version__
    assert report["works"] is not missing
    assert [f["name"] for f in report["findings"]] == [f.name for f in examined]


@pytest.mark.parametrize("state", ["ok", "note", "less"])
def test_only_the_core_decides(state: str) -> None:
    """What works less well, or is optional, is no failure."""
    assert doctor.works([Finding("extras", "x", state, "")])
    assert not doctor.works([Finding("core", "x", "bad", "")])


def without(package: str, folder: Path, *command: str, error: str = "ImportError"):
    """Run Python where a package cannot be imported."""
    (folder / package).mkdir()
    broken = f"raise {error}('libfoo is gone')\n"
    (folder / package / "__init__.py").write_text(broken)
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_without_torch_it_says_what_to_do(tmp_path: Path, error: str) -> None:
    """The doctor comes without torch, names it, and still looks at all the rest."""
    completed = without(
        "torch", tmp_path, "-m", "collectives_lab", "doctor", error=error
    )
    assert completed.returncode == 1 and not completed.stderr
    assert "!! torch         libfoo is gone" in completed.stdout
    assert "installed and broken" in completed.stdout  # its metadata is still there
    assert "not tried: the core is not complete" in completed.stdout
    assert "ok cores" in completed.stdout and "notebooks" in completed.stdout


def test_without_numpy_one_line_says_what_to_do(tmp_path: Path) -> None:
    """Nothing works without it, not even the doctor."""
    completed = without("numpy", tmp_path, "-m", "collectives_lab", "doctor")
    assert completed.returncode == 1
    last = completed.stderr.rstrip().splitlines()[-1]
    assert last.startswith("ImportError: collectives_lab needs numpy, which cannot be")
    assert "libfoo is gone" in last and "pip install numpy" in last


THEORY = """
import collectives_lab as lab
plan = lab.plans.ring_all_reduce(4, 1024)
print(plan.replay(lab.fabrics.ethernet(25, 4)).elapsed > 0, lab.strategies.__name__)
try:
    lab.run
except ImportError as error:
    print(error)
from collectives_lab import checking
"""


def test_without_torch_theory_works(tmp_path: Path) -> None:
    """Plans, replay and strategies need none; what does says so, and whom to ask."""
    completed = without("torch", tmp_path, "-c", THEORY)
    assert completed.stdout.startswith("True collectives_lab.strategies\n")
    assert "collectives_lab.run needs torch" in completed.stdout
    assert "collectives_lab doctor" in completed.stdout
    assert (
        completed.stderr.rstrip()
        .splitlines()[-1]
        .startswith("ImportError: collectives_lab.checking needs torch")
    )


@pytest.mark.parametrize("name, room", [("bench", "bench"), ("check", "checking")])
def test_without_torch_a_command_says_what_to_do(
    tmp_path: Path, name: str, room: str
) -> None:
    """`python -m collectives_lab bench` ends in one line, and not in a traceback."""
    completed = without("torch", tmp_path, "-m", "collectives_lab", name)
    assert completed.returncode == 1 and not completed.stdout
    (line,) = completed.stderr.splitlines()
    assert f"collectives_lab.{room} needs torch" in line and "libfoo is gone" in line
    assert "`python -m collectives_lab doctor` says what to do" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["doctor", "bench all_reduce --sizes 8:8 --world-size 2"]
)
def test_a_reader_who_leaves_ends_it(command: str) -> None:
    """Into `head`, or a pager that is left, it ends without a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    completed = subprocess.run(
        [sys.executable, "-m", *f"collectives_lab {command}".split()],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
    )
    os.close(writer)
    assert completed.returncode == 141 and "Error" not in completed.stderr


@pytest.mark.parametrize(
    "version, state",
    [("2.5.1", "bad"), ("2.6.0", "ok"), ("2.13.0+cpu", "ok"), ("2.99.0a1", "note")],
)
def test_the_torch_that_was_tried(version, state, monkeypatch) -> None:
    """An older torch than we claim is refused; a newer one than was tried is named."""
    monkeypatch.setattr(torch, "__version__", version)
    assert core.torch().state == state


def test_the_range_is_the_one_in_the_book_of_versions() -> None:
    """The doctor's range begins where pyproject.toml does; both ends were run."""
    tried = {tuple(versions._order(t)[:2]) for t in versions.known(read_versions())}
    assert versions._order(versions.oldest())[:2] == list(core.OLDEST)
    assert {core.OLDEST, core.NEWEST} <= tried and max(tried) == core.NEWEST


def read_versions() -> str:
    return versions.KEPT.read_text()


@pytest.mark.parametrize(
    "results, ops",
    [([3.0, 2.0], {"all_reduce": 2}), ([3.0, 3.0], {"all_reduce": 1}), ([], {})],
)
def test_a_wrong_run_is_no_run(results: list, ops: dict) -> None:
    """A wrong sum or a call that was not recorded: the core does not work."""
    trace = SimpleNamespace(ops=lambda: ops)
    assert (
        rank_probes.finding_of_run(SimpleNamespace(results=results, trace=trace)).state
        == "bad"
    )


@pytest.mark.parametrize(
    "error, actual",
    [
        (OSError(99, "no address"), "OSError: [Errno 99] no address"),
        (
            lab.RankError("all 2 ranks failed\n\nin a.py\nRuntimeError: no lo\n"),
            "RankError: all 2 ranks failed: RuntimeError: no lo",
        ),
    ],
)
def test_a_run_that_cannot_be_is_no_run(error, actual, monkeypatch) -> None:
    """Whatever error ends the last run, it ends the doctor's trust, and is named."""

    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("collectives_lab.launch.run", refused)
    (last,) = rank_probes.real_run()
    assert (last.state, last.result) == ("bad", actual)
    (unproved,) = rank_probes.deadlock()
    assert unproved.state == "less" and actual in unproved.result


def test_where_ranks_cannot_meet_none_is_tried(monkeypatch, tmp_path) -> None:
    """Without a loopback or /proc the doctor names that, and no run, as the reason."""
    assert not [*core.loopback(), *core.proc()]
    unreachable = OSError(101, "Network is unreachable")

    def refused(*_: object, **__: object) -> None:
        raise unreachable

    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(core, "PROC", tmp_path / "gone")
    monkeypatch.setattr(sys, "platform", "linux")
    examined = list(doctor.examine())
    assert [f.name for f in examined if f.state == "bad"] == ["loopback", "/proc"]
    assert named(examined, "loopback").result.endswith(
        "127.0.0.1: Network is unreachable"
    )
    assert (examined[-1].state, examined[-1].result[:9]) == ("note", "not tried")
    assert not any(f.section == "ranks" for f in examined)


def test_a_look_that_fails_does_not_end_it() -> None:
    """Whatever a strange machine does, the other findings come."""

    def the_shape_of_it() -> Iterator[Finding]:
        yield Finding("machine", "first", "ok", "")
        raise RuntimeError("odd")

    first, failed = run_probes("machine", the_shape_of_it)
    assert first.state == "ok"
    assert (failed.name, failed.state) == ("the shape of it", "less")
    assert "RuntimeError: odd" in failed.result


@pytest.mark.parametrize(
    "limit, state, text",
    [("50000 100000", "less", "may use 0.5"), ("max 100000", None, "")],
)
def test_a_container_with_less(limit, state, text, tmp_path, monkeypatch) -> None:
    """A container's limit counts, not the machine's cores; no limit is none."""
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "OWN", tmp_path / "gone")
    (tmp_path / "cpu.max").write_text(limit)
    (finding,) = machine.cores()
    assert text in finding.result
    assert state is None or finding.state == state
    (tmp_path / "memory.max").write_text("500000000")
    (finding,) = machine.memory()
    assert finding.state == "less" and "may use" in finding.result


@pytest.mark.parametrize(
    "own, folder, limits",
    [
        (
            "0::/jobs/1/step",
            "jobs/1",
            {"cpu.max": "50000 100000", "memory.max": "500000000"},
        ),
        (
            "3:cpu,cpuacct:/jobs/1\n2:memory:/jobs/1\n0::/",
            "{}/jobs",
            {
                "cpu.cfs_quota_us": "50000",
                "cpu.cfs_period_us": "100000",
                "memory.limit_in_bytes": "500000000",
            },
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_a_job_with_less(own, folder, limits, tmp_path, monkeypatch) -> None:
    """A limit counts where it is set: on a group around this process's own."""
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "OWN", tmp_path / "own")
    for name, limit in limits.items():
        file = tmp_path / folder.format(name.partition(".")[0]) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit)
    (cores,), (memory,) = machine.cores(), machine.memory()
    assert "may use 0.5" in cores.result and "may use" in memory.result
    assert (cores.state, memory.state) == ("less", "less")


NVIDIA_SMI = """#!/bin/sh
case "$1" in
    topo) cat '{topology}' ;;
    *) for i in 1 2 3 4 5 6 7 8; do echo 'NVIDIA H100, 81559 MiB, 550.54'; done ;;
esac
"""


def test_gpus_and_their_links(tmp_path, monkeypatch) -> None:
    """What the driver's tool says is counted: here, a machine of eight GPUs."""
    (topology,) = (ROOT / "collectives_lab" / "data").rglob("h100_topo.txt")
    tool = tmp_path / "nvidia-smi"
    tool.write_text(NVIDIA_SMI.format(topology=topology))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    gpus, links = machine.gpus()
    assert gpus.result == "8 x NVIDIA H100, 81559 MiB, 550.54"
    assert links.result.startswith("28 pairs by NV18")
    assert core.nccl(driver=True, gpus=0).state == "less"


def test_a_driver_that_fails_is_reported(tmp_path, monkeypatch) -> None:
    """A tool that is there and does not answer is not taken for no GPU."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (gpus,) = machine.gpus()
    assert gpus.state == "less"


def test_the_extras_are_those_of_the_project() -> None:
    """Each extra that a reader may want is looked at, by packages that it installs."""
    extras = project()["optional-dependencies"]
    assert set(optional.EXTRAS) == set(extras) - {"book", "dev"}
    for extra, (names, _) in optional.EXTRAS.items():
        assert set(names) <= {name_of(line) for line in extras[extra]}


def test_commands_are_listed_and_there(monkeypatch, capsys) -> None:
    """Without a command all are listed; each is a module that can be run."""
    monkeypatch.setattr(sys, "argv", ["collectives_lab"])
    assert commands.main() == 0
    output = capsys.readouterr().out
    for name in commands.COMMANDS:
        assert f"\n  {name}" in output
        module, _ = commands.COMMANDS[name]
        assert callable(import_module(f"collectives_lab.{module}").main)
    monkeypatch.setattr(sys, "argv", ["collectives_lab", "chek"])
    assert commands.main() == 2
    assert "no command 'chek'" in capsys.readouterr().err

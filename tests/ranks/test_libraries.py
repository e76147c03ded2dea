"""The promises of `libraries`: a program runs here, or its record is shown and said."""

import contextlib
import json
import os
import re
import sys
import time

import numpy as np
import psutil
import pytest
from conftest import until

from collectives_lab import plans
from collectives_lab.data import shipped
from collectives_lab.other_libraries import verbs
from collectives_lab.other_libraries.verbs import Started

RECORDS = json.loads(shipped(verbs.RECORDS).read_text())
KiB, MiB = 2**10, 2**20


XLA_CALL = "xla_compiled jax_sums.py"


def python(code: str, name: str = XLA_CALL) -> Started:
    return Started(name, [sys.executable, "-c", code])


def test_what_runs_here_is_live() -> None:
    """The last line of a program is its answer, and asking twice changes nothing."""
    started = python("print('noise'); print('{\"library\": \"mine 1.0\"}')")
    answer = started.answer()
    assert (answer.live, answer.where) == (True, "run here: mine 1.0")
    assert started.answer() is answer


@pytest.mark.parametrize(
    "started, why",
    [
        (lambda: Started(XLA_CALL, [], "jax is not there"), "jax is not there"),
        (lambda: python("1 / 0"), r"it failed here \(ZeroDivisionError: .*\)"),
        (lambda: python("raise SystemExit(3)"), r"it failed here \(no message\)"),
    ],
)
def test_what_does_not_run_here_is_a_record(started, why: str) -> None:
    """The record that ships is shown, and the answer says so, why and from when."""
    answer = started().answer()
    assert not answer.live and answer.said == RECORDS[XLA_CALL]
    assert re.fullmatch(rf"{why}; recorded 20\d\d-\d\d-\d\d with jax .*", answer.where)


def test_what_is_no_json_is_refused() -> None:
    """A program of a reader that prints words is told what its last line must be."""
    with pytest.raises(ValueError, match=r"mine printed 'done\\n'; need a last line"):
        python("print('done')", "mine").answer()


def test_a_program_of_ones_own_names_no_library() -> None:
    """What it prints is its answer, and the version of the library is beside it."""
    answer = python("print([1, 2])", "jax_sum.py").answer()
    assert answer.said["printed"] == [1, 2]
    assert re.fullmatch(r"run here: jax [\d.]+", answer.where)


def alive(leader: int) -> list[int]:
    """The processes of a group that still run."""
    collected = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process.pid) == leader:
                collected += [process.pid] * (process.info["status"] != "zombie")
    return collected


def test_what_takes_too_long_is_ended() -> None:
    """At the deadline a program and its children end, and the record is shown."""
    code = "import subprocess; subprocess.run(['sleep', '60'])"
    started = python(code)
    time.sleep(0.3)
    answer = started.answer(timeout=0.1)
    assert not answer.live and answer.where.startswith("it took over 0.1 s")
    program = started._program
    assert program is not None and program.poll() is not None
    assert until(lambda: not alive(program.pid))


def test_what_was_not_recorded_is_reported() -> None:
    """An unknown call names those of which a record ships."""
    with pytest.raises(
        LookupError, match=r"no record of 'mpi 5'; need one of 'mpi all"
    ):
        Started("mpi 5", [], "Open MPI is not installed").answer()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mpi4py the calls of the chapter give records."""
    find = verbs.importlib.util.find_spec
    hide = lambda name: None if name in ("mpi4py", "jax") else find(name)  # noqa: E731
    monkeypatch.setattr(verbs.importlib.util, "find_spec", hide)
    answers = [started.answer() for started in verbs.calls()]
    assert not any(answer.live for answer in answers)
    assert len(RECORDS) == len(answers) + 1


def nearest(wire: list, nbytes: int) -> str:
    names = "naive", "ring", "tree", "recursive_doubling", "halving_doubling"
    planned = {n: getattr(plans, f"{n}_all_reduce")(4, nbytes) for n in names}
    apart = {
        n: abs(np.array(wire) - p.bytes_by_pair()).sum() for n, p in planned.items()
    }
    return min(apart, key=lambda n: apart[n])


def mpi_facts(all_reduce: dict, ring: dict) -> None:
    """What chapter 10 says of Open MPI."""
    for nbytes, name in (KiB, "recursive_doubling"), (MiB, "halving_doubling"):
        calls = all_reduce["calls"]["all_reduce"][str(nbytes)]
        assert nearest(calls["wire"], nbytes) == name
        assert calls["results"] == [[85, 85]] * 4
    wire = np.array(ring["calls"]["all_reduce"][str(MiB)]["wire"])
    assert nearest(wire.tolist(), MiB) == "ring" and 6 <= wire.sum() / MiB < 6.01


def xla_facts(record: dict) -> None:
    """What it says of XLA's compiler."""
    left = {name: len(lines) for name, lines in record["printed"].items()}
    assert left == {
        **{"two_sums": 1, "own_piece_of_the_sum": 1},
        **{"unused_sum": 0, "scattered_sum": 1},
    }
    assert "reduce-scatter(" in record["printed"]["scattered_sum"][0]


def sum_facts(record: dict) -> None:
    """What the programs of one sum print: each rank's input after it, and the sum."""
    assert record["printed"] == [[4**rank, 85] for rank in range(4)]


def gloo_facts(record: dict) -> None:
    """What it says of XLA over Gloo."""
    sent = {verb: np.sum(wire) / MiB for verb, wire in record["wire"].items()}
    bounds = {"all_reduce": 6, "reduce_scatter": 3.5, "all_gather": 3, "all_to_all": 3}
    assert all(abs(sent[verb] - bound) < 0.01 for verb, bound in bounds.items()), sent


MPI_CALL = "mpi all_reduce 4 decides 1024 4096 8192 1048576"


def test_the_records_say_what_the_chapter_says() -> None:
    """A reader without these libraries sees the same."""
    mpi_facts(RECORDS[MPI_CALL], RECORDS["mpi all_reduce 4 ring 1048576"])
    xla_facts(RECORDS[XLA_CALL])
    sum_facts(RECORDS["mpi mpi_sum.py 4"])
    sum_facts(RECORDS["jax_sum.py"])
    gloo_facts(RECORDS["xla_over_gloo 1048576"])


def test_a_wrong_record_is_found() -> None:
    """The tests of facts fail where MPI sends a ring and XLA merges nothing."""
    ring = RECORDS["mpi all_reduce 4 ring 1048576"]
    calls = ring["calls"]["all_reduce"][str(MiB)]
    wrong = {"calls": {"all_reduce": {str(KiB): calls, str(MiB): calls}}}
    with pytest.raises(AssertionError):
        mpi_facts(wrong, ring)
    compiled = RECORDS[XLA_CALL]["printed"] | {"two_sums": ["a", "b"]}
    with pytest.raises(AssertionError):
        xla_facts({"printed": compiled})


@pytest.mark.slow
def test_mpi_really_runs() -> None:
    """Open MPI is installed here, runs as this user on four ranks, and does as said."""
    decided, forced = (
        verbs.mpi("all_reduce", KiB, MiB),
        verbs.mpi("all_reduce", MiB, algorithm="ring"),
    )
    one_sum = verbs.mpi_program(verbs.SCRIPTS / "mpi_sum.py")
    answers = decided.answer(100), forced.answer(100), one_sum.answer(100)
    assert all(answer.live for answer in answers), answers
    mpi_facts(answers[0].said, answers[1].said)
    sum_facts(answers[2].said)


@pytest.mark.slow
def test_xla_really_runs() -> None:
    """So does XLA, in one process and over Gloo on four."""
    over_gloo = verbs.xla_over_gloo(MiB)
    compiled = verbs.xla_compiled(verbs.SCRIPTS / "jax_sums.py")
    one_sum = verbs.jax_program(verbs.SCRIPTS / "jax_sum.py")
    answers = compiled.answer(100), over_gloo.answer(100), one_sum.answer(100)
    assert all(answer.live for answer in answers), answers
    xla_facts(answers[0].said)
    gloo_facts(answers[1].said)
    sum_facts(answers[2].said)

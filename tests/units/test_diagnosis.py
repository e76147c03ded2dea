"""The judge of hangs: each kind from small dumps, one file missing, mixtures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dump_files import STEP, Recorder, recorders

from collectives_lab.diagnosis import explain
from collectives_lab.diagnosis.verdict import KINDS, Verdict

Case = Callable[[Path], tuple[list[Recorder], str, list[int]]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


@case
def shape(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        r.call(size=(10 if r.rank == 2 else 12,), state="started", line=30)
    return ranks, "shape", [2]


@case
def shape_of_all_gather(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        n = 5 if r.rank == 1 else 3
        r.call("all_gather", (n,), out=(4, n), state="started")
    return ranks, "shape", [1]


@case
def dtype(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        r.call(dtype="Half" if r.rank == 3 else "Float", state="started")
    return ranks, "dtype", [3]


@case
def order_of_verbs(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        verb = "broadcast" if r.rank == 1 else "all_reduce"
        r.call(verb, state="scheduled", line=40 + (r.rank == 1))
    return ranks, "order", [1]


@case
def order_of_lines(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """The same verb with other sizes, which the others make at another line."""
    ranks = recorders(steps=0)
    for r in ranks:
        for _ in range(3):
            r.call(size=(10,), line=30)
            r.call(size=(20,), line=31)
        r.call(
            size=(20 if r.rank == 2 else 10,), line=30 + (r.rank == 2), state="started"
        )
    return ranks, "order", [2]


@case
def order_long_ago(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Two calls were swapped and went through; the hang comes later."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        for verb in ("barrier", "reduce")[:: -1 if r.rank == 0 else 1]:
            r.call(verb)
        r.call(state="scheduled")
    return ranks, "order", [0]


@case
def busy(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        if r.rank != 2:
            r.call(state="scheduled", line=50)
    return ranks, "busy", [2]


@case
def busy_by_stack(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks, kind, culprits = busy(folder)
    (folder / "pyspy_rank_2.txt").write_text(
        'Process 7: python train.py\n\nThread 7 (active): "MainThread"\n'
        "    _next_data (torch/utils/data/dataloader.py:700)\n"
        "    epoch (/home/me/train.py:77)\n"
    )
    return ranks, kind, culprits


@case
def busy_behind_a_chain(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Ranks 2 and 3 wait for rank 1, which waits for rank 0 in another group."""
    ranks = recorders()
    for r in ranks:
        r.groups["1"] = [0, 1]
        if r.rank == 1:
            r.call(group="1", state="started")
        elif r.rank > 1:
            r.call(state="started")
    return ranks, "busy", [0]


@case
def exception(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks, _, culprits = busy(folder)
    (folder / "job.log").write_text(
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/home/me/train.py", line 61, in step\n'
        "[rank2]:     loss = 1 / count\n"
        "[rank2]: ZeroDivisionError: division by zero\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/home/me/train.py", line 50, in step\n'
        "[rank0]: RuntimeError: Connection closed by peer [10.0.0.2]:2901\n"
    )
    return ranks, "exception", culprits


@case
def died(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks, _, culprits = busy(folder)
    (folder / "torchrun.log").write_text(
        "E1206 failed (exitcode: -9) local_rank: 2 (pid: 12) of binary: python\n"
        "Root Cause (first observed failure):\n[0]:\n"
        "  rank      : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 12)\n"
    )
    return [r for r in ranks if r.rank != 2], "died", culprits


@case
def forgotten_wait(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        if r.rank == 1:
            r.message("send", 0, state="scheduled", line=70)
            r.call(state="started", line=71)
        elif r.rank == 0:
            r.message("recv", 1, state="started", line=72)
        else:
            r.call(state="started", line=71)
    return ranks, "forgotten_wait", [1]


@case
def forgotten_wait_in_gloo(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Gloo records no message: op_id shows that there was one, and a stack the recv."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        if r.rank == 1:
            r.message("send", 0)
        if r.rank != 0:
            r.call(state="scheduled", line=71)
    (folder / "rank_0_stack.txt").write_text(
        'Process 7: python train.py\n\nThread 7 (idle): "MainThread"\n'
        "    recv (torch/distributed/distributed_c10d.py:2500)\n"
        "    step (/home/me/train.py:72)\n"
    )
    return ranks, "forgotten_wait", [1]


@case
def straggler(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo", steps=0)
    for r in ranks:
        for _ in range(8):
            r.call(late=STEP // 2 if r.rank == 3 else r.rank * 1000)
        if r.rank != 3:
            r.call(state="scheduled")
    return ranks, "straggler", [3]


@case
def slow_network(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(steps=0)
    for r in ranks:
        for n in range(6):
            r.call(size=(1 << 20,), took=STEP // 2 if n > 2 else STEP // 100)
        r.call(size=(1 << 20,), state="started")
    return ranks, "slow_network", []


@case
def slow_message(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Two ranks are in one message, both sides posted, and the others wait for them."""
    ranks = recorders()
    for r in ranks:
        if r.rank < 2:
            verb = "recv" if r.rank else "send"
            r.message(verb, 1 - r.rank, (1 << 20,), state="started")
        else:
            r.call(state="started")
    return ranks, "slow_network", []


@case
def recv_against_recv(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        if r.rank < 2:
            r.message("recv", 1 - r.rank, state="started")
        else:
            r.call(state="started")
    return ranks, "deadlock", [0, 1]


@case
def two_groups_in_two_orders(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        r.groups = {"1": range(4), "2": range(4)}
        r.call(group="2" if r.rank % 2 else "1", state="scheduled")
    return ranks, "deadlock", [0, 1, 2, 3]


@case
def healthy_at_the_end(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    return recorders(backend="gloo"), "healthy", []


@case
def healthy_in_the_middle(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """The dumps are of moments that are some calls apart."""
    ranks = recorders()
    for r in ranks:
        for _ in range(r.rank):
            r.call()
        r.call(state="started")
    return ranks, "healthy", []


def told(*paths: Path) -> Verdict:
    """Explain, without running a program."""
    return explain(*paths, reproduce=False)


def judged(make: Case, folder: Path, judge: Callable = told) -> tuple[Any, ...]:
    ranks, *truth = make(folder)
    for recorder in ranks:
        recorder.save(folder)
    return judge(folder), *truth


@pytest.mark.parametrize("name", CASES)
def test_each_kind_is_told(name: str, tmp_path: Path) -> None:
    """With all files, the culprits and the kind are the right ones."""
    verdict, kind, culprits = judged(CASES[name], tmp_path)
    assert (verdict.kind, verdict.culprits) == (kind, culprits), str(verdict)
    assert kind in KINDS
    if kind != "healthy" and not name.startswith("slow"):
        assert verdict.lines, "the user's lines are part of the answer"


@pytest.mark.parametrize("name", CASES)
def test_without_any_one_file_it_is_right_or_unknown(name: str, tmp_path: Path) -> None:
    """A missing dump, log or stack never makes the answer name somebody else."""
    _, kind, culprits = judged(CASES[name], tmp_path)
    for path in sorted(tmp_path.iterdir()):
        contents = path.read_bytes()
        path.unlink()
        verdict = told(tmp_path)
        if verdict.kind != "unknown":
            assert verdict.culprits == culprits, f"without {path.name}: {verdict}"
            assert not (verdict.proved and verdict.kind != kind), path.name
        path.write_bytes(contents)


def lowest_number(folder: Path) -> Verdict:
    """Judge wrongly: who has made the fewest calls is at fault."""
    from collectives_lab.formats import flight_recorder

    dumps = [flight_recorder.read(p) for p in folder.glob("nccl_trace*")]
    last = {d.rank: max((c.number for c in d.calls), default=0) for d in dumps}
    fewest = [rank for rank, n in last.items() if n == min(last.values())]
    return Verdict("busy", sorted(fewest))


def test_a_wrong_judge_fails_the_battery(tmp_path: Path) -> None:
    """To blame the lowest last number is wrong in most cases."""
    wrong = 0
    for name, make in CASES.items():
        folder = tmp_path / name
        folder.mkdir()
        verdict, kind, culprits = judged(make, folder, lowest_number)
        wrong += (verdict.kind, verdict.culprits) != (kind, culprits)
    assert wrong > len(CASES) / 2

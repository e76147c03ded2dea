"""A node with GPUs: its checks, skipped where there is none, and all of them but CUDA.

On one `make test-gpu`, or without pytest `tests/gpu/run.py`, proves what is said of it
(docs/gpus.md). Here the same checks run on CPU tensors, messages are staged
that need not be, and events of a made-up GPU tell the time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from conftest import until
from gpu import bodies, checks, ways

import collectives_lab as lab
from collectives_lab import algorithms, bench, recorder
from collectives_lab.algorithms import all_reduce, steps
from collectives_lab.basics import devices
from collectives_lab.bench.timing import measure
from collectives_lab.bench.verbs import VERBS
from collectives_lab.checking import failure_messages as words
from collectives_lab.doctor import rank_probes
from collectives_lab.launch import LaunchError
from collectives_lab.launch.processes import backends
from collectives_lab.parallel import mesh, pipeline, problem, schedules
from collectives_lab.recorder import (
    call_arguments,
    cuda_timing,
    interposer,
    staging,
)
from collectives_lab.trace import Event, Trace
from collectives_lab.wire import Failure, Program

cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROOT = Path(__file__).parents[2]
RUN = ROOT / "tests/gpu/run.py"

# -- on a machine with GPUs ------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", checks.CHECKS)
@pytest.mark.parametrize("way", ways.GPU_WAYS)
def test_on_a_gpu(way: str, check: str, tmp_path: Path) -> None:
    """What a check promises holds in each way that NCCL and GPUs allow for."""
    if why := ways.why_not(way):
        pytest.skip(why)
    one, here = checks.CHECKS[check], ways.possible()[way]
    if not one.suits(here):
        pytest.skip(f"only with {one.wants}")
    one.fn(here, tmp_path)


# -- the runner ------------------------------------------------------------------------


def run(out: Path, *args: str, at: Path = RUN) -> subprocess.CompletedProcess:
    """Run the runner with what a bare machine has."""
    return subprocess.run(
        [sys.executable, str(at), "--out", str(out), *args],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(out.parent)},
        capture_output=True,
        text=True,
        timeout=800,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_checks_hold_on_the_cpu(tmp_path: Path) -> None:
    """Without a GPU the same functions hold by Gloo, so on one only CUDA is new."""
    done = run(tmp_path / "out", "--device", "cpu", "--minutes", "12")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out/report.json").read_text())["results"]
    wanted = [c.name for c in checks.CHECKS.values() if c.suits(ways.CPU)]
    assert [r["check"] for r in results] == wanted
    with tarfile.open(tmp_path / "out/gpu_check.tar.gz") as archive:
        names = archive.getnames()
    for name in ("machine.json", "topo.txt", "ring-gloo-cpu.npz", "report.txt"):
        assert f"gpu_check/{name}" in names
    files = list((tmp_path / "out").rglob("*"))
    assert len(files) <= 8 and sum(f.stat().st_size for f in files) < 16 * 2**20


WRONG = '''
import os, time
CHECKS.clear()
@check()
def begins(way, out):
    """It holds."""
@check()
def fails(way, out):
    """It fails."""
    assert way.world_size == 5, "on purpose"
@check(1)
def hangs(way, out):
    """It hangs."""
    time.sleep(100)
@check()
def dies(way, out):
    """It dies."""
    os._exit(7)
@check()
def holds(way, out):
    """It holds."""
    (out / "kept.txt").write_text("here")
'''


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_runner_outlives_what_it_runs(tmp_path: Path) -> None:
    """A check that fails, hangs or dies is told, and those after it still run."""
    at = tmp_path / "tests/gpu"
    shutil.copytree(ROOT / "tests/gpu", at)
    with open(at / "checks.py", "a") as file:
        file.write(WRONG)
    done = run(tmp_path / "out", "--device", "cpu", at=at / "run.py")
    table = [line.split()[:3] for line in done.stdout.splitlines()[1:6]]
    assert table == [
        ["held", "gloo-cpu", "begins"],
        ["FAILED", "gloo-cpu", "fails"],
        ["LATE", "gloo-cpu", "hangs"],
        ["FAILED", "gloo-cpu", "dies"],
        ["held", "gloo-cpu", "holds"],
    ]
    assert done.returncode == 1 and "on purpose" in done.stdout
    assert "ended with 7" in done.stdout


@pytest.mark.parametrize(
    "words, out, message",
    [
        (["--only", "nosuch"], "out", "no check is called so; there are"),
        (["--ways", "nosuch"], "out", "gloo-cpu: ranks_have_their_gpu"),
        ([], "file/out", "need a folder that can be made"),
    ],
)
def test_the_runner_says_what_it_cannot(words, out, message, tmp_path: Path) -> None:
    """A check that is not there, or a folder, is no run that went well."""
    (tmp_path / "file").touch()
    done = run(tmp_path / out, "--device", "cpu", *words)
    assert done.returncode == 2 and message in done.stdout and not done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_ways_say_why() -> None:
    """Where there is no GPU each way says what it lacks."""
    for way in ways.GPU_WAYS:
        assert "CUDA" in ways.why_not(way) or "GPU" in ways.why_not(way)
    assert ways.possible() == {} and ways.possible("cpu")


# -- which backend ---------------------------------------------------------------------


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Pretend to have so many GPUs and such an NCCL."""

    def pretend(count: int, nccl: tuple[int, ...] = (2, 29, 7)) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
        monkeypatch.setattr(devices, "nccl_version", lambda: nccl)

    return pretend


@pytest.mark.parametrize(
    "asked, count, env, backend, reason",
    [
        ("auto", 4, {}, "nccl", "4 GPUs for 4 ranks"),
        ("auto", 1, {}, "gloo", "1 GPU for 4 ranks, and NCCL wants one a rank; CUDA "),
        ("auto", 8, {"CUDA_VISIBLE_DEVICES": "0,1"}, "gloo", "2 GPUs for 4 ranks"),
        ("auto", 8, {"CUDA_VISIBLE_DEVICES": "-1"}, "gloo", "no GPU here"),
        ("gloo", 4, {}, "gloo", "asked for; CUDA tensors pass through the CPU"),
        ("gloo", 0, {}, "gloo", "asked for"),
        ("nccl", 4, {}, "nccl", "asked for"),
        ("nccl", 1, {"NCCL_HOSTID": "h{rank}"}, "nccl", "as if on different hosts"),
    ],
)
def test_the_backend_is_what_the_gpus_allow(
    gpus, monkeypatch, asked, count, env, backend, reason
) -> None:
    """NCCL with a GPU a rank, else Gloo, and the reason says what that means."""
    gpus(count)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    actual, why = backends.choose(asked, 4, env)
    assert actual == backend and reason in why


def test_ranks_share_a_gpu_where_nccl_lets_them(gpus) -> None:
    """From 2.30 on by NCCL's setting; before, the error says what to do."""
    gpus(1, (2, 30, 7))
    assert "share 1 GPU" in backends.choose("nccl", 4)[1]
    assert backends.environment("nccl", 4, {}) == {backends.SHARE: "1"}
    assert backends.environment("nccl", 1, {}) == {}
    gpus(1, (2, 29, 7))
    with pytest.raises(LaunchError, match=r"NCCL 2.30 .*2.29.7.*NCCL_HOSTID"):
        backends.choose("nccl", 4)
    gpus(0)
    with pytest.raises(LaunchError, match="no GPU here") as error:
        backends.choose("nccl", 4)
    assert "NCCL_HOSTID" not in str(error.value)


def test_each_rank_has_a_host_of_its_own() -> None:
    """`{rank}` in a host's id is the rank's number; nothing else differs by rank."""
    env = {"NCCL_HOSTID": "host{rank}", "A": "{rank}"}
    assert backends.of_rank(env, 3) == {"NCCL_HOSTID": "host3"}
    assert backends.of_rank({"A": "{rank}"}, 3) == {}
    run = lab.run(lambda: __import__("os").environ["NCCL_HOSTID"], 2, env=env)
    assert run.results == ["host0", "host1"]


def test_a_rank_computes_where_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU under Gloo; COLLECTIVES_LAB_DEVICE says otherwise."""
    assert devices.own() == torch.device("cpu")
    monkeypatch.setenv(devices.SETTING, "tpu")
    with pytest.raises(ValueError, match="'tpu'; it is cpu or cuda"):
        devices.own()


def test_the_doctors_run_adds_where_ranks_compute() -> None:
    """What it says of NCCL it has seen NCCL do, and not Gloo beside it."""
    with pytest.raises(lab.RankError, match="'tpu'; it is cpu or cuda"):
        lab.run(rank_probes._add_ranks, 1, env={devices.SETTING: "tpu"})


def test_our_group_is_known_to_be_nccls(tmp_path: Path) -> None:
    """A group with Gloo for the CPU beside NCCL for GPUs is NCCL's."""

    def body() -> tuple[bool, bool]:
        config = dist.get_backend_config
        before = devices.runs_on_nccl()
        dist.get_backend_config = lambda group: "cpu:gloo,cuda:nccl"
        after = devices.runs_on_nccl()
        dist.get_backend_config = config
        return before, after

    assert lab.run(body, 1, backend="gloo").results == [(False, True)]


# -- messages by way of the CPU --------------------------------------------------------


def test_staged_messages_arrive() -> None:
    """What is staged is what was sent, one by one, in batches and from many."""
    checks.arrived(lab.run(bodies.messages, 3, (1000, True)), 1000)


def test_a_message_that_does_not_land_is_found() -> None:
    """Without the copy back to the GPU the check of messages fails."""

    def never_landing() -> list[torch.Tensor]:
        staging.wait = staging._wait
        return bodies.messages(1000, True)

    with pytest.raises(AssertionError, match="message 0 is wrong"):
        checks.arrived(lab.run(never_landing, 3), 1000)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_staged_send_sends_what_was_there(recorded: bool) -> None:
    """A tensor may be overwritten after a staged isend, also where nobody records."""

    def body() -> list[float]:
        staging.is_needed = lambda tensor, group: True
        torch.cuda.is_initialized = lambda: True
        x = torch.full((4,), float(dist.get_rank()))
        with nullcontext() if recorded else recorder.absent():
            if dist.get_rank():
                work = dist.irecv(x)
                work.wait()
            else:
                work = dist.isend(x, 1)
                x.fill_(7.0)
                work.wait()
        return x.tolist() + [float(len(staging.landings))]

    assert lab.run(body, 2).results == [[7.0] * 4 + [0.0], [0.0] * 5]


def test_on_the_cpu_nothing_is_staged() -> None:
    """A tensor of the CPU goes as it is, and one for NCCL too."""
    cuda = SimpleNamespace(is_cuda=True)
    assert not staging.is_needed(torch.ones(1), None)
    assert staging.is_needed(cuda, None)


# -- algorithms and trainings where messages are NCCL's --------------------------------


def measured_in_batches(count: int) -> dict[str, int]:
    """Wrong elements by algorithm, where messages are given to NCCL: in batches."""
    steps.needs_batching = all_reduce.needs_batching = lambda group, tensor: True
    wrong = {}
    for verb in VERBS:
        names = tuple(n for n in bench.names(verb) if n != "library")
        if names:
            sweep = bench.Sweep(verb, [4], names, warmup=0, iterations=1)
            wrong |= {f"{r.algorithm}_{verb}": r.wrong for r in measure(sweep, count)}
    return wrong


@pytest.mark.parametrize("world_size", [2, 3])
def test_algorithms_hold_in_batches(world_size: int) -> None:
    """Every algorithm is right when its messages are posted as NCCL needs them."""
    for wrong in lab.run(measured_in_batches, world_size, (5,)).results:
        assert set(wrong) == set(algorithms.__all__) and not any(wrong.values()), wrong


def test_messages_that_wait_for_each_other_are_one_batch() -> None:
    """Under NCCL both directions of an exchange are in one batch, or they hang."""

    def body() -> list[str]:
        steps.needs_batching = all_reduce.needs_batching = lambda group, tensor: True
        lab.algorithms.ring_all_reduce(torch.ones(8))
        return [record.variant for record in recorder.current().records]

    assert lab.run(body, 2).results == [["batch_isend_irecv"] * 4] * 2


def test_what_needs_tags_is_refused_under_nccl() -> None:
    """A pipeline says what to do instead of hanging."""
    for rank, result in enumerate(lab.run(refused, 2).results):
        assert result.startswith(f"rank {rank}: this group sends by NCCL"), result
        assert 'dist.new_group(backend="gloo")' in result


def same_grids(**levels: int) -> list[bool]:
    """Whether each level of our own mesh has the ranks of torch's."""
    ours = mesh.of_gloo("cpu", tuple(levels), tuple(levels.values()))
    right = mesh.grid(**levels)
    ranks = dist.get_process_group_ranks
    return [ranks(ours.get_group(n)) == ranks(right.get_group(n)) for n in levels]


def test_a_grid_of_gloos_is_the_same() -> None:
    """With Gloo and GPUs a grid has the levels that torch gives it elsewhere."""
    for levels in ({"data": 6}, {"data": 2, "tensor": 3}, {"a": 1, "b": 6, "c": 1}):
        results = lab.run(lambda levels: same_grids(**levels), 6, (levels,)).results
        assert results == [[True] * len(levels)] * 6


def alone_on_nccl() -> float:
    """The loss of a pipeline of one rank, in a group that seems to be NCCL's."""
    devices.runs_on_nccl = lambda group=None: True
    devices.own = lambda: torch.device("cpu")
    return bodies._pipeline()[0]


def test_a_rank_alone_needs_no_tags() -> None:
    """On a machine with one GPU one rank has NCCL, and sends no messages."""
    (loss,) = lab.run(alone_on_nccl, 1).results
    assert loss > 0


def refused() -> str:
    """What a pipeline says to a group of NCCL's."""
    stage = pipeline.cut(problem.new_model(), 2, dist.get_rank())
    devices.runs_on_nccl = lambda group=None: True
    part = problem.Batch(torch.zeros(2, 4).long(), torch.zeros(2, 4).long())
    try:
        pipeline.step(stage, part, schedules.gpipe(2, 2), (problem.LENGTH, 32))
    except ValueError as error:
        return str(error)
    return ""


# -- the clock of a GPU ----------------------------------------------------------------


class FakeEvent:
    """An event of a GPU that is `LATE` behind the host: it comes by so much later."""

    LATE = 0.03

    def __init__(self) -> None:
        self.at = time.perf_counter() + self.LATE

    def query(self) -> bool:
        return time.perf_counter() >= self.at

    def elapsed_time(self, end_event: FakeEvent) -> float:
        return (end_event.at - self.at) * 1e3


def with_a_fake_gpu(late: float) -> None:
    """Let every call of this process be one of NCCL's on a GPU with fake events."""
    FakeEvent.LATE, cuda_timing.PATIENCE = late, late + 60
    cuda_timing.recorded = lambda device: FakeEvent()
    cuda_timing.is_capturing = lambda: False
    cuda_timing.free_stream = lambda device: nullcontext()
    cuda_timing._clock = lambda device: (_fresh := FakeEvent(), _fresh.at)
    devices.runs_on_nccl = lambda group=None: True
    call_arguments.device_of = lambda operator, args: 0
    describe = call_arguments.describe
    call_arguments.describe = lambda *args: describe(*args)._replace(on_cpu=False)


def on_a_fake_gpu(late: float) -> tuple[float, float]:
    """An all_reduce, one that is waited for later, and when the host made the first."""
    with_a_fake_gpu(late)
    recorder.start(recorder.Recorder(dist.get_rank()))
    begun = time.perf_counter()
    dist.all_reduce(torch.ones(4))
    work = dist.all_reduce(torch.ones(4), async_op=True)
    assert until(work.is_completed)  # the other rank may come late to it
    time.sleep(0.05)
    work.wait()
    launched = time.perf_counter() - begun
    columns = recorder.current().drain().columns
    times = [columns[name] - begun for name in ("issued", "waited", "completed")]
    return launched, [*zip(*times, strict=True)]


@pytest.mark.parametrize("late", [0.0, 3.0])
def test_recorded_times_are_the_gpus(late: float) -> None:
    """Calls have the times at which the GPU comes by, and launching waits for none."""
    for launched, rows in lab.run(on_a_fake_gpu, 2, (late,)).results:
        assert late == 0 or launched < late
        (issued, waited, ended), (later, wait, done) = rows
        assert issued >= late and issued == waited <= ended
        assert later >= ended and done < wait  # over before the stream waited for it
        assert wait - later >= 0.05


def blocked_inside() -> list[list[str]]:
    """What a rank is seen to wait for inside of a barrier, and of an all_reduce."""
    with_a_fake_gpu(0.0)
    own, seen = recorder.Recorder(dist.get_rank()), []

    def watched(op: Any, args: tuple, go: Callable) -> Any:
        def going() -> Any:
            seen.append([waiting.op for waiting in own.snapshot().waiting])
            return go()

        return own.call(op, args, going)

    recorder.start(own)
    interposer._seat.handler = watched
    dist.barrier()
    dist.all_reduce(torch.ones(1))
    return seen


def test_a_barrier_of_nccls_is_seen_to_wait() -> None:
    """NCCL's barrier waits inside of the call: who misses it is found all the same."""
    assert lab.run(blocked_inside, 2).results == [[["barrier"], []]] * 2


def test_what_a_gpu_does_not_end_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that hangs costs a job the patience, and leaves a call without end."""
    monkeypatch.setattr(cuda_timing, "recorded", lambda device: FakeEvent())
    monkeypatch.setattr(cuda_timing, "free_stream", lambda device: nullcontext())
    monkeypatch.setattr(FakeEvent, "LATE", 1e9)
    hangs = cuda_timing.Stamps(0)
    hangs.ends_here()
    queued = cuda_timing.Stamps(0)
    assert cuda_timing.read([hangs, queued], patience=0.05) == {}
    monkeypatch.setattr(FakeEvent, "LATE", 0.0)
    before = time.perf_counter()
    ended = cuda_timing.Stamps(0)
    ended.ends_here()
    after = time.perf_counter()
    (times,) = cuda_timing.read([ended, queued]).values()
    assert times[1] is None and times[0] <= times[2]
    room = 1e-3 + cuda_timing.now() - after  # what reading the clock may take
    assert before - room <= times[2] <= after + room


def test_a_batch_ends_when_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL gives one work for a batch of messages: its wait is theirs, once."""
    monkeypatch.setattr(cuda_timing, "recorded", lambda device: FakeEvent())
    monkeypatch.setattr(FakeEvent, "LATE", 0.0)
    seen, work = recorder.Recorder(0), nullcontext()
    batch = seen.coalesced = [cuda_timing.Stamps(0), cuda_timing.Stamps(0)]
    assert seen.wait(work, lambda: "done") == "done"
    ends = [one.ended for one in batch]
    assert all(one.begun.at <= one.waited.at <= one.ended.at for one in batch)
    assert seen.wait(work, lambda: None) is None
    assert [one.ended for one in batch] == ends and not seen.coalesced


def told(issued: float) -> Any:
    """A run of `times_are_the_gpus`, whose second call is recorded at this time."""
    rows = [(0.0, 1.0), (issued, issued + 0.01)]
    events = [
        Event(0, "all_reduce", 4, issued=a, waited=a, completed=b) for a, b in rows
    ]
    result = {"kernel": 0.2, "launched": 0.001, "all": 0.21}
    trace = Trace.from_events(events, 1)
    return SimpleNamespace(results=[result], trace=trace, world_size=1)


def test_times_of_the_launch_fail_their_check(tmp_path: Path) -> None:
    """A recording with the host's times does not pass for one with the GPU's."""
    check = checks.CHECKS["times_are_the_gpus"].fn
    check(SimpleNamespace(run=lambda *_: told(1.2)), tmp_path)
    with pytest.raises(AssertionError):
        check(SimpleNamespace(run=lambda *_: told(1.001)), tmp_path)


# -- the checks find what is wrong -----------------------------------------------------


def test_a_verb_that_does_nothing_is_found() -> None:
    """The battery of verbs names the one that is wrong, and only that."""

    def broken() -> dict[str, str]:
        dist.broadcast = lambda *args: None
        return bodies.verbs()

    for rank, result in enumerate(lab.run(broken, 2).results):
        wrong = {name for name, complaint in result.items() if complaint}
        assert wrong == (set() if rank == 1 else {"broadcast"})


def test_a_check_of_cuda_tensors_says_that_it_has_none() -> None:
    """A solution that asks for a GPU is told that a check runs on the CPU."""
    program = Program((("cell 1", "x.cuda()"),))
    cuda = Failure("raised", "No CUDA GPUs are available", 0, type_name="RuntimeError")
    assert "runs on the CPU" in words.describe_failure(cuda, program)
    other = Failure("raised", "too few values", 0, type_name="ValueError")
    assert "CPU" not in words.describe_failure(other, program)

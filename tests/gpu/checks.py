"""The checks: what must hold in every way that ranks can run.

Each takes a `Way` and a folder for what it records, and raises where its promise is not
kept. On CPU tensors all of them pass, so on a GPU only CUDA is new. docs/gpus.md says
on which machines they have passed.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import collectives_lab as lab
from collectives_lab import bench, plans
from collectives_lab.basics import devices
from collectives_lab.bench import table
from collectives_lab.bench.timing import measure
from collectives_lab.bench.verbs import VERBS
from collectives_lab.launch.processes import backends
from collectives_lab.trace import Trace
from gpu import bodies
from gpu.ways import CPU, Way

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20


@dataclass(frozen=True)
class Check:
    """A check. seconds: in which it must end. wants: `"gpu"` or `"nccl"`, if either."""

    name: str
    promise: str
    fn: Callable[[Way, Path], None]
    seconds: float
    wants: str = ""

    def suits(self, way: Way) -> bool:
        """Whether there is anything to check in this way."""
        has = {"": True, "gpu": way.on_gpu, "nccl": way.on_nccl}
        return has[self.wants]


CHECKS: dict[str, Check] = {}


def check(seconds: float = 60, wants: str = "") -> Callable:
    """Put a function into CHECKS; its docstring is its promise."""

    def keep(fn: Callable[[Way, Path], None]) -> Callable[[Way, Path], None]:
        promise = (inspect.getdoc(fn) or "").split("\n\n")[0].replace("\n", " ")
        one = Check(fn.__name__, promise, fn, seconds, wants)
        CHECKS[one.name] = one
        return fn

    return keep


# -- that it works ---------------------------------------------------------------------


@check(120)
def ranks_have_their_gpu(way: Way, out: Path) -> None:
    """Rank r computes on GPU r modulo their number, and a result arrives on the CPU."""

    def body() -> tuple[Any, ...]:
        x = torch.full((2,), float(dist.get_rank()), device=devices.own())
        return dist.get_rank(), x.device.type, x.device.index, x

    run = way.run(body)
    gpus = max(1, devices.count(way.env))
    for rank, (result, kind, index, x) in enumerate(run.results):
        assert (result, kind) == (rank, way.device)
        assert index == (rank % gpus if way.on_gpu else None)
        assert x.device.type == "cpu" and x.tolist() == [rank, rank]
    assert run.backend == way.backend
    assert ("through the CPU" in run.backend_reason) == (way.name == "gloo-cuda")
    assert ("share" in run.backend_reason) == (way.name == "nccl-shared")


@check()
def verbs_are_right(way: Way, out: Path) -> None:
    """Every verb gives what it must, to the last bit."""
    wrong = {
        f"{verb} on rank {rank}": verdict
        for rank, result in enumerate(way.run(bodies.verbs).results)
        for verb, verdict in result.items()
        if verdict
    }
    assert not wrong, json.dumps(wrong, indent=1)


@check()
def messages_arrive(way: Way, out: Path) -> None:
    """Messages arrive by send and recv, in batches, small ones and large ones."""
    for count in (3, 3 * MIB):
        arrived(way.run(bodies.messages, count), count)


def arrived(run: lab.Run, count: int) -> None:
    """Raise AssertionError unless `bodies.messages` gave on all ranks what it must."""
    for rank, got in enumerate(run.results):
        right = bodies.right_messages(rank, run.world_size, count)
        assert len(got) == len(right), f"rank {rank} got {len(got)} messages"
        same = [torch.equal(a, b) for a, b in zip(got, right, strict=True)]
        assert all(same), f"rank {rank}: message {same.index(False)} is wrong"


@check()
def any_source_is_staged(way: Way, out: Path) -> None:
    """Gloo's recv from anybody takes a tensor of any device, and says whose it was."""
    if way.on_nccl:
        return

    def body() -> list[tuple[int, float]]:
        rank, device = dist.get_rank(), devices.own()
        if rank:
            dist.send(torch.full((4,), float(rank), device=device), 0)
            return []
        got = []
        for _ in range(dist.get_world_size() - 1):
            x = torch.zeros(4, device=device)
            src = dist.recv(x)
            got.append((src, x.mean().item()))
        return got

    got = way.run(body).results[0]
    assert sorted(got) == [(r, float(r)) for r in range(1, way.world_size)]


@check(180)
def algorithms_are_right(way: Way, out: Path) -> None:
    """Every algorithm of every verb gives no wrong element, and its table is kept."""
    rows, options = [], {"iterations": 3, "warmup": 1, "device": way.device}
    with way.ranks() as ranks:
        for verb in VERBS:
            if verb == "sendrecv" and way.world_size < 2:
                continue
            names = tuple(bench.names(verb))
            sweep = bench.Sweep(verb, [64, 256 * 1024, 4 * MIB], names, **options)
            for count in sweep.counts(way.world_size):
                rows += ranks.run(measure, (sweep, count)).results[0]
    table.save_csv(rows, out / f"algorithms-{way.name}.csv")
    wrong = [f"{r.algorithm}_{r.verb} of {r.nbytes} bytes" for r in rows if r.wrong]
    assert not wrong, wrong


@check(240)
def trainings_agree(way: Way, out: Path) -> None:
    """Every training has the losses that it has on the CPU by Gloo."""
    there = Way(CPU.name, CPU.backend, CPU.device, way.world_size)
    wrong = {}
    for name in bodies.TRAININGS:
        if name == "parameter server" and way.world_size < 2:
            continue
        if name in bodies.BY_TAGS and way.on_nccl and way.world_size > 1:
            try:
                way.run(bodies.trained, name)
            except lab.RankError as error:
                if "NCCL" in str(error):
                    continue
            wrong[name] = "is not refused under NCCL"
            continue
        try:
            difference = differs(name, way.run(bodies.trained, name), there)
        except lab.LabError as error:
            difference = str(error)[:2000]
        if difference:
            wrong[name] = difference
    assert not wrong, json.dumps(wrong, indent=1)


def differs(name: str, run: lab.Run, there: Way) -> str:
    """How a training differs from the one on the CPU; empty if it does not."""
    tolerance = 1e-2 if name in bodies.ROUNDED else 1e-8
    right = there.run(bodies.trained, name).results
    for rank, ((losses, _), (others, _)) in enumerate(
        zip(run.results, right, strict=True)
    ):
        near = torch.allclose(
            torch.tensor(losses), torch.tensor(others), rtol=tolerance, atol=tolerance
        )
        if len(losses) != len(others) or not near:
            return f"rank {rank}: {losses}, on the CPU {others}"
    return ""


@check(wants="gpu")
def trainings_are_on_the_gpu(way: Way, out: Path) -> None:
    """A training computes on the GPU, not beside it on the CPU."""
    results = way.run(bodies.trained, "data parallel").results
    assert {device for _, device in results} == {"cuda"}


# -- that it is recorded ---------------------------------------------------------------


@check()
def what_is_recorded_is_the_plan(way: Way, out: Path) -> None:
    """The messages of an algorithm are its plan's, with times in order; it is kept."""
    count = 6 * MIB

    def body() -> None:
        x = torch.ones(count // 4, device=devices.own())
        lab.algorithms.ring_all_reduce(x)

    run = way.run(body)
    segment = None if way.on_nccl else MIB
    plan = plans.ring_all_reduce(way.world_size, count, 4, segment=segment)
    assert calls(run.trace) == calls(plan)
    in_order(run.trace)
    run.trace.save(out / f"ring-{way.name}")


def calls(trace: Trace) -> Counter:
    return Counter((e.rank, e.op, e.peer, e.nbytes) for e in trace.events)


def in_order(trace: Trace) -> None:
    """Raise AssertionError unless every call has all its times, one after the other."""
    for event in trace.events:
        assert event.issued is not None and event.completed is not None, event
        assert event.waited is not None, event
        assert event.issued <= event.waited, event
        assert event.issued <= event.completed, event


@check()
def unmodified_trainings_are_recorded(way: Way, out: Path) -> None:
    """DDP's and FSDP's own calls are seen, and their traces kept."""
    fsdp = {"all_gather", "reduce_scatter"} if way.world_size > 1 else set()
    for name, verbs in (("torch's DDP", {"all_reduce"}), ("torch's FSDP", fsdp)):
        trace = way.run(bodies.trained, name).trace
        assert verbs <= set(trace.ops()), trace.ops()
        file = re.sub(r"\W+", "-", name.removeprefix("torch's ")).lower()
        trace.save(out / f"{file}-{way.name}")


@check(wants="nccl")
def times_are_the_gpus(way: Way, out: Path) -> None:
    """What waits for a kernel begins after it, not at launch; no call waits."""
    run = way.run(bodies.after_a_long_kernel, 0.2)
    for rank, times in enumerate(run.results):
        kernel = times["kernel"]
        event = run.trace.of_rank(rank)[-1]
        first = run.trace.of_rank(rank)[0]
        assert times["launched"] < kernel / 2, f"rank {rank}: the call waited: {times}"
        waited = event.issued - first.completed
        assert waited > kernel * 0.9, (rank, times, event, first)
        assert event.completed - event.issued < times["all"], (rank, times, event)
        assert times["all"] > kernel * 0.9, times


@check(wants="nccl")
def overlap_is_seen(way: Way, out: Path) -> None:
    """A call beside a long kernel has ended before the stream waits for it."""

    run = way.run(bodies.beside_a_long_kernel, 0.2)
    trace = run.trace
    for rank, kernel in enumerate(run.results):
        last = trace.of_rank(rank)[-1]
        assert last.waited - last.issued > kernel / 2, (rank, kernel, last)
        assert last.completed < last.waited, last
    trace.save(out / f"overlap-{way.name}")


@check(wants="nccl")
def a_cuda_graph_can_be_captured(way: Way, out: Path) -> None:
    """A recorded rank may capture its calls into a CUDA graph and replay it."""

    def body() -> torch.Tensor:
        x = torch.ones(8, device=devices.own())
        dist.all_reduce(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dist.all_reduce(x)
        x.fill_(1.0)
        graph.replay()
        torch.cuda.synchronize()
        return x

    assert all(x.tolist() == [way.world_size] * 8 for x in way.run(body).results)


# -- that it is measured ---------------------------------------------------------------


@check(180)
def the_bench_command_runs(way: Way, out: Path) -> None:
    """The command measures, predicts and writes its tables, with the machine."""
    if way.world_size < 2:
        return
    kept = out / f"all-reduce-{way.name}.json"
    command = [
        sys.executable,
        "-m",
        "collectives_lab",
        "bench",
        "all_reduce",
        "--predict",
    ]
    command += ["--world-size", str(way.world_size), "--backend", way.backend]
    command += ["--device", way.device, "--sizes", "8:16M", "--factor", "8"]
    command += [
        "--algorithms",
        "library,ring",
        "--iterations",
        "5",
        "--json",
        str(kept),
    ]
    env = os.environ | way.env
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=170
    )
    (out / f"all-reduce-{way.name}.txt").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    about = json.loads(kept.read_text())
    assert len(about["rows"]) == 16 and about["backend"] == way.backend
    assert ("gpus" in about) == bool(devices.count())


@check(120, wants="nccl")
def nccls_log_is_kept(way: Way, out: Path) -> None:
    """NCCL's log of a start and of some calls, with its tuning table, is kept whole."""

    def body() -> None:
        for nbytes in (8, 64 * 1024, 16 * MIB):
            dist.all_reduce(torch.ones(nbytes // 4, device=devices.own()))
        torch.cuda.synchronize()

    log = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,TUNING,ENV,COLL"}
    run = way.run(body, env=way.options["env"] | log)
    text = "\n".join(f"-- rank {r}\n{printed}" for r, printed in enumerate(run.output))
    (out / f"nccl-log-{way.name}.txt").write_text(text)
    assert "NCCL INFO" in text


# -- that what goes wrong is reported, and over ---------------------------------------


@check()
def a_failed_rank_ends_the_run(way: Way, out: Path) -> None:
    """When one rank raises, the others are stopped though they wait for it on a GPU."""

    def body() -> Any:
        x = torch.ones(4, device=devices.own())
        if dist.get_rank() == 0:
            raise RuntimeError("on purpose")
        dist.all_reduce(x)
        return x.cpu()

    begun = time.monotonic()
    error = fails(way, body, lab.RankError, out)
    assert "on purpose" in error and time.monotonic() - begun < 30


def fails(way: Way, body: Callable, kind: type, out: Path, **options: Any) -> str:
    """The words of the error that a run must end in, which are kept, too."""
    try:
        way.run(body, **options)
    except kind as error:
        caller = sys._getframe(1).f_code.co_name
        (out / f"{caller}-{way.name}.txt").write_text(str(error))
        return str(error)
    raise AssertionError(f"it did not end in a {kind.__name__}")


@check()
def a_mismatch_is_reported(way: Way, out: Path) -> None:
    """Two calls that do not fit are named, both of them, before anything hangs."""
    if way.world_size < 2:
        return

    def body() -> None:
        count = 4 + dist.get_rank() % 2
        dist.all_reduce(torch.ones(count, device=devices.own()))

    error = fails(way, body, lab.Mismatch, out)
    assert "4 float32" in error and "5 float32" in error


@check()
def a_missed_barrier_is_a_deadlock(way: Way, out: Path) -> None:
    """A barrier that one rank leaves out is proved to hang."""
    if way.world_size < 2:
        return

    def body() -> None:
        if dist.get_rank():
            dist.barrier()

    error = fails(way, body, lab.Deadlock, out)
    assert "barrier" in error


@check()
def a_missed_call_ends_at_the_deadline(way: Way, out: Path) -> None:
    """A collective that one rank leaves out ends, and the next job has ranks again."""
    if way.world_size < 2:
        return

    def body() -> Any:
        x = torch.ones(4, device=devices.own())
        if dist.get_rank():
            dist.all_reduce(x)
        return x.sum().item()

    def sums() -> Any:
        x = torch.ones(4, device=devices.own())
        dist.all_reduce(x)
        return x.sum().item()

    with way.ranks() as ranks:
        ranks.push(kept=5)
        begun = time.monotonic()
        try:
            ranks.run(body, timeout=5.0)
        except (lab.Deadlock, lab.DeadlineExceeded) as error:
            outcome = f"{type(error).__name__} after {time.monotonic() - begun:.1f} s"
            text = f"{outcome}\n{error}"
        else:
            raise AssertionError("it did not fail")
        again = ranks.run(sums)
        assert again.results == [4.0 * way.world_size] * way.world_size
    (out / f"missed-call-{way.name}.txt").write_text(text)


@check()
def nccl_refuses_what_it_cannot(way: Way, out: Path) -> None:
    """More ranks than NCCL can have is told before anything starts, with a cure."""
    try:
        backends.choose("nccl", 64)
    except lab.LaunchError as error:
        assert "GPU" in str(error) and 'backend="gloo"' in str(error)
    else:
        assert devices.nccl_version() >= backends.SHARE_SINCE


# -- that it lasts ---------------------------------------------------------------------


@check()
def variables_stay(way: Way, out: Path) -> None:
    """Standing ranks keep tensors on their device, from cell to cell, after errors."""
    with way.ranks() as ranks:
        ranks.execute("from collectives_lab.basics import devices")
        ranks.execute("x = torch.full((2,), float(rank), device=devices.own())")
        with contextlib.suppress(lab.RankError):
            ranks.execute("1 / 0")
        ranks.execute("dist.all_reduce(x); total = x.sum().item()")
        size = way.world_size
        assert ranks["total"] == [size * (size - 1.0)] * size


@check(120)
def a_launcher_may_use_cuda(way: Way, out: Path) -> None:
    """Ranks start, by fork and afresh, from a process that has used its GPU itself."""
    if way.on_gpu:
        torch.ones(2, device="cuda").sum().item()

    def body() -> float:
        x = torch.ones(2, device=devices.own())
        dist.all_reduce(x)
        return x.sum().item()

    for method in ("fork", "spawn"):
        run = way.run(body, start_method=method)
        assert run.results == [2.0 * way.world_size] * way.world_size


@check(210)
def a_check_runs_here_too(way: Way, out: Path) -> None:
    """An exercise's check works on a machine with GPUs, and says that it uses none."""
    good = (ROOT / "tests/grading/zoo/distributed_mean/ok_all_reduce.py").read_text()
    bad = good.replace("    pair = ", "    x = x.cuda()\n    pair = ")
    for name, text, points in (("good", good, "10 of 10"), ("bad", bad, "0 of 10")):
        file = out / f"check-{name}.py"
        file.write_text(text)
        command = [sys.executable, "-m", "collectives_lab", "check", "distributed_mean"]
        done = subprocess.run(
            [*command, str(file)], cwd=ROOT, capture_output=True, text=True, timeout=100
        )
        assert points in done.stdout, done.stdout + done.stderr
        assert ("runs on the CPU" in done.stdout) == (name == "bad"), done.stdout

"""The error of predictions from profiles: a step profiled at one speed, for another.

A step of DDP and one of FSDP are profiled by torch.profiler on emulated links of one
speed. The replay of the profile on links of another speed stands beside the same step,
measured on emulated links of that speed. And a large profile is read.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import collectives_lab as lab
from benchmarks.measure import Row, spread
from benchmarks.worker import Worker, serve
from collectives_lab import fabrics
from collectives_lab.emulation import Emulated
from collectives_lab.fabrics import Fabric

WORLD_SIZE, WIDTH, LAYERS, SAMPLES = 4, 512, 6, 512
PROFILED = fabrics.uniform(WORLD_SIZE, 1e-3, 1e-7)
"""Links of 10 MB/s, on which the step is profiled."""

PREDICTED = {
    "half as fast": fabrics.uniform(WORLD_SIZE, 1e-3, 2e-7),
    "twice as fast": fabrics.uniform(WORLD_SIZE, 1e-3, 5e-8),
}
TARGET = 0.1

LARGE = 200e6
"""Bytes of the large profile."""

MEMORY = 500e6
"""Bytes of memory that reading it may take."""


def replicated(layers: nn.Sequential) -> nn.Module:
    """Return the model under DDP, in three buckets."""
    return DistributedDataParallel(layers, bucket_cap_mb=2)


def sharded(layers: nn.Sequential) -> nn.Module:
    """Return the model under FSDP, layer by layer."""
    for layer in layers:
        fully_shard(layer)
    fully_shard(layers)
    return layers


def profiled_step(
    wrap: Callable[[nn.Sequential], nn.Module], folder: Path
) -> tuple[float, float]:
    """Profile a step that all ranks begin together; return its begin and end."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    model = wrap(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(SAMPLES, WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step()  # the buckets of DDP are rebuilt after the first
    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.barrier()
        begin = time.perf_counter()
        step()
        end = time.perf_counter()
    profiler.export_chrome_trace(str(folder / f"rank{dist.get_rank()}.json"))
    return begin, end


def run(
    wrap: Callable[[nn.Sequential], nn.Module], fabric: Fabric
) -> tuple[lab.Trace, float]:
    """Return the profile of a step on emulated links, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        step = partial(profiled_step, wrap, Path(folder))
        done = lab.run(step, WORLD_SIZE, fabric=Emulated(fabric), timeout=240)
        begins, ends = zip(*done.results, strict=True)
        return lab.Trace.load(folder), max(ends) - min(begins)


def predicted(trace: lab.Trace, fabric: Fabric) -> float:
    """Return the seconds of the step on a fabric, from the end of its barrier."""
    timeline = trace.replay(fabric, compute=1)
    replayed = timeline.trace
    barrier = replayed.columns["completed"][replayed.is_op("barrier")]
    return timeline.elapsed - float(np.min(barrier))


def measure(quick: bool) -> list[Row]:
    """Measure both kinds of steps at both speeds, and the reading of a large file."""
    rounds = 1 if quick else 5
    rows = []
    for name, wrap in (("DDP", replicated), ("FSDP", sharded)):
        profiles = [run(wrap, PROFILED)[0] for _ in range(rounds)]
        for speed, fabric in PREDICTED.items():
            took = [run(wrap, fabric)[1] for _ in range(rounds)]
            expected = [predicted(trace, fabric) for trace in profiles]
            rows.append(_row(name, speed, expected, took))
    return [*rows, *_large(quick)]


def _row(name: str, speed: str, expected: list[float], took: list[float]) -> Row:
    errors = [seconds / median(took) - 1 for seconds in expected]
    what = f"a step of {name} on links {speed}, predicted from a profile"
    reached = abs(median(errors)) <= TARGET
    error = spread(errors, "%", "+")
    return Row(
        "profiles", what, "ms", expected, f"{TARGET:.0%} off", reached,
        "measured", took, error,
    )  # fmt: skip


def write_large(path: Path, nbytes: float) -> None:
    """Write a profile of at least so many bytes: a call after every 20 ops."""
    info = {"backend": "gloo", "rank": 0, "world_size": 1, "pg_config": []}
    head = {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": 0}
    call = {"Input Dims": [[[1000]]], "Input type": ["TensorList"]}
    call |= {"Input Strides": [[[1]]], "Concrete Inputs": ["", "", "", "", "False"]}
    op = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}
    op |= {"Input Strides": [[512, 1], [512, 1]], "Concrete Inputs": ["", ""]}
    note = {"Input Dims": [[1000]], "Input type": ["float"]}
    place = {"ph": "X", "pid": 1, "tid": 1}
    with path.open("w") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        for step in count():
            names = [("cpu_op", "aten::mm", op)] * 20
            names += [("cpu_op", "c10d::allreduce_", call)]
            names += [("user_annotation", "gloo:all_reduce", note)]
            for number, (kind, name, args) in enumerate(names):
                event = place | {"cat": kind, "name": name, "dur": 50.0}
                event |= {"tid": 2 if kind != "cpu_op" else 1}
                event |= {"ts": 2000.0 * step + 60 * number, "args": args}
                file.write(json.dumps(event) + ",\n")
            if file.tell() >= nbytes:
                break
        file.write(json.dumps({"ph": "i", "name": "Record Window End"}) + "]}")


def read_large() -> dict[str, float]:
    """Write and read a large profile; return seconds, peak memory and the calls."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.json"
        write_large(path, LARGE)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        start = time.perf_counter()
        trace = lab.Trace.load(path)
        seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return {"seconds": seconds, "memory": memory, "calls": len(trace)}


def _large(quick: bool) -> list[Row]:
    samples = []
    for _ in range(1 if quick else 3):
        with Worker("benchmarks.profiles", "read_large") as worker:
            samples.append(worker.ask())
    seconds = [sample["seconds"] for sample in samples]
    memory = [sample["memory"] for sample in samples]
    return [
        Row("profiles", "a profile of 200 MB, read", "s", seconds, "60 s",
            median(seconds) <= 60),
        Row("profiles", "the memory of it", "MB", memory, "500 MB",
            max(memory) <= MEMORY),
    ]  # fmt: skip


SERVED: dict[str, Callable[[], dict[str, float]]] = {"read_large": read_large}

if __name__ == "__main__":
    serve(SERVED[sys.argv[1]])

"""Timing of the algorithms of a sweep at one size.

Here you can `measure` one size of a sweep, on every rank of a group.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab import recorder
from collectives_lab.basics import devices
from collectives_lab.bench.case import Case
from collectives_lab.bench.sweep import Row, Sweep, function_of, name_of
from collectives_lab.bench.verbs import VERBS, Function


def measure(sweep: Sweep, count: int) -> list[Row]:
    """Measure all algorithms at one size; every rank calls this and gets the rows.

    An iteration times each algorithm once, so disturbances of the machine affect all of
    them. All ranks synchronize between two timings. The time of a rank runs from there
    to the end of its call; on a GPU, by CUDA events, to the end of its kernels, with
    the launch of the first one included.
    """
    case = _case(sweep, count)
    calls = [function_of(sweep.verb, a) for a in sweep.algorithms]
    case.fill()
    for _ in range(sweep.warmup):
        for call in calls:
            case.call(call)
    times = _times(case, calls, sweep.iterations)
    rows = []
    for algorithm, call, seconds in zip(sweep.algorithms, calls, times, strict=True):
        wrong = _wrong_elements(case, call)
        rows.append(_row(sweep, case, name_of(algorithm), seconds, wrong))
    return rows


def _case(sweep: Sweep, count: int) -> Case:
    rank, device = dist.get_rank(), sweep.device
    if device == "auto":
        device = devices.own().type
    if device == "cuda":
        device = f"cuda:{torch.cuda.current_device()}"
    return Case(
        VERBS[sweep.verb],
        count,
        getattr(torch, sweep.dtype),
        sweep.op,
        sweep.root,
        rank,
        dist.get_world_size(),
        torch.device(device),
    )


def _times(case: Case, calls: list[Function], iterations: int) -> torch.Tensor:
    """Return the seconds of the slowest rank, by algorithm and iteration.

    Recording is off, since it takes time. It is on in the warm-up, so a deadlock is
    detected there.
    """
    with recorder.absent():
        rounds = [[_seconds(case, call) for call in calls] for _ in range(iterations)]
    times = torch.tensor(rounds, dtype=torch.float64).T.contiguous()
    return _over_ranks(times, case.device, dist.ReduceOp.MAX)


def _seconds(case: Case, call: Function) -> float:
    """Time one call on this rank, from the synchronization to its end here.

    A ping-pong takes half of the round trip, by the clock of rank 0; the untimed one
    before it makes sure that rank 1 is ready.
    """
    is_ping_pong = case.verb.name == "sendrecv"
    if is_ping_pong:
        case.call(call)
    else:
        _synchronize(case.device)
    duration = _duration(case, call)
    if is_ping_pong:
        return duration / 2 if case.rank == 0 else 0.0
    return duration


def _duration(case: Case, call: Function) -> float:
    if case.device.type != "cuda":
        start = time.perf_counter()
        case.call(call)
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    case.call(call)  # the stream waits for it, whatever streams its kernels are on
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def _synchronize(device: torch.device) -> None:
    """Wait for all ranks, and on a GPU for all work."""
    if device.type == "cuda":
        _over_ranks(torch.zeros(1), device, dist.ReduceOp.SUM)
        devices.finish(device)
    else:
        dist.barrier()


def _over_ranks(x: torch.Tensor, device: torch.device, op: Any) -> torch.Tensor:
    on_device = x.to(device)
    dist.all_reduce(on_device, op)
    return on_device.cpu()


def _wrong_elements(case: Case, call: Function) -> int:
    case.fill()
    case.call(call)
    devices.finish(case.device)
    own_count = torch.tensor([case.wrong()])
    return int(_over_ranks(own_count, case.device, dist.ReduceOp.SUM))


def _row(
    sweep: Sweep, case: Case, algorithm: str, seconds: torch.Tensor, wrong: int
) -> Row:
    quartiles = seconds.quantile(seconds.new_tensor([0.25, 0.5, 0.75])).tolist()
    elements = max(case.sent.numel(), case.got.numel())
    return Row(
        sweep.verb,
        algorithm,
        case.world_size,
        elements * case.dtype.itemsize,
        case.count,
        sweep.dtype,
        sweep.op if case.verb.reduces else "none",
        sweep.root if case.verb.rooted else -1,
        quartiles[1],
        quartiles[0],
        quartiles[2],
        wrong,
    )

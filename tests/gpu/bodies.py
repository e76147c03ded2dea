"""What ranks do in the checks: functions that run on every rank, on its own device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.basics import devices
from collectives_lab.parallel import (
    compression,
    data,
    experts,
    local,
    mesh,
    one_bit,
    pipeline,
    problem,
    schedules,
    server,
    zero,
)
from collectives_lab.recorder import staging

STEPS, BATCH = 3, 12


def place() -> tuple[int, int, torch.device]:
    return dist.get_rank(), dist.get_world_size(), devices.own()


# -- verbs -----------------------------------------------------------------------------


def _numbers(rank: int, count: int, device: torch.device) -> torch.Tensor:
    """Small integers that differ by rank and place, so that sums are exact."""
    return (torch.arange(count, device=device) % 7 + 10 * rank).float()


def verbs() -> dict[str, str]:
    """What is wrong with each verb of torch's, by name; empty where it is right."""
    return {name: _tried(check) for name, check in _VERBS.items()}


def _tried(check: Callable[[], tuple[Any, Any]]) -> str:
    try:
        got, right = check()
    except Exception as error:  # the others must be tried too
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    if torch.is_tensor(got):
        same = got.shape == right.shape and torch.equal(got.cpu(), right.cpu())
    else:
        same = got == right
    return "" if same else f"gives {got}, right is {right}"


def _all_reduce() -> tuple[Any, Any]:
    rank, size, device = place()
    x = _numbers(rank, 6, device)
    dist.all_reduce(x)
    return x, sum(_numbers(r, 6, device) for r in range(size))


def _all_reduce_later() -> tuple[Any, Any]:
    rank, size, device = place()
    x = _numbers(rank, 6, device)
    dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True).wait()
    return x, _numbers(size - 1, 6, device)


def _broadcast() -> tuple[Any, Any]:
    rank, size, device = place()
    x = _numbers(rank, 5, device)
    dist.broadcast(x, size - 1)
    return x, _numbers(size - 1, 5, device)


def _reduce() -> tuple[Any, Any]:
    rank, size, device = place()
    x = _numbers(rank, 5, device)
    dist.reduce(x, size - 1)
    right = sum(_numbers(r, 5, device) for r in range(size))
    return (x, right) if rank == size - 1 else (0, 0)


def _scatter() -> tuple[Any, Any]:
    rank, size, device = place()
    got = torch.empty(3, device=device)
    parts = [_numbers(r, 3, device) for r in range(size)]
    dist.scatter(got, parts if rank == 0 else None, 0)
    return got, _numbers(rank, 3, device)


def _gather() -> tuple[Any, Any]:
    rank, size, device = place()
    into = [torch.empty(3, device=device) for _ in range(size)] if rank == 0 else None
    dist.gather(_numbers(rank, 3, device), into, 0)
    if into is None:
        return 0, 0
    return torch.cat(into), torch.cat([_numbers(r, 3, device) for r in range(size)])


def _all_gather() -> tuple[Any, Any]:
    rank, size, device = place()
    into = [torch.empty(3, device=device) for _ in range(size)]
    dist.all_gather(into, _numbers(rank, 3, device))
    return torch.cat(into), torch.cat([_numbers(r, 3, device) for r in range(size)])


def _all_gather_into_one() -> tuple[Any, Any]:
    rank, size, device = place()
    into = torch.empty(3 * size, device=device)
    dist.all_gather_into_tensor(into, _numbers(rank, 3, device))
    return into, torch.cat([_numbers(r, 3, device) for r in range(size)])


def _reduce_scatter() -> tuple[Any, Any]:
    rank, size, device = place()
    got = torch.empty(2, device=device)
    dist.reduce_scatter_tensor(got, _numbers(rank, 2 * size, device))
    total = sum(_numbers(r, 2 * size, device) for r in range(size))
    return got, total[2 * rank : 2 * rank + 2]


def _all_to_all() -> tuple[Any, Any]:
    rank, size, device = place()
    got = torch.empty(2 * size, device=device)
    dist.all_to_all_single(got, _numbers(rank, 2 * size, device))
    own = slice(2 * rank, 2 * rank + 2)
    parts = [_numbers(r, 2 * size, device)[own] for r in range(size)]
    return got, torch.cat(parts)


def _uneven_all_to_all() -> tuple[Any, Any]:
    """Rank r sends d + 1 numbers to rank d."""
    rank, size, device = place()
    given = [r + 1 for r in range(size)]
    got = torch.empty(size * (rank + 1), device=device)
    x = _numbers(rank, sum(given), device)
    dist.all_to_all_single(got, x, [rank + 1] * size, given)
    all_parts = [_numbers(r, sum(given), device).split(given) for r in range(size)]
    return got, torch.cat([parts[rank] for parts in all_parts])


def _objects() -> tuple[Any, Any]:
    rank, size, _ = place()
    collected: list[Any] = [None] * size
    dist.all_gather_object(collected, {"rank": rank})
    return collected, [{"rank": r} for r in range(size)]


def _subgroup() -> tuple[Any, Any]:
    """The upper half of the ranks in a group of its own."""
    rank, size, device = place()
    upper = list(range(size // 2, size))
    group = dist.new_group(upper)
    if rank not in upper:
        return 0, 0
    x = _numbers(rank, 4, device)
    dist.all_reduce(x, group=group)
    return x, sum(_numbers(r, 4, device) for r in upper)


def _barrier() -> tuple[Any, Any]:
    dist.barrier()
    return 0, 0


_VERBS: dict[str, Callable[[], tuple[Any, Any]]] = {
    check.__name__.strip("_"): check
    for check in (
        *(_all_reduce, _all_reduce_later, _broadcast, _reduce, _scatter, _gather),
        *(_all_gather, _all_gather_into_one, _reduce_scatter, _all_to_all),
        *(_uneven_all_to_all, _objects, _subgroup, _barrier),
    )
}


# -- messages --------------------------------------------------------------------------


def messages(count: int, staged: bool = False) -> list[torch.Tensor]:
    """Round the ring by send and recv, then by a batch, then all to rank 0.

    staged: by way of the CPU even where there is no need, to try that on its own.
    """
    if staged:
        staging.is_needed = lambda tensor, group: True
    rank, size, device = place()
    left, right = (rank - 1) % size, (rank + 1) % size
    got = []
    for how in (_in_turn, _in_a_batch):
        x = torch.zeros(count, device=device)
        how(_numbers(rank, count, device), x, left, right)
        got.append(x)
    if rank == 0:
        for src in range(1, size):
            x = torch.zeros(2, device=device)
            dist.recv(x, src)
            got.append(x)
    else:
        dist.send(_numbers(rank, 2, device), 0)
    return got


def _in_turn(x: torch.Tensor, into: torch.Tensor, left: int, right: int) -> None:
    if left == dist.get_rank():
        into.copy_(x)
    elif dist.get_rank() % 2 or dist.get_rank() == dist.get_world_size() - 1:
        dist.recv(into, left)
        dist.send(x, right)
    else:
        dist.send(x, right)
        dist.recv(into, left)


def _in_a_batch(x: torch.Tensor, into: torch.Tensor, left: int, right: int) -> None:
    if left == dist.get_rank():
        into.copy_(x)
        return
    posts = [dist.P2POp(dist.irecv, into, left), dist.P2POp(dist.isend, x, right)]
    for work in dist.batch_isend_irecv(posts):
        work.wait()


def right_messages(rank: int, size: int, count: int) -> list[torch.Tensor]:
    """What `messages` must give on a rank."""
    cpu = torch.device("cpu")
    from_left = _numbers((rank - 1) % size, count, cpu)
    others = range(1, size) if rank == 0 else ()
    return [from_left, from_left, *(_numbers(r, 2, cpu) for r in others)]


# -- trainings -------------------------------------------------------------------------


def _model(**sizes: int) -> torch.nn.Sequential:
    return problem.new_model(dtype=torch.float64, **sizes)


def _zero(Stage: type[zero.Zero1]) -> list[float]:
    held, losses = Stage(_model()), []
    rank, size, _ = place()
    for step in range(STEPS):
        held.zero_grad()
        share = problem.batch(step, BATCH).share(rank, size)
        loss = problem.loss(held.model, share, whole=BATCH)
        loss.backward()
        held.step()
        losses.append(loss.item())
    return losses


def _experts() -> list[float]:
    rank, size, device = place()
    layer = experts.Experts(8, 2 * size, top=2).to(device, torch.float64)
    random = torch.Generator().manual_seed(rank)
    x = torch.randn(10, 8, generator=random, dtype=torch.float64).to(device)
    y = layer(x)
    y.sum().backward()
    return [y.sum().item(), *(p.grad.sum().item() for p in layer.router.parameters())]


def _pipeline() -> list[float]:
    rank, size, _ = place()
    schedule = schedules.one_f_one_b(size, 4)
    stage = pipeline.cut(_model(blocks=size), size, rank)
    shape = (problem.LENGTH, 32)
    done = pipeline.step(stage, problem.batch(0, BATCH), schedule, shape)
    return [] if done.loss is None else [done.loss]


def _parameter_server() -> list[float]:
    model = _model()
    weights = torch.nn.utils.parameters_to_vector(model.parameters())
    make = server.gradient_of(model, BATCH)
    adam = lambda w: torch.optim.Adam([w], lr=problem.RATE)  # noqa: E731 (one line)
    return server.synchronous(weights, make, STEPS, adam).losses


def _torch_ddp() -> list[float]:
    model = torch.nn.parallel.DistributedDataParallel(_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)
    share, size = problem.loss_of_share(model, BATCH), dist.get_world_size()
    losses = problem.descend(optimizer, lambda step: size * share(step), STEPS)
    return [loss / size for loss in losses]


def _torch_fsdp() -> list[float]:
    from torch.distributed.fsdp import fully_shard

    model = _model()
    grid = mesh.grid(data=dist.get_world_size())
    for layer in model:
        fully_shard(layer, mesh=grid)
    fully_shard(model, mesh=grid)
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.RATE)
    share, size = problem.loss_of_share(model, BATCH), dist.get_world_size()
    losses = problem.descend(optimizer, lambda step: size * share(step), STEPS)
    return [loss / size for loss in losses]


TRAININGS: dict[str, Callable[[], list[float]]] = {
    "data parallel": lambda: data.train(STEPS, BATCH, None, _model()),
    "in buckets": lambda: data.train(STEPS, BATCH, 30_000, _model()),
    "ZeRO-1": lambda: _zero(zero.Zero1),
    "ZeRO-2": lambda: _zero(zero.Zero2),
    "ZeRO-3": lambda: _zero(zero.Zero3),
    "tensor parallel": lambda: mesh.train(
        1, dist.get_world_size(), steps=STEPS, batch_size=BATCH, model=_model(heads=8)
    ),
    "experts": _experts,
    "int8": lambda: compression.train(steps=STEPS, batch_size=BATCH, model=_model()),
    "one bit": lambda: one_bit.train(1, STEPS, BATCH, model=_model()),
    "DiLoCo": lambda: local.train(2, steps=4, batch_size=BATCH, model=_model()),
    "torch's DDP": _torch_ddp,
    "torch's FSDP": _torch_fsdp,
    "pipeline": _pipeline,
    "parameter server": _parameter_server,
}

BY_TAGS = {"pipeline", "parameter server"}
"""Trainings that want more of messages than NCCL gives."""

ROUNDED = {"int8", "one bit"}
"""Trainings in which a rounding may go the other way on another device."""


def trained(name: str) -> tuple[list[float], str]:
    """The losses of this rank, and the type of device that they were computed on."""
    return TRAININGS[name](), devices.own().type


# -- time ------------------------------------------------------------------------------


def after_a_long_kernel(seconds: float) -> dict[str, float]:
    """Queue a kernel of about this length, then an all_reduce; when which was.

    CUDA only, on the host's clock. launched: how long the call itself took. kernel: how
    long the kernel did, which is not what was asked for where the GPU's clock changes.
    """
    x = torch.ones(1024, device=devices.own())
    dist.all_reduce(x)  # so that what is made at the first call is there
    rate = _cycles_a_second()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    begin, end = long_kernel(seconds * rate)
    dist.all_reduce(x)
    launched = time.perf_counter() - begun
    torch.cuda.synchronize()
    took = {"launched": launched, "all": time.perf_counter() - begun}
    return took | {"kernel": begin.elapsed_time(end) / 1e3}


def beside_a_long_kernel(seconds: float) -> float:
    """Queue an all_reduce, a long kernel beside it, and the wait; the kernel's length.

    CUDA only.
    """
    x = torch.ones(1024, device=devices.own())
    dist.all_reduce(x)
    rate = _cycles_a_second()
    work = dist.all_reduce(x, async_op=True)
    begin, end = long_kernel(seconds * rate)
    work.wait()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3


def long_kernel(cycles: float) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Queue a kernel that only spins, between two events."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.cuda._sleep(int(cycles))
    end.record()
    return begin, end


def _cycles_a_second() -> float:
    """The rate of this GPU's clock once it is up: an idle one has a fraction of it."""
    rates = [0.0]
    while len(rates) < 10 and (len(rates) < 4 or rates[-1] > 1.05 * rates[-2]):
        begin, end = long_kernel(5e7)
        end.synchronize()
        rates.append(5e7 / begin.elapsed_time(end) * 1e3)
    return rates[-1]

"""Runs of real processes, replayed: what a recorder has seen, a fabric can carry."""

import pytest
import torch
import torch.distributed as dist

import collectives_lab as lab
from collectives_lab import fabrics


def _recorded() -> None:
    rank = dist.get_rank()
    x = torch.full((1000,), float(rank))
    work = dist.all_reduce(x, async_op=True)
    dist.broadcast(torch.ones(10), src=1)
    work.wait()
    dist.barrier()
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)


def test_a_recorded_run_is_replayed() -> None:
    """A run of real processes takes, on a fabric, what its messages must take."""
    trace = lab.run(_recorded, 3).trace
    timeline = trace.replay(fabrics.uniform(3, 1e-3, 1e-6))
    ring_time = 4 * (1e-3 + 1336e-6)  # 1000 floats in chunks of 334, 333 and 333
    rest = 2 * (1e-3 + 40e-6) + 2 * (1e-3 + 1e-6) + 1e-3 + 4e-3
    assert timeline.elapsed == pytest.approx(ring_time + rest, rel=0.01)
    assert timeline.trace.ops() == trace.ops()
    assert [e.completed is not None for e in timeline.events] == [True] * len(trace)


def _uneven() -> None:
    rank, n = dist.get_rank(), 1000
    out = torch.empty(3 * n if rank == 0 else 0)
    taken = [n] * 3 if rank == 0 else [0] * 3
    dist.all_to_all_single(out, torch.ones(n), taken, [n, 0, 0])


def test_an_uneven_all_to_all_moves_what_it_did() -> None:
    """All that the ranks send to one of them must pass its port."""
    trace = lab.run(_uneven, 3).trace
    assert trace.replay(fabrics.uniform(3, 0.0, 1e-6)).elapsed == pytest.approx(8000e-6)


def _ahead() -> None:
    other = 1 - dist.get_rank()
    parts = [torch.ones(10) for _ in range(4)]
    works = [dist.irecv(part, other) for part in parts[:2]]
    works += [dist.isend(part, other) for part in parts[2:]]
    for work in works:
        work.wait()


def test_exposed_is_known_after_computing() -> None:
    """Phases that only end a wait have a rank too."""
    trace = lab.run(_ahead, 2).trace
    for compute in (0, 0.5, 1):
        timeline = trace.replay(fabrics.uniform(2, 1e-6, 1e-9), compute=compute)
        assert len(timeline.exposed()) == 2
        assert all(0 <= t <= timeline.elapsed for t in timeline.exposed())

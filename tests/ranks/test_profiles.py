"""Profiles that torch.profiler writes here say what the recorder has seen."""

from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

import collectives_lab as lab
from benchmarks import profiles
from collectives_lab.basics.errors import LabError

SAME = ("op", "nbytes", "dtype", "root", "peer")
"""Fields of an event that both know."""


def every_verb(folder, **options):
    """Make every call under the profiler, and export what it saw."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x, parts = torch.ones(10), [torch.ones(10) for _ in range(size)]
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        dist.all_reduce(x)
        works = [dist.all_reduce(x, async_op=True) for _ in range(2)]
        torch.ones(100, 100) @ torch.ones(100, 100)
        for work in works:
            work.wait()
        dist.broadcast(x.double(), 1)
        dist.reduce(x, 1)
        dist.all_gather(parts, x)
        dist.all_gather_into_tensor(torch.empty(10 * size), x)
        dist.reduce_scatter_tensor(torch.empty(10), torch.ones(10 * size))
        dist.gather(x, parts if rank == 0 else None, 0)
        dist.scatter(x, parts if rank == 1 else None, 1)
        dist.all_to_all_single(torch.empty(10 * size), torch.ones(10 * size))
        dist.barrier()
        (dist.send if rank == 0 else dist.recv)(x, 1 - rank)
    profiler.export_chrome_trace(f"{folder}/rank{rank}.json.gz")


def test_a_profile_has_the_calls_of_the_recorder(tmp_path: Path) -> None:
    """Verb, bytes, dtype, root and peer of each call; and all of it can be replayed."""
    job = partial(every_verb, tmp_path, record_shapes=True)
    recorded = lab.run(job, world_size=2).trace
    trace = lab.Trace.load(tmp_path)
    for rank in range(2):
        seen = [e for e in trace.of_rank(rank) if e.op != "compute"]
        wanted = recorded.of_rank(rank)
        assert [e.op for e in seen] == [e.op for e in wanted]
        for one, other in zip(seen, wanted, strict=True):
            names = SAME if one.op != "barrier" else ("op",)
            assert [getattr(one, n) for n in names] == [
                getattr(other, n) for n in names
            ]
        times = [(e.waited, e.completed) for e in seen if e.waited is not None]
        assert all(waited <= completed for waited, completed in times)
    assert trace.replay(lab.fabrics.loopback(2), compute=1).elapsed > 0


ON_NCCL = Path(__file__).parent / "on_nccl"
"""Steps of two ranks that share an H200: profiled, then recorded by `lab.record`.

torch 2.11, NCCL 2.28.9; four layers of 512 x 512 in DDP with buckets of 1 MiB, and each
layer sharded by FSDP2. A barrier precedes each step.
"""


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_a_profile_of_nccl_has_the_calls_of_the_recorder(wrap: str) -> None:
    """Verbs and bytes on both ranks, and computing in kernels between them."""
    profiled = lab.Trace.load(ON_NCCL / wrap)
    recorded = lab.Trace.load(ON_NCCL / f"{wrap}_recorded")
    for rank in range(2):
        seen = [e for e in profiled.of_rank(rank) if e.op != "compute"]
        wanted = [(e.op, e.nbytes) for e in recorded.of_rank(rank)]
        assert [(e.op, e.nbytes) for e in seen] == wanted
        assert all(e.issued < e.completed for e in seen)
    assert profiled.ops()["compute"] > 2
    assert lab.what_if(profiled, lab.fabrics.uniform(2, 1e-3, 1e-9)).elapsed > 0


def test_a_profile_without_shapes_says_which_option_writes_them(tmp_path: Path) -> None:
    """The profiler's own default leaves out the bytes."""
    lab.run(partial(every_verb, tmp_path), world_size=2)
    with pytest.raises(LabError, match="record_shapes=True"):
        lab.Trace.load(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [profiles.replicated, profiles.sharded])
def test_a_profile_predicts_the_step_at_another_speed(wrap) -> None:
    """Profiled on emulated links, a step of DDP or FSDP is predicted on slower ones."""
    trace, _ = profiles.run(wrap, profiles.PROFILED)
    slower = profiles.PREDICTED["half as fast"]
    _, took = profiles.run(wrap, slower)
    expected = profiles.predicted(trace, slower)
    assert expected == pytest.approx(took, rel=2 * profiles.TARGET)
    # Who takes the recorded time for the answer is twice as far off, or more.
    own = profiles.predicted(trace, profiles.PROFILED)
    assert own != pytest.approx(took, rel=2 * profiles.TARGET)

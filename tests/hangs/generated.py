"""Jobs on GPUs, on paper: what Gloo's recorder does not write.

Messages, batches, states and times. Each function writes what its job leaves.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hangs.nccl import Recorded, py_spy

PART, WHOLE = [(256,)], [(1024,)]
"""What a rank of a shard has of a tensor, and the tensor."""

GENERATED: dict[str, Callable[[Path], None]] = {}


def generated(write: Callable[[Path], None]) -> Callable[[Path], None]:
    GENERATED[write.__name__] = write
    return write


def halves(job: Recorded) -> list[str]:
    """The two shards of eight ranks."""
    parts = {"1": range(4), "2": range(4, 8)}
    return [job.group(name, "mesh_fsdp", ranks) for name, ranks in parts.items()]


@generated
def pipeline_checkpoint(folder: Path) -> None:
    """Four stages; stage 2 writes a checkpoint and takes no more micro-batches."""
    job = Recorded(4)
    for micro in range(8):
        for rank in range(4):
            if rank == 2 and micro >= 5:
                continue
            if rank > 0:
                job.batch(rank, [("recv", rank - 1, (8, 512))], line=31)
            if rank < 3:
                job.batch(rank, [("send", rank + 1, (8, 512))], line=33)
    job.write(folder)
    stack = [
        "_save (torch/serialization.py:1167)",
        "save (torch/serialization.py:966)",
        "save_checkpoint (/home/user/job/train.py:77)",
        "<module> (/home/user/job/train.py:121)",
    ]
    (folder / "pyspy_rank2.txt").write_text(py_spy(4012, *stack))


@generated
def pipeline_circle(folder: Path) -> None:
    """Stages 1 and 2 both send before they receive, and NCCL keeps no message."""
    job = Recorded(4, version="2.5")
    for _step in range(3):
        for rank in range(3):
            job.send(rank, rank + 1, (8, 512), line=31)
            job.recv(rank + 1, rank, (8, 512), line=32)
        for rank in (3, 2, 1):
            job.send(rank, rank - 1, (8, 512), line=41)
            job.recv(rank - 1, rank, (8, 512), line=42)
    job.send(1, 2, (8, 512), line=51)
    job.recv(1, 2, (8, 512), line=52)
    job.send(2, 1, (8, 512), line=61)
    job.recv(2, 1, (8, 512), line=62)
    job.recv(0, 1, (8, 512), line=42)
    job.recv(3, 2, (8, 512), line=32)
    job.write(folder, as_json=(3,))


@generated
def pipeline_last_micro_batch(folder: Path) -> None:
    """Stage 1 passes its last micro-batch on half full, stage 2 wants it full."""
    job = Recorded(4, version="2.7")
    for micro in range(6):
        for rank in range(4):
            rows = 4 if rank == 1 and micro == 5 else 8
            ops = [("recv", rank - 1, (8, 512))] * (rank > 0)
            ops += [("send", rank + 1, (rows, 512))] * (rank < 3)
            for verb, peer, shape in ops:
                getattr(job, verb)(rank, peer, shape, line=31)
    job.write(folder)


@generated
def sharded_precision(folder: Path) -> None:
    """Rank 6 reduces its gradients in bfloat16, the others of its shard in float."""
    job = Recorded(8)
    shards = halves(job)
    replicas = [job.group(str(3 + n), "mesh_dp", (n, n + 4)) for n in range(4)]
    stuck = {}
    for step in range(7):
        for rank in range(8):
            shard, last = shards[rank // 4], step == 6
            job.call(rank, "_all_gather_base", PART, WHOLE, group=shard, line=20)
            dtype = "BFloat16" if last and rank == 6 else "Float"
            stuck[rank] = job.call(
                rank, "_reduce_scatter_base", WHOLE, PART, group=shard,
                dtype=dtype, line=24,
            )  # fmt: skip
            if not (last and rank >= 4):
                job.call(rank, "all_reduce", PART, group=replicas[rank % 4], line=27)
        if step < 6:
            job.sync()
    job.write(folder, as_json=(1, 5))
    for rank in range(4, 8):
        (folder / f"rank{rank}.log").write_text(job.watchdog(stuck[rank]))


@generated
def coalesced_order(folder: Path) -> None:
    """Rank 3 goes through its parameters in another order than the four others."""
    job = Recorded(5, version="2.7", buffer=6)
    for step in range(9):
        for rank in range(5):
            shapes = [(64, 64), (64,), (10, 64), (10,)]
            if step == 8 and rank == 3:
                shapes = [shapes[n] for n in (2, 0, 1, 3)]
            job.call(rank, "allreduce_coalesced", shapes, line=44)
        job.sync()
    job.write(folder)


@generated
def straggler_gpu(folder: Path) -> None:
    """The GPU of rank 5 slows down; the programs of all ranks are equally far."""
    job = Recorded(8)
    for step in range(20):
        for rank in range(8):
            slow = rank == 5 and step >= 6
            job.call(rank, "all_reduce", [(4096,)], compute=90 if slow else 30, line=40)
        job.sync()
    job.seen_at = max(call.started for call in job.calls) - 25
    job.write(folder, as_json=(0,))


@generated
def straggler_host(folder: Path) -> None:
    """From its ninth step on, the program of rank 2 comes late with what to do."""
    job = Recorded(4, version="2.5", timing=False, buffer=16)
    for step in range(20):
        job.clock[2] += 400.0 if step >= 8 else 0.0
        for rank in range(4):
            job.call(rank, "_reduce_scatter_base", [(4096,)], [(1024,)], line=40)
            job.call(rank, "_all_gather_base", [(1024,)], [(4096,)], line=41)
        job.sync()
    job.write(folder)


@generated
def slow_network_all(folder: Path) -> None:
    """From the tenth step on, the same call takes forty times as long on every rank."""
    job = Recorded(8)
    for step in range(20):
        takes = 4.0 if step < 9 else 160.0
        job.all_call("all_reduce", [(4_000_000,)], takes=takes, line=40)
        job.sync()
    job.seen_at = max(call.started for call in job.calls) + 60
    job.write(folder, as_json=(2, 3))


@generated
def slow_network_link(folder: Path) -> None:
    """What goes from rank 2 to rank 3 takes a hundred times as long as its like."""
    job = Recorded(4, version="2.7")
    for _micro in range(12):
        for rank in range(4):
            slow = {"takes": 300.0}
            if rank > 0:
                more = slow if rank == 3 else {"takes": 3.0}
                job.recv(rank, rank - 1, (64, 4096), line=31, **more)
            if rank < 3:
                more = slow if rank == 2 else {"takes": 3.0}
                job.send(rank, rank + 1, (64, 4096), line=33, **more)
        job.sync()
    job.write(folder)


@generated
def network_dead(folder: Path) -> None:
    """All ranks stand in the same call, and nothing says why it does not end."""
    job = Recorded(4)
    for step in range(31):
        job.all_call("all_reduce", [(2048,)], never=step == 30, line=40)
        if step < 30:
            job.sync()
    job.write(folder)
    for call in job.calls[-4:]:
        (folder / f"rank{call.rank}.log").write_text(job.watchdog(call))


@generated
def forgotten_wait_streams(folder: Path) -> None:
    """Rank 2 goes on without waiting, and its next call takes the GPU from the first.

    All have the order "gradients, then activations"; only rank 2 has both on the GPU,
    where the later one is first.
    """
    job = Recorded(4)
    tensor = job.group("1", "mesh_tp", range(4))
    for step in range(7):
        last = step == 6
        for rank in range(4):
            forgets = last and rank == 2
            takes = np.inf if forgets else 2.0
            job.call(
                rank, "all_reduce", [(9000,)], waited=not forgets, takes=takes, line=51
            )
            if not last or forgets:
                job.call(rank, "all_reduce", [(64,)], group=tensor, line=58)
        if not last:
            job.sync()
    job.write(folder)


@generated
def healthy_pipeline(folder: Path) -> None:
    """Batches of messages, all over; the recorder calls each message "scheduled"."""
    job = Recorded(4)
    for _micro in range(6):
        for rank in range(4):
            ops = [("recv", rank - 1, (8, 512))] * (rank > 0)
            ops += [("send", rank + 1, (8, 512))] * (rank < 3)
            for op in ops:
                job.batch(rank, [op], line=31)
    for rank in range(4):
        right, left = (rank + 1) % 4, (rank - 1) % 4
        job.batch(rank, [("send", right, (16,)), ("recv", left, (16,))], line=60)
    job.all_call("all_reduce", [(1,)], line=70)
    job.write(folder)


@generated
def healthy_sharded(folder: Path) -> None:
    """A job that runs: rings that have wrapped, dumps of two steps, nobody waits."""
    job = Recorded(8, version="2.5", timing=False, buffer=12)
    shards = halves(job)
    for step in range(20):
        for shard in shards:
            job.all_call("_all_gather_base", PART, WHOLE, group=shard, line=20)
            job.all_call("_reduce_scatter_base", WHOLE, PART, group=shard, line=24)
        if step % 5 == 0:
            job.all_call("all_reduce", [(1,)], line=27)
        job.sync()
        if step == 17:
            job.seen_at = max(call.ended for call in job.calls)
            job.write(folder, 1, 6)
            job.seen_at = None
    job.write(folder, 0, 2, 3, 4, 5, 7, as_json=(2, 7))

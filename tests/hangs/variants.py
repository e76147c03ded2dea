"""Further jobs on paper, each with the GPU's times in its dumps and without.

They were written after the command, for what its first mistakes had in common. Each
function plays a job on `Recorded`; what it adds to the dumps it writes itself.
"""

from collections.abc import Callable
from pathlib import Path

from hangs.cases import Case
from hangs.nccl import Recorded

Play = Callable[[Recorded, Path], None]

VARIANTS: list[tuple[Case, Play, int]] = []
"""Each case, the function that plays it, and how many ranks it has."""


def variant(
    ranks: int, culprits: tuple[int, ...], *kinds: str, provable: bool = True
) -> Callable[[Play], Play]:
    def keep(play: Play) -> Play:
        name, what = play.__name__, play.__doc__ or ""
        case = Case(name, what, culprits, kinds, provable=provable)
        VARIANTS.append((case, play, ranks))
        return play

    return keep


def write(folder: Path, timing: bool) -> list[Case]:
    """Write what all jobs leave; return the cases."""
    for case, play, ranks in VARIANTS:
        job = Recorded(ranks, timing=timing)
        (folder / case.name).mkdir(parents=True)
        play(job, folder / case.name)
        if not list((folder / case.name).glob("nccl_trace*")):
            job.write(folder / case.name)
    return [case for case, *_ in VARIANTS]


def steps(job: Recorded, absent: int, last: int = 6, number: int = 8) -> None:
    """All ranks reduce; one of them does so `last` times only."""
    for step in range(number):
        for rank in range(job.world_size):
            if rank != absent or step < last:
                job.call(rank, "all_reduce", [(256,)])


@variant(4, (0, 1, 2, 3), "deadlock")
def ring_of_sends(job: Recorded, _folder: Path) -> None:
    """All ranks send to the right before they receive from the left."""
    job.all_call("all_reduce")
    for rank in range(4):
        job.send(rank, (rank + 1) % 4, (1024,), line=5)
    for rank in range(4):
        job.recv(rank, (rank - 1) % 4, (1024,), line=6)


@variant(2, (0, 1), "deadlock", "order")
def two_groups(job: Recorded, _folder: Path) -> None:
    """Two ranks use two groups in two orders."""
    groups = [job.group(name, "mesh", range(2)) for name in ("1", "2")]
    job.all_call("all_reduce")
    for rank, order in enumerate((groups, groups[::-1])):
        for group in order:
            job.call(rank, "all_reduce", group=group)


@variant(8, (4,), "busy")
def pipelines_busy(job: Recorded, _folder: Path) -> None:
    """Two pipelines of four stages; one rank takes no last micro-batch."""
    pairs = [job.group(str(1 + s), "mesh_dp", (2 * s, 2 * s + 1)) for s in range(4)]
    for micro in range(4):
        for rank in (0, 2, 4, 6, 1, 3, 5, 7):
            if (rank, micro) == (4, 3):
                continue
            if rank > 1:
                job.batch(rank, [("recv", rank - 2, (64, 64))])
            if rank < 6:
                job.batch(rank, [("send", rank + 2, (64, 64))])
        for rank in range(8):
            if (rank, micro) != (4, 3):
                job.call(rank, "all_reduce", [(512,)], group=pairs[rank // 2])
        if micro < 3:
            job.sync()


@variant(4, (1,), "died")
def died(job: Recorded, folder: Path) -> None:
    """Rank 1 is killed and leaves no dump."""
    steps(job, 1)
    job.write(folder, 0, 2, 3)
    (folder / "torchrun.log").write_text(
        "Root Cause (first observed failure):\n[0]:\n"
        "  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 12)\n"
    )


NOISE = (
    "WARNING no cache\nTraceback (most recent call last):\n"
    '  File "/home/me/cache.py", line 3, in load\n    open(name)\n'
    "FileNotFoundError: no /cache/{rank}\nstep 1\n"
)
"""An exception that a rank has caught, and gone on."""


@variant(4, (2,), "exception")
def raised(job: Recorded, folder: Path) -> None:
    """Rank 2 raises; all ranks have caught something at their beginning."""
    steps(job, 2)
    for rank in range(4):
        text = NOISE.format(rank=rank)
        if rank == 2:
            text += (
                "[rank2]: Traceback (most recent call last):\n"
                '[rank2]:   File "/home/me/train.py", line 30, in step\n'
                "[rank2]: KeyError: 'label'\n"
            )
        (folder / f"rank{rank}.log").write_text(text)


@variant(4, (1,), "busy")
def busy_beside_noise(job: Recorded, folder: Path) -> None:
    """Rank 1 is busy; rank 0, which waits, has caught something."""
    steps(job, 1)
    (folder / "rank0.log").write_text(NOISE.format(rank=0))


@variant(8, (5,), "order")
def order_in_a_group(job: Recorded, _folder: Path) -> None:
    """Rank 5 swaps two verbs of its group."""
    groups = [job.group(str(n), "tp", range(4 * n - 4, 4 * n)) for n in (1, 2)]
    for step in range(5):
        for rank in range(8):
            calls = [("_all_gather_base", [(256,)], [(1024,)]), ("all_reduce", [(99,)])]
            for verb, *shapes in calls[:: -1 if (step, rank) == (4, 5) else 1]:
                job.call(rank, verb, *shapes, group=groups[rank // 4])
        if step < 4:
            job.sync()


@variant(6, (3,), "shape")
def shape_in_a_group(job: Recorded, _folder: Path) -> None:
    """Rank 3 has fewer gradients."""
    group = job.group("1", "dp", range(6))
    for step in range(5):
        for rank in range(6):
            n = 90 if (step, rank) == (4, 3) else 96
            job.call(rank, "_reduce_scatter_base", [(n,)], [(n // 6,)], group=group)
        if step < 4:
            job.sync()


@variant(4, (2,), "straggler")
def host_is_late(job: Recorded, _folder: Path) -> None:
    """The program of rank 2 is late at each step, and at the last one, too."""
    for step in range(14):
        job.clock[2] += 150
        for rank in range(4):
            if (step, rank) != (13, 2):
                job.call(rank, "all_reduce", [(4096,)])
        if step < 13:
            job.sync()


@variant(4, (), "healthy")
def healthy_pipeline_apart(job: Recorded, folder: Path) -> None:
    """A pipeline of messages whose dumps are some micro-batches apart."""
    job.buffer = 10
    for micro in range(12):
        for rank in range(4):
            if rank > 0:
                job.recv(rank, rank - 1, (64, 64))
            if rank < 3:
                job.send(rank, rank + 1, (64, 64))
        job.sync()
        if micro == 9:
            job.seen_at = max(call.ended for call in job.calls)
            job.write(folder, 1)
            job.seen_at = None
    job.write(folder, 0, 2, 3)


@variant(4, (), "healthy")
def healthy_and_uneven(job: Recorded, _folder: Path) -> None:
    """Each rank is the last one now and then."""
    for step in range(20):
        for rank in range(4):
            compute = 20 + (rank * 7 + step * 5) % 4
            job.call(rank, "all_reduce", [(4096,)], compute=compute)
        job.sync()


@variant(4, (), "unknown", "slow_network", provable=False)
def healthy_for_a_moment(job: Recorded, _folder: Path) -> None:
    """All dumps are of one moment, in which a GPU computes: nobody can tell."""
    healthy_and_uneven(job, _folder)
    job.seen_at = max(call.started for call in job.calls) - 1

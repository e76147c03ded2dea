"""The program that shows a hang: the calls of the dumps, in as few ranks as show it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from dump_files import Recorder, recorders

from collectives_lab.diagnosis import dump_times, explain, reproduction
from collectives_lab.diagnosis.call_code import Shapes, Unwritten
from collectives_lab.diagnosis.evidence import collect
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.judge import judge
from collectives_lab.diagnosis.program_text import program
from collectives_lab.diagnosis.verdict import Offer

Make = Callable[[], list[Recorder]]
SHOWN: dict[str, tuple[Make, str, tuple[int, ...], list[str]]] = {}
"""By name: the dumps, the kind, the culprits in the program, and lines of it."""


def shown(kind: str, culprits: tuple[int, ...], *lines: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        SHOWN[make.__name__] = make, kind, culprits, [*lines]
        return make

    return keep


def in_groups(world: int, **groups: list[int]) -> list[Recorder]:
    """Return ranks that are in groups, by the name behind an underscore."""
    made = recorders(world, steps=3)
    for r in made:
        r.groups = {
            name[1:]: ranks for name, ranks in groups.items() if r.rank in ranks
        }
    return made


@shown(
    *("shape", (2,)),
    "# Ranks 0-3 here stand for ranks 4-7 of the job's 8, in this order.",
    "group_1 = dist.new_group([0, 1, 2, 3])  # group 1 of the job",
    "x = torch.ones(15)  # 1000 elements at train.py:30",
    "x = torch.ones(16)  # 1024 elements at train.py:30",
    "dist.reduce_scatter_tensor(torch.empty_like(x), torch.cat([x] * 4), "
    "group=group_1)",
)
def shape_of_reduce_scatter() -> list[Recorder]:
    ranks = in_groups(8, _1=[4, 5, 6, 7])
    for r in ranks[4:]:
        n, more = 1000 if r.rank == 6 else 1024, {"group": "1", "state": "started"}
        r.call("_reduce_scatter_base", (4 * n,), out=(n,), line=30, **more)
    return ranks


@shown(
    *("dtype", (2,)),
    "x = torch.ones(10, dtype=torch.int64)  # train.py:10",
    "x = torch.ones(10, dtype=torch.int32)  # train.py:10",
    "dist.all_to_all_single(torch.cat([x] * 4), torch.cat([x] * 4))",
)
def dtype_of_all_to_all() -> list[Recorder]:
    ranks = recorders()
    for r in ranks:
        dtype = "Long" if r.rank == 2 else "Int"
        r.call("all_to_all", (40,), dtype=dtype, state="started")
    return ranks


@shown(
    *("order", (3,)),
    "# Ranks 0-3 here stand for ranks 0-2 and 4 of the job's 6, in this order.",
    "if rank == 3:",
    "dist.barrier()  # train.py:10",
    "dist.all_gather_into_tensor(torch.empty(40), torch.ones(10))  # train.py:10",
)
def order_of_a_barrier() -> list[Recorder]:
    ranks = recorders(world=6)
    for r in ranks:
        if r.rank == 4:
            r.call("barrier", state="started")
        else:
            r.call("_all_gather_base", (10,), out=(60,), state="started")
    return ranks


@shown(
    *("shape", (0, 1)),
    "dist.send(torch.ones(4, 16), 1)  # 4x64 elements at train.py:20",
    "dist.recv(torch.empty(8, 16), 0)  # 8x64 elements at train.py:20",
)
def shape_of_a_message() -> list[Recorder]:
    ranks = recorders(world=6)
    for r in ranks:
        if r.rank in (2, 5):
            verb, size = ("send", (4, 64)) if r.rank == 2 else ("recv", (8, 64))
            r.message(verb, 7 - r.rank, size, state="started")
        else:
            r.call(state="started")
    return ranks


@shown(
    *("deadlock", (0, 1, 2)),
    "# Ranks 0-2 here stand for ranks 2, 4 and 5 of the job's 6, in this order.",
    "dist.recv(torch.empty(8), 1)  # train.py:20",
    "dist.recv(torch.empty(8), 2)  # train.py:20",
    "dist.recv(torch.empty(8), 0)  # train.py:20",
)
def circle_of_recvs() -> list[Recorder]:
    ranks = recorders(world=6)
    for r in ranks:
        if r.rank in (2, 4, 5):
            r.message("recv", {2: 4, 4: 5, 5: 2}[r.rank], state="started")
        else:
            r.call("barrier", state="started")
    return ranks


@shown(
    *("deadlock", (0, 1, 2)),
    "group_1 = dist.new_group([0, 1, 2])  # group 1 of the job",
    "group_2 = dist.new_group([0, 1, 2])  # group 2 of the job",
    "if rank == 2:",
    "dist.reduce_scatter(torch.empty(4), [torch.ones(4)] * 3, group=group_2)",
)
def circle_of_two_groups() -> list[Recorder]:
    ranks = in_groups(5, _1=[1, 2, 3], _2=[1, 2, 3])
    for r in ranks:
        if r.rank in (1, 2):
            r.call("all_gather", (6,), out=(18,), group="1", state="started")
        elif r.rank == 3:
            r.call("reduce_scatter", (12,), out=(4,), group="2", state="started")
        else:
            r.call(state="started")
    return ranks


@shown(
    *("busy", (1,)),
    "# These are ranks 0-3 of the job's 6, in this order.",
    "time.sleep(60)  # in other code, after train.py:10",
    "dist.broadcast(torch.ones(15), 0, group=group_1)  # 300 elements at train.py:10",
    "dist.barrier()  # train.py:10",
)
def busy_in_a_group() -> list[Recorder]:
    """Ranks 3 to 5 wait for those that wait for rank 1."""
    ranks = in_groups(6, _1=[0, 1, 2])
    for r in ranks:
        if r.rank in (0, 2):
            r.call("broadcast", (300,), group="1", state="started")
        elif r.rank != 1:
            r.call("barrier", state="started")
    return ranks


def test_a_call_too_many_is_made_by_its_rank_alone(tmp_path: Path) -> None:
    """The others have nothing more to call."""
    ranks = recorders(backend="gloo")
    ranks[0].call(state="scheduled")
    for rank in (1, 2, 3):
        (tmp_path / f"rank_{rank}.txt").write_text(
            'Process 7: python\n\nThread 7 (idle): "MainThread"\n'
            "    _shutdown (threading.py:1590)\n"
        )
    text = offered(tmp_path, ranks).text
    assert "    if rank == 0:\n        dist.all_reduce(torch.ones(8))" in text
    assert text.count("all_reduce") == 1 and "else" not in text


def offered(folder: Path, ranks: list[Recorder]) -> Offer:
    """Return the program for dumps, which has not been run."""
    for recorder in ranks:
        recorder.save(folder)
    job = Job.of(collect([folder]))
    dump_times.sort_out(job)
    return program(job, judge(job))


@pytest.mark.parametrize("name", SHOWN)
def test_a_program_has_the_calls_of_the_dumps(name: str, tmp_path: Path) -> None:
    """Their verbs, groups, dtypes and shapes, and whom its ranks stand for."""
    make, kind, culprits, lines = SHOWN[name]
    offer = offered(tmp_path, make())
    compile(offer.text, name, "exec")
    assert (offer.kind, offer.culprits) == (kind, culprits)
    text = [line.strip() for line in offer.text.splitlines()]
    assert not [line for line in lines if line not in text], offer.text
    assert len(text) <= 32 and max(map(len, offer.text.splitlines())) <= 90


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SHOWN)
def test_a_program_is_run_and_hangs_in_the_same_way(name: str, tmp_path: Path) -> None:
    """The lab's words about it are those of the verdict."""
    assert reproduction.shows(offered(tmp_path, SHOWN[name][0]()))


def test_where_no_program_shows_it_a_sentence_says_why(tmp_path: Path) -> None:
    """Gloo has no such dtype, and ends what nobody waits for."""
    ranks = recorders()
    for r in ranks:
        r.call(dtype="Float8_e4m3fn" if r.rank == 2 else "Half", state="started")
        r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.program) == ("dtype", "")
    assert verdict.offer.why == "Gloo has no tensors of Float8_e4m3fn"
    for r in ranks:
        r.entries[-1]["input_dtypes"] = r.entries[-1]["output_dtypes"] = ["Float"]
        if r.rank == 2:
            r.call(line=11)
        else:
            r.entries[-1].update(state="completed", retired=True)
    with pytest.raises(Unwritten, match="Gloo ends the all_reduce though nobody waits"):
        offered(tmp_path, ranks)


def test_small_shapes_are_as_alike_as_the_large_ones() -> None:
    """What differs stays different, and as many elements stay as many."""
    small = Shapes([(1000,), (1001,), (12,)])
    assert small((12,)) == (12,)
    assert 12 < small((1000,))[0] < small((1001,))[0] <= 18
    small = Shapes([(64, 64), (4096,), (10, 64)])
    assert small((64, 64)) == small((4096,)) != small((10, 64))
    assert Shapes([(8, 512), (4, 512)])((4, 512)) == (4, 16)
    assert Shapes([(0,), ()])(()) == ()


PRINTED = {
    "order": "Mismatch: ranks make different collectives at the same place, number 1:",
    "shape": "Mismatch: ranks disagree about a collective, number 1:\n"
    "  rank 0 calls all_gather(4 float32) in line 7\n"
    "  rank 1 calls all_gather(5 float32) in line 7",
    "dtype": "Mismatch: a send does not fit the recv that it meets:\n"
    "  rank 0 calls send(4 float32, dst=1) in line 7\n"
    "  rank 1 calls recv(4 int32, src=0) in line 7",
    "deadlock": "Deadlock: ranks 0 and 1 can never go on: 0 -> 1 -> 0 wait in a circle",
    "forgotten_wait": "Deadlock: rank 1 can never go on.\n  rank 1 waits\n"
    "rank 0 kept nothing of its isend (line 7)",
    "exception": "RankError: rank 1 of 4 failed in line 7",
    "died": "RankDied: rank 1 of 4 died by SIGKILL",
    "busy": "DeadlineExceeded: ranks 0-2 of 3 were not done after 4 s:",
    "straggler": "Seconds by rank: [1.9, 0.1, 1.8]",
    "slow_network": "Seconds by rank: [0.9, 0.8, 0.9]",
}
"""By kind, what a program prints that shows it."""


@pytest.mark.parametrize("kind", PRINTED)
def test_only_the_same_kind_is_the_same(kind: str) -> None:
    """A program that hangs in another way is not offered."""
    offer = Offer("...", kind=kind, culprits=(1,))
    for other, text in PRINTED.items():
        is_time = text.startswith("Seconds")
        printed = text if is_time else f"...\ncollectives_lab.basics.errors.{text}"
        may_be = {other} | ({"order"} if other in ("shape", "deadlock") else set())
        assert reproduction.says(printed, offer) == (kind in may_be), other
        if kind == other and kind in ("exception", "died", "straggler"):
            assert not reproduction.says(printed, replace(offer, culprits=(2,)))

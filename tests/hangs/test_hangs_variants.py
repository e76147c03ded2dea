"""Further jobs on paper: `explain` is right, or says that it does not know."""

from pathlib import Path

import pytest

import collectives_lab as lab
from hangs import cases, generated, nccl, variants
from hangs.battery import Judge, complaints, complaints_without, marks, marks_without
from hangs.cases import Case
from hangs.generated import GENERATED
from hangs.nccl import Recorded

explain: Judge = lab.explain


@pytest.mark.parametrize("timing", [True, False], ids=["times", "no_times"])
def test_each_variant_is_told(timing: bool, tmp_path: Path) -> None:
    """With all files the right one, and with one missing nobody wrong."""
    told = variants.write(tmp_path, timing)
    lines = marks(explain, told, tmp_path)
    assert not [str(line) for line in lines if line.mark != "right"]
    assert not complaints(lines)
    assert not complaints_without(marks_without(explain, told, tmp_path))


FORMS = {
    "old": {"version": "2.5"},
    "new": {"version": "2.10"},
    "wrapped": {"buffer": 8},
    "json": {},
    "no_times": {"timing": False},
}
"""What is different in the dumps."""

BY_TIME = {"straggler_gpu", "slow_network_all", "slow_network_link"}
"""Jobs that nobody tells without the GPU's times."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.slow
def test_the_corpus_is_told_in_every_form(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every version, in JSON, from short rings, and as far as it goes untimed."""

    def recorded(*args: int, **options: object) -> Recorded:
        return Recorded(*args, **(options | FORMS[form]))  # type: ignore[arg-type]

    write = nccl.Recorded.write

    def in_json(job: Recorded, folder: Path, *ranks: int, **_: object) -> None:
        write(job, folder, *ranks, as_json=range(8))

    monkeypatch.setattr(generated, "Recorded", recorded)
    if form == "json":
        monkeypatch.setattr(Recorded, "write", in_json)
    for name, make in GENERATED.items():
        make(tmp_path / name)
    untold = BY_TIME if form == "no_times" else set()
    told = [case for case in cases.GENERATED if case.name not in untold]
    assert not complaints(marks(explain, told, tmp_path))
    assert not complaints_without(marks_without(explain, told, tmp_path))
    assert not any(explain(tmp_path / name).proved for name in untold)


def test_a_slow_link_shows_in_batches_of_one_message(tmp_path: Path) -> None:
    """As a pipeline makes them."""
    job = Recorded(4)
    for _micro in range(12):
        for rank in range(4):
            if rank > 0:
                takes = 200.0 if rank == 2 else 2.0
                job.batch(rank, [("recv", rank - 1, (64, 4096))], takes=takes)
            if rank < 3:
                takes = 200.0 if rank == 1 else 2.0
                job.batch(rank, [("send", rank + 1, (64, 4096))], takes=takes)
        job.sync()
    job.write(tmp_path)
    assert explain(tmp_path).kind == "slow_network"
    assert "from rank 1 to rank 2" in str(explain(tmp_path))


def test_who_waits_for_a_straggler_is_no_slow_network(tmp_path: Path) -> None:
    """Without the straggler's dump all others' calls are long."""
    job = Recorded(6)
    groups = [job.group(str(n), "dp", range(3 * n - 3, 3 * n)) for n in (1, 2)]
    for _step in range(16):
        for rank in range(6):
            compute = 50 if rank == 4 else 20
            more = {"group": groups[rank // 3], "compute": compute}
            job.call(rank, "all_reduce", [(100,)], **more)
        job.sync()
    job.write(tmp_path)
    case = Case("it", "", (4,), ("straggler",))
    assert marks(lambda path: explain(path.parent), [case], tmp_path)[0].mark == "right"
    (tmp_path / "nccl_trace_rank_4").unlink()
    assert explain(tmp_path).kind == "unknown"

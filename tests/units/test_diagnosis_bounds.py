"""What files cannot show: short dumps, one moment, a tie, dumps of two runs."""

import json
from pathlib import Path

import pytest
from dump_files import recorders

from collectives_lab.diagnosis import Unreadable, explain


def test_a_rank_without_a_call_is_a_rank_like_others(tmp_path: Path) -> None:
    """It does not come; and where no rank has made a call, nobody knows anything."""
    ranks = recorders(steps=0, backend="gloo")
    for r in ranks:
        r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("unknown", [])
    assert verdict.trace is not None and not [*verdict.trace.events]
    for r in ranks:
        if r.rank != 2:
            r.call(state="scheduled")
            r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("busy", [2])
    assert verdict.picture.splitlines()[1].split() == ["rank", "2", "-"]


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_what_lies_behind_a_break_is_not_known(form: str, tmp_path: Path) -> None:
    """No rank is blamed for it, and no job is called well by it."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        if r.rank != 0:
            r.call(state="scheduled", line=50)
    paths = [r.save(tmp_path, f"rank_{r.rank}", form) for r in ranks]
    whole = paths[2].read_bytes()
    for share in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9):
        paths[2].write_bytes(whole[: int(share * len(whole))])
        verdict = explain(tmp_path)
        assert (verdict.kind, verdict.culprits) == ("unknown", []), share
        assert "the dump of rank 2" in verdict.decides
        assert share < 0.2 or "rank 2 (rank_2), written whole" in verdict.decides


def test_a_mismatch_before_a_break_is_seen(tmp_path: Path) -> None:
    """Its rank has made that call, whatever came behind it."""
    ranks = recorders()
    for r in ranks:
        r.call(size=(9 if r.rank == 2 else 8,), state="started")
        for _ in range(20):
            r.call(state="scheduled")
    paths = [r.save(tmp_path) for r in ranks]
    whole = paths[2].read_bytes()
    paths[2].write_bytes(whole[: len(whole) // 2])
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("shape", [2])


def stack_of(folder: Path, rank: int, *frames: str) -> None:
    """Write a stack as py-spy does, innermost frame first."""
    lines = "".join(f"    {frame}\n" for frame in frames)
    (folder / f"stack_rank_{rank}.txt").write_text(
        f'Process 7: python train.py\n\nThread 7 (active): "MainThread"\n{lines}'
    )


def test_a_stack_of_one_moment_proves_nothing(tmp_path: Path) -> None:
    """Where one rank waits for all others, it may have made a call too many."""
    ranks = recorders(backend="gloo")
    ranks[0].call(state="scheduled")
    for r in ranks:
        r.save(tmp_path)
        if r.rank:
            stack_of(tmp_path, r.rank, "load (/home/me/train.py:77)")
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.proved) == ("busy", False)
    assert verdict.answer.startswith("Ranks 1-3 are in load, and do not come")
    assert "or rank 0 made one call too many" in verdict.reasons
    assert "second stack" in verdict.decides


def test_who_waits_for_most_may_have_made_a_call_too_many(tmp_path: Path) -> None:
    """Dumps alone do not say it; stacks do, of all that do not come."""
    ranks = recorders(backend="gloo")
    ranks[0].call(state="scheduled")
    for r in ranks:
        r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("unknown", [])
    assert verdict.answer.startswith("Either rank 0 made one call too many, or ranks 1")
    assert verdict.decides == "a py-spy dump of ranks 1-3"
    for rank in (1, 2, 3):
        assert explain(tmp_path).kind == "unknown"
        stack_of(tmp_path, rank, "_shutdown (threading.py:1590)")
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits, verdict.proved) == ("order", [0], False)
    stack_of(tmp_path, 3, "load (/home/me/train.py:77)")
    verdict = explain(tmp_path)
    assert verdict.kind == "unknown"
    assert verdict.decides == "the end of the log of ranks 1 and 2"


def test_a_message_to_a_new_partner_may_be_of_the_wrong_rank(tmp_path: Path) -> None:
    """The usual one waits for it; the other one has nothing open, and is not blamed."""
    ranks = recorders(steps=0)
    for _ in range(3):
        for rank in (0, 1, 2):
            ranks[rank].message("send", rank + 1)
            ranks[rank + 1].message("recv", rank)
    ranks[2].message("send", 3, state="started", line=33)
    ranks[3].message("recv", 1, state="started", line=31)
    for r in ranks:
        r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits, verdict.proved) == ("order", [3], False)
    assert "from rank 1 instead of rank 2" in verdict.answer
    stack_of(tmp_path, 1, "load (/home/me/train.py:77)")
    assert (explain(tmp_path).kind, explain(tmp_path).culprits) == ("busy", [1])
    (tmp_path / "stack_rank_1.txt").unlink()
    for rank in range(4):
        path = tmp_path / f"nccl_trace_rank_{rank}"
        path.unlink()
        verdict = explain(tmp_path)
        assert verdict.culprits in ([], [3]), f"without {rank}: {verdict}"
        ranks[rank].save(tmp_path)


def test_a_program_at_its_exit_is_over(tmp_path: Path) -> None:
    """Its main thread waits for other threads, and makes no further call."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        if r.rank != 2:
            r.call(state="scheduled")
        r.save(tmp_path)
    stack_of(tmp_path, 2, "_shutdown (threading.py:1590)")
    verdict = explain(tmp_path)
    assert (verdict.culprits, verdict.proved) == ([2], False)
    assert verdict.answer.startswith("The program of rank 2 has ended")


def test_the_text_says_whether_it_is_proved(tmp_path: Path) -> None:
    """In its second line, where there is something to prove."""
    ranks = recorders()
    for r in ranks:
        if r.rank != 2:
            r.call(state="started")
        r.save(tmp_path)
    assert str(explain(tmp_path)).splitlines()[1] == "  Likely, not proved."
    ranks[2].call(size=(9,), state="started")
    ranks[2].save(tmp_path)
    assert str(explain(tmp_path)).splitlines()[1] == "  Proved by the files."
    (tmp_path / "nccl_trace_rank_1").unlink()
    (tmp_path / "nccl_trace_rank_2").unlink()
    assert "proved" not in str(explain(tmp_path)).lower()


def test_a_missing_file_may_make_the_other_call_the_usual_one(tmp_path: Path) -> None:
    """Two ranks against one say nothing where a fourth one is not seen."""
    ranks = recorders()
    for r in ranks:
        r.call(size=(8 + r.rank % 2,), state="started")
    for r in ranks[1:]:
        r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("unknown", [])
    assert {reason[:7] for reason in verdict.reasons} == {"ranks 1", "rank 2:"}
    assert verdict.decides == "the dump of rank 0"
    ranks[0].entries[-1]["input_sizes"] = [[9]]
    ranks[0].save(tmp_path)
    assert (explain(tmp_path).kind, explain(tmp_path).culprits) == ("shape", [2])


CLOSED = (
    "Traceback (most recent call last):\n"
    '  File "/home/me/train.py", line 10, in step\n    dist.all_reduce(x)\n'
    '  File "/x/torch/distributed/distributed_c10d.py", line 9, in all_reduce\n'
    "    work.wait()\nRuntimeError: Connection closed by peer [10.0.0.2]:2901\n"
)
"""What the log of a rank says that another rank's end has ended in its call."""

MISFIT = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
    "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. "
    "36 vs 32. Received data size doesn't match expected size.\n"
)
"""What the log of a rank says that Gloo has ended."""


def test_a_rank_that_gloo_has_ended_gave_no_larger_tensor(tmp_path: Path) -> None:
    """It was sent more than it wants, so it does not side with the larger call."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        r.call(size=(9 if r.rank == 1 else 8,), state="scheduled")
        if r.rank:
            r.save(tmp_path)
    assert explain(tmp_path).kind == "unknown"
    log = tmp_path / "rank0.log"
    log.write_text(MISFIT)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits, verdict.proved) == ("shape", [1], False)
    for r in ranks[1:]:  # the odd one gives less, as the one that was ended may
        size = [[8 if r.rank == 1 else 9]]
        r.entries[-1].update(input_sizes=size, output_sizes=size)
        r.save(tmp_path)
    assert explain(tmp_path).kind == "unknown"


def test_a_rank_without_a_file_died_only_if_all_others_have_one(tmp_path: Path) -> None:
    """A second rank without a dump may have made another call, and so ended it."""
    for r in recorders(backend="gloo"):
        r.call(state="scheduled")
        if r.rank:
            r.save(tmp_path)
            (tmp_path / f"rank{r.rank}.log").write_text(CLOSED)
    assert (explain(tmp_path).kind, explain(tmp_path).culprits) == ("died", [0])
    (tmp_path / "nccl_trace_rank_1").unlink()
    assert explain(tmp_path).kind == "unknown"


def test_explain_takes_lists_of_paths_and_names_a_bad_file_once(tmp_path: Path) -> None:
    """A list is what glob gives; anything else is refused in words."""
    paths = [r.save(tmp_path) for r in recorders()]
    assert explain(paths).kind == explain(*paths).kind == "healthy"
    assert explain(iter(paths[:2]), [paths[2:]]).kind == "healthy"
    with pytest.raises(Unreadable, match="not int"):
        explain([3])  # type: ignore[list-item]
    bad = tmp_path / "bad_rank_9"
    bad.write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(Unreadable) as error:
        explain(bad)
    assert str(error.value).startswith(f"{bad}: this pickle asks for os.system")
    assert explain(tmp_path).notes[0].startswith(f"{bad}: this pickle asks for")
    bad.write_bytes(b"\x80\x02}.")
    with pytest.raises(Unreadable, match=f"^{bad}: no Flight Recorder dump: it holds"):
        explain(bad)


def test_several_ranks_without_a_dump_are_they(tmp_path: Path) -> None:
    """The sentence about them is in the plural."""
    for r in recorders():
        r.call(state="started")
        if r.rank in (0, 3):
            r.save(tmp_path)
    verdict = explain(tmp_path)
    assert verdict.answer.endswith("ranks 1 and 2, whose dumps are not here.")
    assert verdict.reasons[0].startswith("they may have died")


@pytest.mark.parametrize("seconds", [30, 300])
def test_dumps_of_two_runs_prove_nothing(seconds: int, tmp_path: Path) -> None:
    """No rank ends a call, and makes the next, before another one has come to it."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        r.call(size=(9 if r.rank == 2 else 8,), state="scheduled")
        r.save(tmp_path)
    assert explain(tmp_path).proved and not explain(tmp_path).notes
    for entry in ranks[1].entries:
        entry["time_created_ns"] -= seconds * 10**9
    ranks[1].save(tmp_path)
    verdict = explain(tmp_path)
    assert not verdict.proved
    assert "the calls of rank 1 were made at another time" in verdict.notes[0]


def test_a_rank_that_comes_late_is_of_the_same_run(tmp_path: Path) -> None:
    """The others wait for it in their first call."""
    for r in recorders(backend="gloo", steps=0):
        r.at += 30 * 10**9 * (r.rank == 2)
        r.call(size=(9 if r.rank == 2 else 8,), state="scheduled")
        r.save(tmp_path)
    assert explain(tmp_path).proved and not explain(tmp_path).notes


def test_a_circle_is_proved_only_where_all_ranks_are_known(tmp_path: Path) -> None:
    """Of a job whose size no dump says, a rank without a dump may be in it too."""
    ranks = recorders(world=2, steps=0)
    for r in ranks:
        r.groups = {"1": range(2), "2": range(2)}
        r.call(group="2" if r.rank else "1", state="started")
    paths = [r.save(tmp_path, f"rank_{r.rank}.json", "json") for r in ranks]
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits, verdict.proved) == (
        "deadlock",
        [0, 1],
        True,
    )
    for path in paths:
        dump = json.loads(path.read_text())
        del dump["pg_config"]["0"]
        path.write_text(json.dumps(dump))
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits, verdict.proved) == (
        "deadlock",
        [0, 1],
        False,
    )

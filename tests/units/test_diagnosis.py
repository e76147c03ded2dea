"""The judge of hangs: each kind from small dumps, one file missing, mixtures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dump_files import STEP, Recorder, recorders, rows

from collectives_lab.basics import source_lines
from collectives_lab.diagnosis import cli, explain
from collectives_lab.diagnosis.last_calls import WIDTH
from collectives_lab.diagnosis.verdict import KINDS, Verdict
from collectives_lab.plots import space_time

Case = Callable[[Path], tuple[list[Recorder], str, list[int]]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__] = make
    return make


@case
def shape(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        r.call(size=(10 if r.rank == 2 else 12,), state="started", line=30)
    return ranks, "shape", [2]


@case
def shape_of_all_gather(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        n = 5 if r.rank == 1 else 3
        r.call("all_gather", (n,), out=(4, n), state="started")
    return ranks, "shape", [1]


@case
def dtype(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        r.call(dtype="Half" if r.rank == 3 else "Float", state="started")
    return ranks, "dtype", [3]


@case
def order_of_verbs(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        verb = "broadcast" if r.rank == 1 else "all_reduce"
        r.call(verb, state="scheduled", line=40 + (r.rank == 1))
    return ranks, "order", [1]


@case
def order_of_lines(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """The same verb with other sizes, which the others make at another line."""
    ranks = recorders(steps=0)
    for r in ranks:
        for _ in range(3):
            r.call(size=(10,), line=30)
            r.call(size=(20,), line=31)
        r.call(
            size=(20 if r.rank == 2 else 10,), line=30 + (r.rank == 2), state="started"
        )
    return ranks, "order", [2]


@case
def order_long_ago(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Two calls were swapped and went through; the hang comes later."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        for verb in ("barrier", "reduce")[:: -1 if r.rank == 0 else 1]:
            r.call(verb)
        r.call(state="scheduled")
    return ranks, "order", [0]


@case
def busy(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        if r.rank != 2:
            r.call(state="scheduled", line=50)
    return ranks, "busy", [2]


@case
def busy_by_stack(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks, kind, culprits = busy(folder)
    (folder / "pyspy_rank_2.txt").write_text(
        'Process 7: python train.py\n\nThread 7 (active): "MainThread"\n'
        "    _next_data (torch/utils/data/dataloader.py:700)\n"
        "    epoch (/home/me/train.py:77)\n"
    )
    return ranks, kind, culprits


@case
def busy_behind_a_chain(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Ranks 2 and 3 wait for rank 1, which waits for rank 0 in another group."""
    ranks = recorders()
    for r in ranks:
        r.groups["1"] = [0, 1]
        if r.rank == 1:
            r.call(group="1", state="started")
        elif r.rank > 1:
            r.call(state="started")
    return ranks, "busy", [0]


@case
def exception(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks, _, culprits = busy(folder)
    (folder / "job.log").write_text(
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/home/me/train.py", line 61, in step\n'
        "[rank2]:     loss = 1 / count\n"
        "[rank2]: ZeroDivisionError: division by zero\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/home/me/train.py", line 50, in step\n'
        "[rank0]: RuntimeError: Connection closed by peer [10.0.0.2]:2901\n"
    )
    return ranks, "exception", culprits


@case
def died(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks, _, culprits = busy(folder)
    (folder / "torchrun.log").write_text(
        "E1206 failed (exitcode: -9) local_rank: 2 (pid: 12) of binary: python\n"
        "Root Cause (first observed failure):\n[0]:\n"
        "  rank      : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 12)\n"
    )
    return [r for r in ranks if r.rank != 2], "died", culprits


@case
def forgotten_wait(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        if r.rank == 1:
            r.message("send", 0, state="scheduled", line=70)
            r.call(state="started", line=71)
        elif r.rank == 0:
            r.message("recv", 1, state="started", line=72)
        else:
            r.call(state="started", line=71)
    return ranks, "forgotten_wait", [1]


@case
def forgotten_wait_in_gloo(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Gloo records no message: op_id shows that there was one, and a stack the recv."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        if r.rank == 1:
            r.message("send", 0)
        if r.rank != 0:
            r.call(state="scheduled", line=71)
    (folder / "rank_0_stack.txt").write_text(
        'Process 7: python train.py\n\nThread 7 (idle): "MainThread"\n'
        "    recv (torch/distributed/distributed_c10d.py:2500)\n"
        "    step (/home/me/train.py:72)\n"
    )
    return ranks, "forgotten_wait", [1]


@case
def straggler(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo", steps=0)
    for r in ranks:
        for _ in range(8):
            r.call(late=STEP // 2 if r.rank == 3 else r.rank * 1000)
        if r.rank != 3:
            r.call(state="scheduled")
    return ranks, "straggler", [3]


@case
def slow_network(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(steps=0)
    for r in ranks:
        for n in range(6):
            r.call(size=(1 << 20,), took=STEP // 2 if n > 2 else STEP // 100)
        r.call(size=(1 << 20,), state="started")
    return ranks, "slow_network", []


@case
def slow_message(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Two ranks are in one message, both sides posted, and the others wait for them."""
    ranks = recorders()
    for r in ranks:
        if r.rank < 2:
            verb = "recv" if r.rank else "send"
            r.message(verb, 1 - r.rank, (1 << 20,), state="started")
        else:
            r.call(state="started")
    return ranks, "slow_network", []


@case
def recv_against_recv(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders()
    for r in ranks:
        if r.rank < 2:
            r.message("recv", 1 - r.rank, state="started")
        else:
            r.call(state="started")
    return ranks, "deadlock", [0, 1]


@case
def two_groups_in_two_orders(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    ranks = recorders(backend="gloo")
    for r in ranks:
        r.groups = {"1": range(4), "2": range(4)}
        r.call(group="2" if r.rank % 2 else "1", state="scheduled")
    return ranks, "deadlock", [0, 1, 2, 3]


@case
def two_orders_after_one(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Of two ranks that have used one order so far, nobody can say which is wrong."""
    ranks = recorders(world=2)
    for r in ranks:
        r.groups = {"1": range(2), "2": range(2)}
        for _ in range(4):
            r.call(group="1", line=31)
            r.call(group="2", line=32)
        group = "2" if r.rank else "1"
        r.call(group=group, state="started", line=30 + int(group))
    return ranks, "deadlock", [0, 1]


@case
def left_out_of_a_group(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """Rank 2 leaves out the second call of its row; 3 waits there, 0 and 1 for 3."""
    ranks = rows(steps=4)
    for r in ranks:
        r.call("all_gather", group=r.row, line=2)
        if r.rank != 2:
            state = "started" if r.rank == 3 else "completed"
            r.call("reduce_scatter", group=r.row, line=5, state=state)
        if r.rank != 3:
            r.call(line=8, state="started")
    return ranks, "order", [2]


@case
def healthy_at_the_end(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    return recorders(backend="gloo"), "healthy", []


@case
def healthy_in_the_middle(folder: Path) -> tuple[list[Recorder], str, list[int]]:
    """The dumps are of moments that are some calls apart."""
    ranks = recorders()
    for r in ranks:
        for _ in range(r.rank):
            r.call()
        r.call(state="started")
    return ranks, "healthy", []


def judged(make: Case, folder: Path, judge: Callable = explain) -> tuple[Any, ...]:
    ranks, *truth = make(folder)
    for recorder in ranks:
        recorder.save(folder)
    return judge(folder), *truth


@pytest.mark.parametrize("name", CASES)
def test_each_kind_is_explain(name: str, tmp_path: Path) -> None:
    """With all files, the culprits and the kind are the right ones."""
    verdict, kind, culprits = judged(CASES[name], tmp_path)
    assert (verdict.kind, verdict.culprits) == (kind, culprits), str(verdict)
    assert kind in KINDS
    if kind != "healthy" and not name.startswith("slow"):
        assert verdict.lines, "the user's lines are part of the answer"


@pytest.mark.parametrize("name", CASES)
def test_without_any_one_file_it_is_right_or_unknown(name: str, tmp_path: Path) -> None:
    """A missing dump, log or stack never makes the answer name somebody else."""
    _, kind, culprits = judged(CASES[name], tmp_path)
    for path in sorted(tmp_path.iterdir()):
        contents = path.read_bytes()
        path.unlink()
        verdict = explain(tmp_path)
        if verdict.kind != "unknown":
            assert verdict.culprits == culprits, f"without {path.name}: {verdict}"
            assert not (verdict.proved and verdict.kind != kind), path.name
        path.write_bytes(contents)


def lowest_number(folder: Path) -> Verdict:
    """Judge wrongly: who has made the fewest calls is at fault."""
    from collectives_lab.formats import flight_recorder

    dumps = [flight_recorder.read(p) for p in folder.glob("nccl_trace*")]
    last = {d.rank: max((c.number for c in d.calls), default=0) for d in dumps}
    fewest = [rank for rank, n in last.items() if n == min(last.values())]
    return Verdict("busy", sorted(fewest))


def test_a_wrong_judge_fails_the_battery(tmp_path: Path) -> None:
    """To blame the lowest last number is wrong in most cases."""
    wrong = 0
    for name, make in CASES.items():
        folder = tmp_path / name
        folder.mkdir()
        verdict, kind, culprits = judged(make, folder, lowest_number)
        wrong += (verdict.kind, verdict.culprits) != (kind, culprits)
    assert wrong > len(CASES) / 2


# -- mixtures --------------------------------------------------------------------------


def test_dumps_of_another_run_are_noticed_and_do_not_count(tmp_path: Path) -> None:
    """A dump that is an hour older is said to be of another time."""
    ranks, _, _ = busy(tmp_path)
    for entry in ranks[3].entries:
        entry["time_created_ns"] -= 3600 * 10**9
    for recorder in ranks:
        recorder.save(tmp_path)
    verdict = explain(tmp_path)
    assert verdict.kind == "unknown" and any("another" in n for n in verdict.notes)


def test_a_dump_of_an_earlier_moment_blames_nobody(tmp_path: Path) -> None:
    """What others have ended, its rank has begun, so its dump is old."""
    ranks, _, _ = busy(tmp_path)
    for r in ranks:
        if r.rank != 1:
            r.entries[-1]["retired"] = True
            for _ in range(50):
                r.call()
            r.call(state="scheduled")
    for recorder in ranks:
        recorder.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("unknown", [])
    assert "rank 1" in f"{verdict.answer} {verdict.decides}"


def test_doubles_are_read_once_and_two_that_differ_are_said(tmp_path: Path) -> None:
    """Pickle and JSON of one dump are one; of an old and a new one the new counts."""
    ranks, kind, culprits = busy(tmp_path)
    for recorder in ranks:
        recorder.save(tmp_path)
    ranks[0].save(tmp_path, "rank_0.json", form="json")
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits, verdict.notes) == (kind, culprits, [])
    assert verdict.lines[0] == "/home/me/train.py:50", "the pickle has the lines"
    old = recorders(backend="gloo", steps=2)[3]
    old.save(tmp_path, "old_rank_3")
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == (kind, culprits)
    assert any("rank 3 has two dumps" in note for note in verdict.notes)


def test_files_without_a_rank_are_said_and_decide_nothing(tmp_path: Path) -> None:
    """Neither name nor contents say whose they are."""
    ranks, _, _ = busy(tmp_path)
    for recorder, name in zip(ranks, "abcd", strict=True):
        recorder.save(tmp_path, name)
    verdict = explain(tmp_path)
    assert verdict.kind == "unknown" and "no rank is known" in verdict.notes[0]


def test_a_bad_file_beside_good_ones_is_named(tmp_path: Path) -> None:
    """The others are judged all the same."""
    verdict, kind, culprits = judged(busy, tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "model.pkl").write_bytes(b"\x80\x02cos\nsystem\n.")
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == (kind, culprits)
    assert any("empty" in n for n in verdict.notes)
    assert any("os.system" in n for n in verdict.notes)


def test_a_mesh_has_several_groups_of_one_name(tmp_path: Path) -> None:
    """[0, 1] and [2, 3] are two groups, and the calls of one hang alone."""
    ranks = recorders()
    for r in ranks:
        r.groups["tp"] = [0, 1] if r.rank < 2 else [2, 3]
        r.call(group="tp")
        if r.rank != 3:
            state = "started" if r.rank == 2 else "completed"
            r.call(group="tp", state=state)
        r.save(tmp_path)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("busy", [3])


# -- without dumps ---------------------------------------------------------------------


def watchdog(rank: int, number: int, verb: str = "ALLREDUCE", numel: int = 8) -> str:
    return (
        f"[rank{rank}]:[E] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={number}, OpType={verb}, NumelIn={numel}, NumelOut={numel}, "
        "Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    )


def test_time_outs_in_logs_alone_show_what_differs(tmp_path: Path) -> None:
    """The size in which one rank differs; where nothing does, nobody is blamed."""
    log = tmp_path / "job.log"
    log.write_text("".join(watchdog(r, 7, numel=9 if r == 2 else 8) for r in range(4)))
    verdict = explain(log)
    assert (verdict.kind, verdict.culprits, verdict.proved) == ("shape", [2], False)
    log.write_text("".join(watchdog(r, 7) for r in range(4)))
    assert explain(log).kind == "unknown"
    log.write_text("".join(watchdog(r, 7) for r in (0, 1, 3)))
    assert (explain(log).kind, explain(log).culprits) == ("unknown", [])


RAS = """Communicators... (0.00s)
=============

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation {most}
  Rank 5 has launched up to operation {behind} -- GPU 3 managed by process 16 on node n
"""


def test_two_reports_of_ras_tell_a_hang_from_a_straggler(tmp_path: Path) -> None:
    """One report alone may be of a moment in which a rank was a call behind."""
    path = tmp_path / "ras.txt"
    first = RAS.format(most=64, behind=60)
    path.write_text(first)
    assert explain(path).kind == "unknown"
    path.write_text(first + first)
    assert (explain(path).kind, explain(path).culprits) == ("busy", [5])
    path.write_text(first + RAS.format(most=94, behind=90))
    assert (explain(path).kind, explain(path).culprits) == ("straggler", [5])


def test_stacks_alone_name_who_does_not_communicate(tmp_path: Path) -> None:
    """It is likely and not proved."""
    for rank in range(3):
        frame = "all_reduce (torch/distributed/distributed_c10d.py:1)"
        if rank == 1:
            frame = "save (torch/serialization.py:900)"
        (tmp_path / f"rank_{rank}.txt").write_text(
            'Process 7: python\n\nThread 7 (idle): "MainThread"\n'
            f"    {frame}\n    step (/home/me/train.py:{rank})\n"
        )
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits, verdict.proved) == ("busy", [1], False)
    assert "checkpoint" in verdict.answer


def test_gloos_silence_about_messages_is_no_proof_of_health(tmp_path: Path) -> None:
    """All collectives are over; two stacks show what the dumps cannot."""
    verdict, *_ = judged(healthy_at_the_end, tmp_path)
    assert (verdict.kind, verdict.proved) == ("healthy", False)
    for rank in (0, 1):
        (tmp_path / f"stack_rank_{rank}.txt").write_text(
            'Process 7: python\n\nThread 7 (idle): "MainThread"\n'
            "    recv (torch/distributed/distributed_c10d.py:2500)\n"
            "    step (/home/me/train.py:72)\n"
        )
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("deadlock", [0, 1])


# -- the command -----------------------------------------------------------------------


def test_the_command_prints_the_verdict_and_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 nothing hangs, 1 something does, 2 unreadable; --json has the five keys."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir(), bad.mkdir()
    judged(healthy_at_the_end, good)
    judged(busy, bad)
    assert cli.main([str(good), "--no-reproduce"]) == 0
    assert capsys.readouterr().out.startswith("Nothing hangs.")
    assert cli.main([str(bad), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["culprits"], printed["proved"]) == (
        "busy",
        [2],
        False,
    )
    assert printed["lines"]["0"] == "/home/me/train.py:50"
    wait = {"rank": 0, "call": "all_reduce", "group": "0", "number": 7, "for": [2]}
    assert printed["waits"][0] == wait
    (tmp_path / "x").write_bytes(b"\x80\x02cos\nsystem\n.")
    assert cli.main([str(tmp_path / "x")]) == 2
    assert "os.system" in capsys.readouterr().err
    assert cli.main([str(tmp_path / "nowhere")]) == 2


def test_the_answer_fits_on_a_screen(tmp_path: Path) -> None:
    """The first line says who, and all of it is short, with 100 ranks too."""
    ranks = recorders(world=100, backend="gloo")
    for r in ranks:
        if r.rank != 42:
            r.call(state="scheduled")
        r.save(tmp_path)
    lines = str(explain(tmp_path)).splitlines()
    assert lines[0].startswith("Rank 42 ")
    assert len(lines) < 15 and max(map(len, lines)) < 160


def test_the_picture_and_the_trace_have_the_last_calls(tmp_path: Path) -> None:
    """As text, and as a Trace that the book's pictures take."""
    verdict, *_ = judged(busy, tmp_path)
    assert "all_reduce(8) ..." in verdict.picture
    assert verdict.picture.splitlines()[1].startswith("rank 2")
    assert verdict.trace is not None
    stuck = [e.rank for e in verdict.trace.events if e.completed is None]
    assert stuck == [0, 1, 3]
    assert space_time(verdict.trace).caption


def test_a_picture_without_room_leaves_out_the_oldest_calls(tmp_path: Path) -> None:
    """A line that wraps on a page would put a call below another rank's."""
    for r in recorders(world=3):
        r.call(size=[10**9])
        if r.rank != 1:
            r.call(size=[10**9], state="started")
        r.save(tmp_path)
    head, absent, others = explain(tmp_path).picture.splitlines()
    assert head.split() == ["call", "6", "7", "8"]
    assert absent.endswith(" -") and len(absent) < len(others) <= WIDTH
    assert others.endswith("all_reduce(1000000000) ...")


def test_where_ends_are_not_recorded_a_call_ends_when_its_last_rank_has_come(
    tmp_path: Path,
) -> None:
    """So a bar is as long as its rank has surely waited, and no longer."""
    ranks = recorders(world=3, backend="gloo")
    for r in ranks:
        r.call(late=r.rank * 1000)
        r.at += 20 * STEP
        if r.rank != 1:
            r.call(state="scheduled")
        r.save(tmp_path)
    trace = explain(tmp_path).trace
    assert trace is not None
    over = [e for e in trace.events if e.completed is not None]
    last = [[e for e in over if e.rank == rank][-1] for rank in range(3)]
    came = [e.issued - last[0].issued for e in last]
    ended = [e.completed - last[0].issued for e in last]
    assert came == pytest.approx([0, 1e-6, 2e-6])
    assert ended == pytest.approx([2e-6] * 3)


def test_a_notebook_shows_the_answer_and_the_ranks_concerned(tmp_path: Path) -> None:
    """At most eight lanes, the culprits among them, and nothing of a file as HTML."""
    ranks = recorders(world=20)
    for r in ranks:
        if r.rank != 13:
            r.call("all<b>", state="started")
        r.save(tmp_path)
    verdict = explain(tmp_path)
    shown = verdict.concerned()
    assert len(shown) == 8 and shown[0] == 13
    page = verdict._repr_html_()
    assert "<figure" in page and "Rank 13 does not come" in page
    assert "all<b>" not in page


def test_a_line_of_a_notebook_is_named_by_its_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file of /tmp says nothing to a reader; it stays where no cell is known."""
    file = "/tmp/ipykernel_7/31.py"
    verdict = Verdict("exception", [2], answer=f"Rank 2 raised at {file}:16.")
    assert "31.py:16" in str(verdict)
    monkeypatch.setattr(source_lines, "cell_name", {file: "Cell In[4]"}.get)
    assert str(verdict).startswith("Rank 2 raised at line 16 of Cell In[4].\n")


def test_a_line_without_a_number_is_left_out() -> None:
    """A frame may be between two lines when a rank is asked where it is."""
    assert source_lines.in_line("/tmp/ipykernel_7/31.py:None") == ""


def test_the_program_is_written_when_somebody_asks(tmp_path: Path) -> None:
    """It takes ten seconds, and neither the answer nor its text waits for it."""
    verdict, *_ = judged(healthy_at_the_end, tmp_path)
    str(verdict), verdict._repr_html_(), verdict.as_dict()
    assert "program" not in vars(verdict)
    assert verdict.program == ""  # nothing hangs, so there is none to run


def test_an_empty_log_says_nothing_and_an_empty_dump_is_named(tmp_path: Path) -> None:
    """A rank that prints nothing is well; one that could not write is not."""
    (tmp_path / "rank_1.log").touch()
    assert not judged(healthy_at_the_end, tmp_path)[0].notes
    for name in ("more_rank_8", "more_rank_9"):
        (tmp_path / name).touch()
    (note,) = explain(tmp_path).notes
    assert "more_rank_8 and 1 more: empty" in note


GAVE_UP = (
    "Traceback (most recent call last):\n"
    '  File "/home/me/train.py", line 50, in step\n    dist.all_reduce(x)\n'
    '  File "/x/torch/distributed/distributed_c10d.py", line 9, in all_reduce\n'
    "    work.wait()\nRuntimeError: Connection closed by peer [10.0.0.2]:2901\n"
)
"""What the log of a rank says that another rank's end has ended in its call."""


def test_a_rank_without_a_dump_is_where_its_traceback_is(tmp_path: Path) -> None:
    """It waits as the others do, and is not in other code."""
    ranks, _, culprits = busy(tmp_path)
    for r in ranks:
        r.save(tmp_path)
    (tmp_path / "nccl_trace_rank_0").unlink()
    assert explain(tmp_path).kind == "unknown"
    (tmp_path / "rank0.log").write_text(GAVE_UP)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("busy", culprits)


def test_a_call_that_a_log_calls_failed_is_not_over(tmp_path: Path) -> None:
    """Gloo retires it as one that has ended; so ranks that differ in it are found."""
    ranks = recorders(backend="gloo")
    for r in ranks:
        r.call(size=(9 if r.rank == 1 else 8,), line=50)
        r.save(tmp_path)
        (tmp_path / f"rank{r.rank}.log").write_text(GAVE_UP)
    verdict = explain(tmp_path)
    assert (verdict.kind, verdict.culprits) == ("shape", [1])


def test_an_entry_that_gloo_forgot_to_retire_is_no_hang(tmp_path: Path) -> None:
    """Its rank has ended later calls, and so have all others this one."""
    ranks = recorders(backend="gloo")
    ranks[2].entries[3]["retired"] = False
    for r in ranks:
        r.save(tmp_path)
    assert explain(tmp_path).kind == "healthy"


def test_a_bad_end_in_a_log_is_never_health(tmp_path: Path) -> None:
    """All calls are over, and a rank says that another one has closed a connection."""
    text = GAVE_UP.replace("distributed_c10d", "elsewhere").replace("line 50", "line 9")
    (tmp_path / "rank3.log").write_text(text)
    verdict, *_ = judged(healthy_at_the_end, tmp_path)
    assert (verdict.kind, verdict.culprits) == ("unknown", [])
    assert "ranks 0-2" in verdict.decides


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    ["exception", "died", "forgotten_wait", "straggler", "slow_network"],
)
def test_the_program_that_is_offered_shows_the_same(name: str, tmp_path: Path) -> None:
    """It is run before; the kinds of calls that differ are in `test_reproduction`."""
    verdict, *_ = judged(CASES[name], tmp_path)
    assert verdict.program, verdict.offer.why

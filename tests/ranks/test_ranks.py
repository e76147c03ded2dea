"""What standing ranks promise: variables that stay, and words when they do not."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from conftest import until

import collectives_lab as lab
from collectives_lab.launch import group
from collectives_lab.launch.processes import printed_output
from collectives_lab.launch.rank import this_rank

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.usefixtures("nothing_left")

KEEP = "keep their variables"
GONE = "their variables are gone"
SOON = 20.0
"""Seconds for what takes a moment, on a machine that is busy."""


@pytest.fixture
def ranks():
    """Two standing ranks."""
    with lab.Ranks(2) as standing:
        yield standing


@pytest.fixture
def all_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that can be freed have time for it, on a machine that is busy too."""
    monkeypatch.setattr(group, "FREED", SOON)


def texts(run: lab.Run) -> list[str | None]:
    """The plain text of each rank's last expression."""
    return [shown and shown["text/plain"] for shown in run.results]


# -- variables -------------------------------------------------------------------------


def test_variables_stay_and_are_each_ranks_own(ranks) -> None:
    """A cell's variables are there in the next, one namespace a rank."""
    ranks.execute("x = rank * 10\ndef f(y): return x + y")
    ranks.execute("x += 1")
    assert ranks["x"] == [1, 11]
    assert texts(ranks.execute("f(100)")) == ["101", "111"]


def test_values_are_pushed_and_pulled(ranks) -> None:
    """Tensors, functions and classes go to every rank and come back."""

    class Pair:
        def __init__(self, a):
            self.a = a

    ranks.push(t=torch.arange(3.0), f=lambda v: v + 1, Pair=Pair)
    ranks.execute("t += rank\npair = Pair(f(rank))")
    assert [t.tolist() for t in ranks["t"]] == [[0, 1, 2], [1, 2, 3]]
    assert [p.a for p in ranks["pair"]] == [1, 2]
    assert ranks["rank"] == [0, 1] and ranks["world_size"] == [2, 2]


def test_classes_and_functions_of_a_cell_come_back(ranks) -> None:
    """What a cell defines can be pulled out and used here."""
    ranks.execute(
        "class Box:\n    def __init__(self): self.r = rank\n"
        "box = Box()\ndef double(v): return 2 * v"
    )
    assert [box.r for box in ranks["box"]] == [0, 1]
    assert ranks["double"][1](4) == 8


def test_a_name_that_is_not_there_is_reported(ranks, all_freed) -> None:
    """Pulling a name that a rank does not have names both."""
    ranks.execute("if rank == 0: mine = 1")
    with pytest.raises(lab.RankError, match="no variable 'mine'") as caught:
        ranks["mine"]
    message = (
        "rank 1 of 2: there is no variable 'mine'; set it by execute or push first."
    )
    assert str(caught.value).startswith(message)
    assert KEEP in str(caught.value)


def test_what_cannot_be_pushed_is_refused(ranks) -> None:
    """A value that cannot travel is named before it is sent."""
    with pytest.raises(lab.LaunchError, match="cannot be sent"):
        ranks.push(lock=threading.Lock())
    assert texts(ranks.execute("1")) == ["1", "1"]


def test_names_given_to_a_rank_may_be_overwritten(ranks) -> None:
    """A reader's own `rank` is a variable like any other; the group knows better."""
    ranks.execute("rank = 'mine'; dist_of_mine = 1")
    assert texts(ranks.execute("rank, dist.get_rank()")) == [
        "('mine', 0)",
        "('mine', 1)",
    ]
    assert ranks.run(dist.get_rank).results == [0, 1]


def test_some_ranks_run_while_the_others_rest() -> None:
    """A job on a subset runs there only, and the others do not change."""
    with lab.Ranks(3) as ranks:
        ranks.execute("n = 0")
        run = ranks.execute("n += 1; print('here')\nn", ranks=[0, 2])
        assert texts(run) == ["1", None, "1"]
        assert run.output == ["here\n", "", "here\n"]
        assert ranks["n"] == [1, 0, 1]
        assert ranks.run(dist.get_rank, ranks=[1]).results == [None, 1, None]
        ranks.execute(
            "if rank: dist.send(torch.ones(1), 3 - rank) if rank == 1 "
            "else dist.recv(torch.ones(1), 1)",
            ranks=(1, 2),
        )


@pytest.mark.parametrize(
    "chosen, words",
    [
        ([2], "rank 2 of 2"),
        ([-1], "rank -1 of 2"),
        ([], "no ranks"),
        (["0"], "rank '0'"),
        (1, "ranks"),
        ([0, "a"], "rank 'a'"),
    ],
)
def test_ranks_that_are_not_there_are_refused(ranks, chosen, words) -> None:
    """A subset must name ranks of the group."""
    with pytest.raises(lab.LaunchError, match=words):
        ranks.execute("1", ranks=chosen)


def test_a_function_uses_the_group_between_cells(ranks) -> None:
    """Cells and functions communicate in turn, and each run holds its own traffic."""
    first = ranks.execute("x = torch.ones(4) * rank\ndist.all_reduce(x)")
    second = ranks.run(lambda: dist.barrier())
    assert [e.op for e in first.trace.events] == ["all_reduce"] * 2
    assert [e.op for e in second.trace.events] == ["barrier"] * 2
    assert ranks["x"][0].tolist() == [1.0] * 4


# -- the last expression ---------------------------------------------------------------


@pytest.mark.parametrize(
    "code, text",
    [
        ("1 + 1", "2"),
        ("x = 3\nx", "3"),
        ("x = 3", None),
        ("None", None),
        ("", None),
        ("# nothing", None),
        ("'a'; 'b'", "'b'"),
        ("for i in range(2): i", None),
        ("torch.ones(2)", "tensor([1., 1.])"),
        ("'é\\u4e2d'", "'é中'"),
    ],
)
def test_the_last_expression_is_the_result(ranks, code, text) -> None:
    """As in a notebook: the last expression's text, unless it is None."""
    assert texts(ranks.execute(code)) == [text, text]


def test_quiet_shows_no_last_expression(ranks) -> None:
    """quiet=True runs the last expression and shows nothing."""
    run = ranks.execute("x = []\nx.append(1)\nx.copy()", quiet=True)
    assert run.results == [None, None] and ranks["x"] == [[1], [1]]


def test_rich_results_come_as_bundles(ranks) -> None:
    """A value's HTML travels beside its text, and a failing picture is left out."""
    ranks.execute(
        "class Rich:\n"
        "    def __repr__(self): return 'plain'\n"
        "    def _repr_html_(self): return '<b>rich</b>'\n"
        "    def _repr_png_(self): raise ValueError\n"
    )
    shown = {"text/plain": "plain", "text/html": "<b>rich</b>"}
    assert ranks.execute("Rich()").results == [shown, shown]
    assert "text/html" not in ranks.execute("Rich").results[0]


def test_figures_and_displays_come_in_their_order(ranks, monkeypatch) -> None:
    """What is displayed comes with its ranks, alike folded, figures as pictures."""
    for name in ("HOLD", "HOLD_PICTURES", "_HOLD_MOST"):
        monkeypatch.setattr(
            printed_output, name, 60.0
        )  # until the slower rank shows it too
    seen: list = []
    code = (
        "import matplotlib.pyplot as plt\n"
        "display('same'); display(rank)\n"
        "_ = plt.plot([rank, 1])"
    )
    ranks.execute(code, display=lambda ranks, bundle: seen.append((ranks, bundle)))
    plain = [(r, b["text/plain"]) for r, b in seen if "image/png" not in b]
    assert plain == [([0, 1], "'same'"), ([0], "0"), ([1], "1")]
    pictures = [r for r, b in seen if "image/png" in b]
    assert sorted(pictures) == [[0], [1]]


def test_a_repr_that_fails_is_an_error_of_that_line(ranks, all_freed) -> None:
    """A last expression that cannot be shown fails in the reader's code."""
    ranks.execute("class Bad:\n    def __repr__(self): return 1 / 0", file="<bad>")
    with pytest.raises(lab.RankError, match="ZeroDivisionError") as caught:
        ranks.execute("Bad()")
    assert KEEP in str(caught.value) and "rich.py" not in str(caught.value)


# -- failures --------------------------------------------------------------------------


def test_the_line_of_a_cell_is_quoted(ranks, all_freed) -> None:
    """An error shows the cell's line, also through a function of an older cell."""
    ranks.execute("def divide(a):\n    return a / 0", file="<first>")
    with pytest.raises(lab.RankError) as caught:
        ranks.execute("x = 1\ndivide(x)", file="<second>")
    text = str(caught.value)
    assert 'File "<second>", line 2' in text and 'File "<first>", line 2' in text
    assert "return a / 0" in text and "divide(x)" in text
    assert caught.value.where == "<first>:2"
    assert "collectives_lab/launch" not in text
    assert ranks["x"] == [1, 1]


def test_a_syntax_error_is_shown_with_its_line(ranks) -> None:
    """Code that does not compile fails before it runs, on all ranks at once."""
    with pytest.raises(lab.RankError, match="SyntaxError") as caught:
        ranks.execute("x = 1\nx = = 2", file="<cell>")
    assert "x = = 2" in str(caught.value) and caught.value.where == "<cell>:2"
    with pytest.raises(lab.RankError, match="no variable 'x'"):
        ranks["x"]


def test_code_is_text(ranks) -> None:
    """What is no text is refused before anything happens, and said to be none."""
    for code in (5, None, b"1", spins):
        with pytest.raises(TypeError, match="it is Python code as text"):
            ranks.execute(code)
    assert texts(ranks.execute("1")) == ["1", "1"]


@pytest.mark.parametrize(
    "code, cure",
    [
        ("input('name? ')", "push"),
        ("sys.stdin.read()", "push"),
        ("pdb.set_trace()", "push"),
        ("breakpoint()", "print what you want to know"),
    ],
)
def test_a_rank_has_no_keyboard(ranks, all_freed, code, cure) -> None:
    """Whatever reads standard input says that nobody can type, and what to do."""
    ranks.execute("import pdb, sys")
    with pytest.raises(lab.RankError, match=rf"no keyboard.*{cure}") as caught:
        ranks.execute(code)
    assert "EOF" not in str(caught.value) and KEEP in str(caught.value)


def test_a_collective_that_only_some_ranks_called_is_reported_at_once(capfd) -> None:
    """The job that made it says line and ranks; jobs before, after and in step do not.

    Nothing is told of sends that are kept, nor of ranks that had no part in the job.
    """
    call = "work = dist.all_reduce(torch.ones(1), async_op=True)"
    words = f"rank 1 called all_reduce in line 2: `{call}`, and ranks 0 and 2 did not"
    with lab.Ranks(3) as ranks:
        ranks.execute("dist.barrier()\nif rank == 0: s = dist.isend(torch.ones(1), 1)")
        assert capfd.readouterr().err == ""
        ranks.execute(f"if rank == 1:\n    {call}")
        output = capfd.readouterr().err
        assert words in output and output.count("\n") == 1
        ranks.execute("1")
        ranks.execute(f"if rank != 1: {call}")
        ranks.execute("work.wait()\nif rank == 1: dist.recv(torch.ones(1), 0)")
        ranks.execute(call, ranks=[0])
        ranks.execute(call, ranks=[1, 2])
        ranks.execute("work.wait()")
        assert capfd.readouterr().err == ""


def raises_alone():
    if dist.get_rank() == 1:
        raise ValueError("bad")
    dist.barrier()


def raises_everywhere():
    raise ValueError("bad")


def recvs_first():
    dist.recv(torch.zeros(1), 1 - dist.get_rank())


def skips():
    if dist.get_rank() == 0:
        dist.all_reduce(torch.zeros(1))


def differ():
    dist.all_reduce(torch.zeros(1 + dist.get_rank()))


def spins():
    while dist.get_rank() == 1:
        time.sleep(0.01)
    dist.barrier()


def exits():
    sys.exit(2)


def dies():
    if dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()


def will_not_listen():
    while dist.get_rank() == 1:
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(100)  # a short one would often be between two sleeps


def returns_a_lock():
    return threading.Lock()


FAILURES: list[tuple[Callable, type, str]] = [
    (raises_alone, lab.RankError, KEEP),
    (raises_everywhere, lab.RankError, KEEP),
    (recvs_first, lab.Deadlock, KEEP),
    (skips, lab.Deadlock, KEEP),
    (differ, lab.Mismatch, KEEP),
    (spins, lab.DeadlineExceeded, KEEP),
    (exits, lab.RankError, KEEP),
    (returns_a_lock, lab.RankError, KEEP),
    (dies, lab.RankDied, GONE),
    (will_not_listen, lab.DeadlineExceeded, GONE),
]


@pytest.mark.parametrize("fn, kind, message", FAILURES)
def test_after_a_failure_variables_are_kept_or_reported_gone(
    ranks, fn, kind, message, monkeypatch
) -> None:
    """The error says what became of the variables, truly, and the next job works."""
    if message == KEEP:
        monkeypatch.setattr(group, "FREED", SOON)
    ranks.push(x=torch.ones(1))
    begun = time.monotonic()
    with pytest.raises(lab.LabError) as caught:
        ranks.run(fn, timeout=1 if kind is lab.DeadlineExceeded else None)
    assert time.monotonic() - begun < 2 * SOON
    assert type(caught.value) is kind and message in str(caught.value)
    assert isinstance(caught.value.run, lab.Run)
    assert ranks.alive == (message == KEEP)
    there = texts(ranks.execute("'x' in globals()"))
    assert there == [str(message == KEEP)] * 2
    run = ranks.execute("y = torch.ones(1) * (rank + 1)\ndist.all_reduce(y)\ny.item()")
    assert texts(run) == ["3.0", "3.0"]


def test_failures_in_a_row_do_not_wear_ranks_out(ranks, all_freed) -> None:
    """Ten failed jobs of different kinds later the ranks still have their variables."""
    ranks.push(x=1)
    for fn in (recvs_first, raises_alone, skips, differ, raises_everywhere) * 2:
        with pytest.raises(lab.LabError):
            ranks.run(fn)
    assert ranks["x"] == [1, 1]
    assert ranks.run(lambda: dist.all_reduce(torch.ones(1))).results == [None, None]


def test_a_failure_of_some_ranks_tells_about_them_only(all_freed, monkeypatch) -> None:
    """In a job on a subset, the ranks that rest are neither waiting nor stopped."""
    with lab.Ranks(3) as ranks:
        ranks.push(x=1)
        with monkeypatch.context() as patch, pytest.raises(lab.RankError) as caught:
            patch.setattr(group, "SETTLE", SOON)  # both report, however late
            ranks.run(raises_everywhere, ranks=[0, 2])
        assert str(caught.value).startswith("ranks 0 and 2 of 3 failed")
        assert "stopped" not in str(caught.value)
        with pytest.raises(lab.Deadlock) as stuck:
            ranks.execute("dist.barrier()", ranks=[0])
        assert stuck.value.ranks == [0] and KEEP in str(stuck.value)
        assert ranks["x"] == [1, 1, 1]


# -- their life ------------------------------------------------------------------------


def test_closed_ranks_take_no_job() -> None:
    """A job on closed ranks is refused with what to do; closing twice is no error."""
    ranks = lab.Ranks(1)
    ranks.close()
    ranks.close()
    assert not ranks.alive and "ended" in repr(ranks)
    for job in (
        lambda: ranks.execute("1"),
        lambda: ranks.run(print),
        lambda: ranks["x"],
    ):
        with pytest.raises(lab.LaunchError, match=r"closed.*Ranks"):
            job()


def test_ranks_are_gone_after_their_context(ranks_started: list[int]) -> None:
    """Leaving the with statement ends the processes, also by an exception."""
    from conftest import alive

    with pytest.raises(ZeroDivisionError), lab.Ranks(2):
        assert all(map(alive, ranks_started))
        raise ZeroDivisionError
    assert len(ranks_started) == 2 and not any(map(alive, ranks_started))


def test_an_interrupt_before_all_are_there_ends_them_at_once(monkeypatch) -> None:
    """Nobody is waited for who has no variables yet."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def asked(*_: object) -> None:
        raise AssertionError("ranks that have not met cannot be freed")

    monkeypatch.setattr(group.Group, "_attend", interrupted)
    monkeypatch.setattr(group.Group, "_free", asked)
    with lab.Ranks(2) as ranks:
        with pytest.raises(KeyboardInterrupt):
            ranks.execute("1")
        assert not ranks.alive


def test_restarted_ranks_are_new(ranks) -> None:
    """restart() forgets variables and processes."""
    ranks.execute("import os; x = 1; pid = os.getpid()")
    before = ranks["pid"]
    ranks.restart()
    assert texts(ranks.execute("'x' in globals()")) == ["False"] * 2
    assert not set(before) & set(ranks.run(os.getpid).results)


def waits_for(begun: Path, enough: Path) -> int:
    """Leave a file, and return when the other one is there."""
    begun.touch()
    while not enough.exists():
        time.sleep(0.01)
    return 7


def test_two_threads_do_not_use_the_same_ranks_at_once(ranks, tmp_path) -> None:
    """The second job is refused while the first goes on, which it does not disturb."""
    files = begun, enough = tmp_path / "begun", tmp_path / "enough"
    results: list = []
    thread = threading.Thread(
        target=lambda: results.append(ranks.run(waits_for, files).results)
    )
    thread.start()
    assert until(begun.exists)
    with pytest.raises(lab.LaunchError, match="busy"):
        ranks.execute("1")
    enough.touch()
    thread.join()
    assert results == [[7, 7]]
    assert texts(ranks.execute("1")) == ["1", "1"]


@pytest.mark.parametrize("end", ["close", "restart"])
def test_ending_ranks_ends_the_job_of_another_thread(end: str, tmp_path) -> None:
    """close() and restart() during a job end it with an error of ours, not a crash."""
    files = begun, _ = tmp_path / "begun", tmp_path / "never"
    caught: list[BaseException] = []
    ranks = lab.Ranks(2)

    def job():
        try:
            ranks.run(waits_for, files)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=job)
    thread.start()
    try:
        assert until(begun.exists)
        getattr(ranks, end)()
        thread.join(10)
        assert not thread.is_alive()
        assert isinstance(caught[0], lab.LabError), repr(caught[0])
    finally:
        thread.join(30)
        ranks.close()


def test_a_thread_of_a_cell_may_print_later(ranks, capfd) -> None:
    """What a thread of an earlier cell prints belongs to the job in which it comes."""
    ranks.execute(
        "import threading\n"
        "go = threading.Event()\n"
        "def later():\n    go.wait(); print('from a thread')\n"
        "thread = threading.Thread(target=later, daemon=True)\n"
        "thread.start()"
    )
    run = ranks.execute("go.set(); thread.join()")
    assert run.output == ["from a thread\n"] * 2
    assert "from a thread" in capfd.readouterr().out


SLEEPER = (
    "import threading, time\n"
    "threading.Thread(target=time.sleep, args=[60], daemon=True).start()"
)


def test_a_thread_that_waits_does_not_disturb_the_next_job(ranks) -> None:
    """A daemon thread left running is no rank that is not done."""
    ranks.execute(SLEEPER)
    assert ranks.run(lambda: dist.barrier() or 1).results == [1, 1]


def test_a_thread_that_waits_does_not_hide_a_deadlock(ranks) -> None:
    """A thread that runs no code of the reader's cannot communicate: a proof is one."""
    ranks.execute(SLEEPER)
    with pytest.raises(lab.Deadlock):
        ranks.run(skips)


def test_the_group_is_made_again_after_it_was_destroyed(ranks) -> None:
    """A cell that ends by destroy_process_group, as a script does, harms no other."""
    for _ in range(2):
        ranks.execute("dist.init_process_group('gloo')\ndist.destroy_process_group()")
        run = ranks.execute("x = torch.ones(1); dist.all_reduce(x); x.item()")
        assert texts(run) == ["2.0", "2.0"]


def ranks_joined() -> int:
    """How many ranks have noted in the store that their connections stand."""
    store = this_rank.membership.open_store
    return dist.PrefixStore("group 1", store).add("ranks that have joined", 0)


def test_a_job_begins_when_all_ranks_have_joined(ranks) -> None:
    """So a rank that leaves its group at once closes no connection that others make."""
    assert ranks.run(ranks_joined).results == [2, 2]


def test_a_cell_on_some_ranks_works_without_a_group(ranks) -> None:
    """Once all have destroyed their group, a cell on one rank waits for nobody."""
    ranks.execute("x = 5; dist.destroy_process_group()")
    assert texts(ranks.execute("x", ranks=[0], timeout=SOON)) == ["5", None]
    run = ranks.execute("y = torch.ones(1); dist.all_reduce(y); y.item()")
    assert texts(run) == ["2.0", "2.0"]


def test_a_group_destroyed_on_one_rank_is_no_riddle(ranks) -> None:
    """If one rank destroys its group, the next cell without communication works."""
    ranks.execute("x = 5")
    ranks.execute("dist.destroy_process_group()", ranks=[0])
    assert texts(ranks.execute("x", timeout=SOON)) == ["5", "5"]


def test_sys_stdout_may_be_closed_in_one_cell(ranks) -> None:
    """A cell that closes its stdout fails where it prints, and the ranks go on."""
    with pytest.raises(lab.RankError, match="closed file"):
        ranks.execute("import sys; sys.stdout.close()\nprint(1)")
    assert texts(ranks.execute("3")) == ["3", "3"]


def test_subgroups_stay_from_cell_to_cell() -> None:
    """A group made by new_group in one cell is used in the next."""
    with lab.Ranks(3) as ranks:
        ranks.execute("pair = dist.new_group([0, 2])")
        run = ranks.execute(
            "x = torch.ones(1) * rank\n"
            "if rank != 1: dist.all_reduce(x, group=pair)\nx.item()"
        )
        assert texts(run) == ["2.0", "1.0", "2.0"]


def test_modules_edited_between_cells_are_the_readers_business(ranks, tmp_path) -> None:
    """sys.path of the caller is that of the ranks when they start, and stays theirs."""
    (tmp_path / "mine.py").write_text("def f(): return 'mine'")
    ranks.push(folder=str(tmp_path))
    ranks.execute("import sys; sys.path.insert(0, folder)\nimport mine")
    assert texts(ranks.execute("mine.f()")) == ["'mine'"] * 2


def _fake_all_reduce() -> int:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    dist.all_reduce(torch.ones(1))
    return dist.get_world_size()


def test_members_of_a_fake_group_need_not_be_there() -> None:
    """A group of torch's fake backend is larger than the ranks that run."""
    with lab.Ranks(1) as ranks:
        assert ranks.run(_fake_all_reduce).results == [4]

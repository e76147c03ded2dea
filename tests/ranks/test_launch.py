"""What `run` promises: what reaches the ranks, what comes back, and what goes wrong."""

import contextlib
import dataclasses
import datetime
import functools
import math
import os
import pty
import queue
import random
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch
import torch.distributed as dist
from conftest import alive, until

import collectives_lab as lab
from collectives_lab import recorder
from collectives_lab.launch import group
from collectives_lab.launch.processes import printed_output
from collectives_lab.launch.processes.forked import (
    Server,
    prepare,
    servers,
)
from collectives_lab.launch.processes.handles import START_DEADLINE
from collectives_lab.launch.rank import channel, store

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.usefixtures("nothing_left")

SOON = 60.0
"""Seconds in which a case of about two must have ended, on a machine that is busy."""

MUCH_LATER = 90.0
"""The deadline of a run that is to fail before it, in seconds."""


@pytest.fixture(autouse=True)
def all_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what ranks say of themselves, on a machine that is busy too."""
    monkeypatch.setattr(group, "ANSWER", 10.0)


@pytest.fixture
def all_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure, wait for the ranks that fail too, however late they do."""
    monkeypatch.setattr(group, "SETTLE", 10.0)


def let_wait(others: int) -> None:
    """Come back when so many other ranks wait in a call, as the status board says."""
    board = recorder.current().board
    while sum(board.blocked) < others:
        time.sleep(0.001)


def fails(kind: type[lab.LabError], fn: Callable, **options):
    """The error of a run that must fail so, soon, and leave the next run healthy."""
    begun = time.monotonic()
    with pytest.raises(lab.LabError) as caught:
        lab.run(fn, **{"timeout": MUCH_LATER} | options)
    took = time.monotonic() - begun
    error = caught.value
    assert type(error) is kind, error
    assert took < SOON, f"{took:.1f} s until: {error}"
    assert "collectives_lab/launch" not in str(error)
    assert isinstance(error.run, lab.Run)
    assert lab.run(dist.get_rank, world_size=2).results == [0, 1]
    return error


def quotes(error: lab.LabError, source: str) -> bool:
    """Whether the message names this file and quotes this line of it."""
    return bool(
        re.search(r"line \d+ of test_launch.py: `" + re.escape(source), str(error))
    )


# -- what comes back -------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 16])
def test_every_world_size_runs(world_size: int) -> None:
    """Any number of ranks computes together, and results come back by rank."""

    def sum_of_ranks():
        x = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(x)
        return dist.get_rank(), x.item()

    run = lab.run(sum_of_ranks, world_size=world_size)
    total = world_size * (world_size - 1) / 2
    assert run.results == [(rank, total) for rank in range(world_size)]
    assert run.world_size == world_size == len(run.output)


@pytest.mark.slow
def test_64_ranks_run() -> None:
    """Sixty-four ranks reduce together."""

    def sum_of_ranks():
        x = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(x)
        return x.item()

    assert lab.run(sum_of_ranks, world_size=64).results == [2016.0] * 64


def test_a_numpy_integer_is_a_world_size() -> None:
    """What counts ranks may be numpy's."""
    assert lab.run(dist.get_rank, world_size=np.int64(2)).results == [0, 1]


def test_spawned_ranks_do_the_same() -> None:
    """start_method="spawn" runs the same function, with OpenMP used here before."""
    torch.randn(500, 500) @ torch.randn(500, 500)
    offset = 10

    def shifted():
        x = torch.full((1,), float(dist.get_rank() + offset))
        dist.all_reduce(x)
        print("spawned")
        return x.item()

    run = lab.run(shifted, world_size=2, start_method="spawn")
    assert run.results == [21.0] * 2
    assert run.output == ["spawned\n"] * 2


class Callable_:
    def __call__(self):
        return "object", dist.get_rank()

    def method(self):
        return "method", dist.get_rank()


def named(name):
    return name, dist.get_rank()


FUNCTIONS = {
    "lambda": lambda: ("lambda", dist.get_rank()),
    "partial": functools.partial(named, "partial"),
    "object": Callable_(),
    "method": Callable_().method,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whatever_can_be_called_runs(name: str) -> None:
    """Functions of every kind run on the ranks."""
    assert lab.run(FUNCTIONS[name], world_size=2).results == [(name, 0), (name, 1)]


def test_a_function_of_a_library_runs() -> None:
    """A builtin and a module's function run as they are."""
    assert lab.run(dist.get_rank, world_size=2).results == [0, 1]
    assert lab.run(math.sqrt, world_size=1, args=[9.0]).results == [3.0]


def test_arguments_reach_every_rank() -> None:
    """Tensors, views and functions among the arguments arrive as they were."""
    table = torch.arange(20_000.0).reshape(100, 200)

    def look(column, function, text):
        column += 1  # a rank may write to what it was given
        return column, function(3), text

    args = (table[:, 7], lambda x: x * x, "word")
    for column, nine, word in lab.run(look, world_size=2, args=args).results:
        assert torch.equal(column, table[:, 7] + 1)
        assert (nine, word) == (9, "word")
    assert table[0, 7] == 7.0


@dataclasses.dataclass
class Point:
    x: int
    tensor: torch.Tensor


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.one, self.two = one, two


def same(a: Any, b: Any) -> bool:
    """Equality that looks into tensors, at their dtype and shape too."""
    if isinstance(a, torch.Tensor):
        alike = type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        return alike and torch.equal(a.to_dense(), b.to_dense())
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and bool((a == b).all())
    return type(a) is type(b) and a == b


RESULTS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "0-dim": lambda: torch.tensor(3.5),
    "empty": lambda: torch.empty(0, 4),
    "bool": lambda: torch.tensor([True, False]),
    "bfloat16": lambda: torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
    "complex": lambda: torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "not contiguous": lambda: torch.arange(12.0).reshape(3, 4).t(),
    "expanded": lambda: torch.arange(3.0).expand(4, 3),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "numpy": lambda: np.arange(6, dtype=np.int16).reshape(2, 3).T,
    "numpy scalar": lambda: np.float32(0.5),
    "nested": lambda: {"a": [1, (2.0, None)], "b": {"c": b"bytes"}},
    "large text": lambda: "x" * 200_000,
    "set": lambda: {1, 2, 3},
    "type": lambda: torch.float16,
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_comes_back_as_it_was(name: str) -> None:
    """Values of all kinds arrive equal, of the same type, dtype and shape."""
    make = RESULTS[name]
    assert same(lab.run(make, world_size=1).results[0], make())


def test_objects_of_the_readers_own_classes_come_back() -> None:
    """A dataclass and an exception defined here are results like others."""

    def make():
        return Point(dist.get_rank(), torch.ones(2)), Odd(1, "b")

    def by_keyword(cls, **state):
        obj = cls.__new__(cls)
        obj.__dict__.update(state)
        return obj

    def safe():
        return by_keyword(Point, x=dist.get_rank(), tensor=torch.ones(2))

    point = lab.run(safe, world_size=2).results[1]
    assert type(point).__name__ == "Point" and point.x == 1
    assert torch.equal(point.tensor, torch.ones(2))


def test_a_module_comes_back() -> None:
    """An nn.Module arrives with its parameters, which still want gradients."""
    model = lab.run(lambda: torch.nn.Linear(3, 2), world_size=1).results[0]
    assert [tuple(p.shape) for p in model.parameters()] == [(2, 3), (2,)]
    assert all(p.requires_grad and p.is_leaf for p in model.parameters())
    model(torch.ones(1, 3)).sum().backward()


def test_a_view_travels_without_its_base() -> None:
    """A column of a large tensor costs its own bytes, not those of the whole."""
    base = torch.zeros(1000, 1000)
    assert channel.nbytes(channel.pack(base[:, 3])) < 10_000
    assert channel.nbytes(channel.pack(base)) > 4_000_000
    assert torch.equal(lab.run(lambda: base[3, :5] + 1, 1).results[0], torch.ones(5))


def test_torch_may_clone_the_store(tmp_path: Path) -> None:
    """As it does to split a group of NCCL's, which is how it makes a mesh."""
    ours = store.open_store(str(tmp_path / "store"), 1)
    if not hasattr(ours, "clone"):
        pytest.skip("this torch clones no stores")
    dist.PrefixStore("part", ours).clone().set("key", "value")
    assert ours.get("part/key") == b"value"


def test_what_is_packed_lends_no_memory() -> None:
    """A BytesIO that lends its own, when collected in a cycle, ends Python 3.12."""
    assert isinstance(channel.pack({"x": torch.ones(2)})[0], bytes)


def test_one_tensor_twice_is_still_one() -> None:
    """A result that holds a tensor twice holds one tensor twice here."""

    def twice():
        x = torch.zeros(3)
        return x, x

    first, second = lab.run(twice, world_size=1).results[0]
    assert first is second


@pytest.mark.parametrize("mebibytes", [1, 32])
def test_a_large_result_arrives_and_may_be_written_to(mebibytes: int) -> None:
    """Megabytes come back whole, belong to the reader, and hold no descriptor."""

    def make(n):
        return torch.full((n,), dist.get_rank(), dtype=torch.uint8)

    n = mebibytes * 2**20
    lab.run(make, world_size=2, args=[n])
    before = len(os.listdir("/proc/self/fd"))
    runs = [lab.run(make, world_size=2, args=[n]) for _ in range(3)]
    assert len(os.listdir("/proc/self/fd")) <= before  # less: an old server retired
    for run in runs:
        for rank, tensor in enumerate(run.results):
            assert tensor.numel() == n and bool((tensor == rank).all())
            tensor += 1


@pytest.mark.slow
def test_a_gigabyte_comes_back() -> None:
    """Two ranks return half a gigabyte each."""

    def make():
        return torch.full((2**29,), dist.get_rank(), dtype=torch.uint8)

    results = lab.run(make, world_size=2, timeout=60).results
    assert [(t.numel(), int(t[0]), int(t[-1])) for t in results] == [
        (2**29, 0, 0),
        (2**29, 1, 1),
    ]


# -- what reaches the ranks ------------------------------------------------------------


def test_the_environment_is_that_of_torchrun() -> None:
    """RANK and its relatives are set as torchrun sets them."""

    def look():
        names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"]
        return [os.environ[n] for n in names], os.environ["MASTER_ADDR"]

    for rank, (numbers, address) in enumerate(lab.run(look, world_size=3).results):
        assert numbers == [str(rank), str(rank), "3", "3"]
        assert address == "127.0.0.1"


def test_env_reaches_the_ranks_and_only_them() -> None:
    """env sets variables of the ranks, numbers as text, for this run alone."""

    def look():
        return os.environ.get("LAB_WORD"), os.environ.get("LAB_NUMBER")

    env = {"LAB_WORD": "a=b c", "LAB_NUMBER": 7}
    assert lab.run(look, world_size=2, env=env).results == [("a=b c", "7")] * 2
    assert lab.run(look, world_size=2).results == [(None, None)] * 2
    assert "LAB_WORD" not in os.environ


def test_the_ranks_are_where_the_reader_is(tmp_path, monkeypatch) -> None:
    """Environment, folder and import path are the caller's of now."""
    lab.run(dist.get_rank, world_size=1)  # a server stands since before the change
    (tmp_path / "module_of_the_reader.py").write_text("answer = 42")
    monkeypatch.setenv("LAB_LATER", "yes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def look():
        import module_of_the_reader

        return os.environ["LAB_LATER"], os.getcwd(), module_of_the_reader.answer

    assert lab.run(look, world_size=1).results == [("yes", str(tmp_path), 42)]
    monkeypatch.delenv("LAB_LATER")
    assert lab.run(lambda: os.environ.get("LAB_LATER"), 1).results == [None]


@pytest.mark.slow
def test_a_folder_full_of_traps_does_not_stop_the_server(script, tmp_path) -> None:
    """A reader's file named like one of Python's modules does no harm to the ranks."""
    (tmp_path / "queue.py").write_text("raise RuntimeError('the wrong queue')")
    source = "import collectives_lab as lab, torch.distributed as dist\n"
    source += "print('results', lab.run(dist.get_rank, world_size=2).results)"
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "it.py"
    path.write_text(source)
    assert "results [0, 1]" in script("", [sys.executable, str(path)]).output()


@pytest.mark.parametrize(
    "env, words",
    [
        ({"GLOO_SOCKET_IFNAME": "nowhere0"}, "nowhere0"),
        ({"OMP_NUM_THREADS": "some"}, "OMP_NUM_THREADS"),
    ],
)
def test_a_rank_that_cannot_join_says_why(env: dict, words: str) -> None:
    """What keeps ranks from joining their group is told, not what follows from it."""
    error = fails(lab.RankError, dist.get_rank, world_size=2, env=env)
    assert words in str(error) and "AssertionError" not in str(error)


def test_threads_may_be_given_as_a_list_of_levels() -> None:
    """OMP_NUM_THREADS may be empty or hold a number a level, as OpenMP allows."""
    for threads in ("", "2,1"):
        run = lab.run(torch.get_num_threads, 1, env={"OMP_NUM_THREADS": threads})
        assert run.results[0] >= 1


def test_ranks_draw_different_numbers() -> None:
    """Forked ranks do not share the state of Python's and numpy's generators."""

    def draw():
        import random

        return random.random(), np.random.rand()

    results = lab.run(draw, world_size=4).results
    assert len({x for pair in results for x in pair}) == 8


# -- what is refused before anything starts --------------------------------------------


REFUSED: list[tuple[dict, str]] = [
    *[({"world_size": w}, "at least one rank") for w in (0, -1)],
    *[({"world_size": w}, "a whole number") for w in (1.5, "4", None, True)],
    ({"world_size": 10**6}, "memory"),
    *[({"timeout": t}, "seconds") for t in (0, -1, None, "5", True)],
    *[({"timeout": t}, "seconds") for t in (math.inf, math.nan)],
    *[({"backend": b}, '"auto", "gloo" or "nccl"') for b in ("mpi", "", None)],
    ({"start_method": "thread"}, '"fork" or "spawn"'),
    ({"fn": 3}, "must be a function"),
    ({"fn": None}, "must be a function"),
    ({"env": {1: "a"}}, "env"),
    ({"env": "A=1"}, "env"),
    ({"args": 3}, "args"),
]


@pytest.mark.parametrize(
    "options, rule", REFUSED, ids=[str(next(iter(o.items()))) for o, _ in REFUSED]
)
def test_nonsense_is_refused_before_a_process_starts(
    options: dict, rule: str, ranks_started: list[int]
) -> None:
    """A LaunchError shows what was found and the rule, and no rank has started."""
    options = {"fn": dist.get_rank} | options
    with pytest.raises(lab.LaunchError, match=re.escape(rule)) as caught:
        lab.run(**options)
    (name,) = list(options)[-1:]
    assert ranks_started == []
    if name not in ("env", "args"):
        assert str(options[name]) in str(caught.value)
    assert isinstance(caught.value, lab.LabError)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without GPUs")
def test_nccl_without_gpus_is_refused() -> None:
    """backend="nccl" says that it wants GPUs and what to use instead."""
    with pytest.raises(lab.LaunchError, match=r"a GPU for each.*gloo"):
        lab.run(dist.get_rank, world_size=2, backend="nccl")


def test_a_memory_limit_is_named(monkeypatch, ranks_started: list[int]) -> None:
    """More ranks than the memory bears are refused with all figures."""
    from collectives_lab.basics import machine_limits

    monkeypatch.setattr(machine_limits, "free_memory", lambda: 10**9)
    with pytest.raises(lab.LaunchError, match=r"=1000 .*") as caught:
        lab.run(dist.get_rank, world_size=1000)
    assert str(caught.value).endswith(
        "the ranks need about 14.9 GiB of memory, the connections between all pairs of "
        "them 14.9 GiB, and 953.7 MiB are free"
    )
    assert ranks_started == []


@pytest.mark.slow
def test_too_few_open_files_are_named(script) -> None:
    """With ulimit -n too low for the ranks, the limit is named and nothing starts."""
    source = """
import os, resource, torch.distributed as dist, collectives_lab as lab
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(90)]
try:
    lab.run(dist.get_rank, world_size=16)
except lab.LaunchError as error:
    print("refused:", error)
"""
    assert "limit of 128 open files" in script(source).output()


class Unpicklable:
    def __init__(self):
        self.lock = threading.Lock()


held_lock = Unpicklable()


def test_a_function_that_cannot_travel_names_the_variable(
    ranks_started: list[int],
) -> None:
    """The error says which variable cannot be pickled, and what to do instead."""
    guard = threading.Lock()

    def closure():
        with guard:
            return 1

    def with_global():
        return held_lock

    for fn, name, kind in [
        (closure, "guard", "lock"),
        (with_global, "held_lock", "Unpicklable"),
    ]:
        with pytest.raises(lab.LaunchError, match=f"uses {name}, a .*{kind}") as caught:
            lab.run(fn)
        assert "Make it inside" in str(caught.value)
    with pytest.raises(lab.LaunchError, match=r"args\[1\], a lock"):
        lab.run(named, args=[1, guard])
    assert ranks_started == []


def test_a_rank_cannot_start_ranks() -> None:
    """run inside run is refused with a sentence, in both forms."""
    error = fails(lab.RankError, lambda: lab.run(dist.get_rank), world_size=2)
    assert "cannot start ranks" in str(error)
    error = fails(lab.RankError, lambda: lab.Ranks(2), world_size=1)
    assert "cannot start ranks" in str(error)


# -- what goes wrong -------------------------------------------------------------------


def fails_alone():
    if dist.get_rank() == 2:
        let_wait(3)
        raise ValueError("bad luck")
    dist.barrier()


def test_an_exception_on_one_rank_is_reported_with_its_line() -> None:
    """The others are stopped, and the traceback begins in the reader's code."""
    error = fails(lab.RankError, fails_alone)
    text = str(error)
    assert text.startswith("rank 2 of 4 failed in line")
    assert quotes(error, 'raise ValueError("bad luck")')
    assert text.count("Traceback") == 1 and "ValueError: bad luck" in text
    assert re.findall(r'File "(.*)", line', text) == [__file__]
    assert text.endswith(
        "Ranks 0, 1 and 3 were waiting and were stopped because rank 2 failed."
    )
    assert (error.rank, type(error.cause)) == (2, ValueError)
    assert error.where.startswith(__file__)
    assert {e.op for e in error.run.trace.events} == {"barrier"}
    assert {e.rank for e in error.run.trace.events} == {0, 1, 3}


def test_what_was_printed_before_a_failure_is_kept() -> None:
    """The error's run holds the output of every rank, also of those that waited."""

    def talk():
        print("hello from", dist.get_rank())
        fails_alone()

    assert fails(lab.RankError, talk).run.output == [
        f"hello from {rank}\n" for rank in range(4)
    ]


def test_an_exception_on_all_ranks_is_reported_once(all_report) -> None:
    """Four equal failures are one message about all four."""

    def bad():
        raise ValueError("the same")

    error = fails(lab.RankError, bad)
    assert str(error).startswith("all 4 ranks failed in line")
    assert str(error).count("the same") <= 3  # the line quoted twice, the message
    assert "stopped" not in str(error)


def test_two_equal_failures_are_reported_together(monkeypatch) -> None:
    """Ranks that failed alike are all named."""
    monkeypatch.setattr(group, "SETTLE", 2.0)

    def bad():
        if dist.get_rank() % 2:
            let_wait(2)
            raise ValueError("odd")
        dist.barrier()

    text = str(fails(lab.RankError, bad))
    assert text.startswith("ranks 1 and 3 of 4 failed in line")
    assert text.endswith(
        "Ranks 0 and 2 were waiting and were stopped because rank 1 failed."
    ) or (text.endswith("because rank 3 failed."))


class Noted(KeyError):
    """Leaves a file when its words are asked for: its rank has failed by then."""

    def __str__(self):
        Path(self.args[0]).touch()
        return "first"


def test_two_different_failures_are_both_reported(all_report, tmp_path) -> None:
    """The first failure in full, the other in a line."""
    first = tmp_path / "first"

    def bad():
        if dist.get_rank() == 1:
            raise Noted(first)
        if dist.get_rank() == 3:
            while not first.exists():
                time.sleep(0.001)
            raise OSError("second")

    text = str(fails(lab.RankError, bad))
    assert text.startswith("rank 1 of 4 failed")
    assert "Rank 3 failed too: rank 3 with OSError: second" in text


class BadStr(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class BadPickle(Exception):
    def __reduce__(self):
        raise RuntimeError("no pickle")


class BadUnpickle(Exception):
    def __init__(self, one, two):
        super().__init__("only one")


def by_cause():
    try:
        {}["key"]
    except KeyError as error:
        raise ValueError("from a cause") from error


def by_context():
    try:
        {}["key"]
    except KeyError:
        raise ValueError("in a context")  # noqa: B904


def group_of_errors():
    raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])


def raising(make):
    def fn():
        raise make()

    return fn


def recurses(n=0):
    return recurses(n + 1)


def bad_syntax():
    exec("x = = 1")


def warned():
    warnings.simplefilter("error")
    warnings.warn("a warning", stacklevel=1)


EXCEPTIONS: dict[str, tuple[Callable, list[str]]] = {
    "cause": (
        by_cause,
        ["KeyError: 'key'", "direct cause", "ValueError: from a cause"],
    ),
    "context": (by_context, ["KeyError: 'key'", "During handling", "in a context"]),
    "group": (group_of_errors, ["several (2 sub-exceptions)", "TypeError: two"]),
    "own class": (raising(lambda: Odd(1, "b")), ["Odd: 1 and b"]),
    "str raises": (raising(BadStr), ["BadStr"]),
    "not picklable": (raising(lambda: BadPickle("x")), ["BadPickle: x"]),
    "not unpicklable": (raising(lambda: BadUnpickle(1, 2)), ["BadUnpickle: only one"]),
    "stop iteration": (raising(lambda: StopIteration(3)), ["StopIteration: 3"]),
    "recursion": (recurses, ["RecursionError", "recurses(n + 1)"]),
    "syntax": (bad_syntax, ["SyntaxError", "x = = 1"]),
    "warning": (warned, ["UserWarning: a warning"]),
    "assertion": (raising(AssertionError), ["AssertionError"]),
    "interrupt": (raising(KeyboardInterrupt), ["KeyboardInterrupt"]),
    "generator exit": (raising(GeneratorExit), ["GeneratorExit"]),
    "no message": (raising(ValueError), ["ValueError"]),
    "many lines": (raising(lambda: ValueError("a\nb\nc")), ["a\nb\nc"]),
    "long": (raising(lambda: ValueError("x" * 10**6)), ["ValueError: xxx", "left out"]),
    "surrogate": (raising(lambda: ValueError("\ud800")), ["ValueError"]),
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_kind_of_exception_is_reported(name: str, all_report) -> None:
    """What a rank raises arrives with its type and words, without our frames."""
    fn, message = EXCEPTIONS[name]
    error = fails(lab.RankError, fn, world_size=2)
    assert str(error).startswith("all 2 ranks failed in line")
    for part in message:
        assert part in str(error)


@pytest.mark.parametrize("code", [None, 0, 3, "a reason"])
def test_sys_exit_is_no_way_out(code: Any) -> None:
    """A rank that leaves by sys.exit is told to return instead."""

    def leave():
        if dist.get_rank() == 1:
            sys.exit(code)
        dist.barrier()

    error = fails(lab.RankError, leave)
    assert error.rank == 1 and quotes(error, "sys.exit(code)")
    assert "return" in str(error) and "Ranks 0, 2 and 3" in str(error)


def dies(how: str):
    def fn():
        if dist.get_rank() == 1:
            if how == "_exit":
                os._exit(3)
            if how == "abort":
                os.abort()
            if how == "segv":
                import ctypes

                ctypes.string_at(0)
            os.kill(os.getpid(), getattr(signal, how))
            time.sleep(5)
        dist.barrier()

    return fn


@pytest.mark.parametrize(
    "how, status, words, line",
    [
        ("_exit", 3, "os._exit(3)", "os._exit(3)"),
        ("SIGKILL", -9, "SIGKILL (somebody killed it", ""),
        ("SIGTERM", -15, "SIGTERM", ""),
        ("abort", -6, "SIGABRT (a C++ library gave up", "os.abort()"),
        ("segv", -11, "SIGSEGV", "ctypes.string_at(0)"),
    ],
)
def test_a_rank_that_dies_is_explained(how, status, words, line) -> None:
    """The signal in plain English, the rank, and the line where it can be known."""
    error = fails(lab.RankDied, dies(how))
    assert (error.rank, error.status) == (1, status)
    assert str(error).startswith("rank 1 of 4") and words in str(error)
    assert "Ranks 0, 2 and 3" in str(error)
    if line:
        assert quotes(error, line)


def test_a_killed_rank_is_reported_with_the_line_of_its_last_call() -> None:
    """Nobody sees where SIGKILL strikes; what the rank called last is known."""

    def fn():
        dist.barrier()
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    error = fails(lab.RankDied, fn, world_size=2)
    line = fn.__code__.co_firstlineno + 1
    assert f"last communication call was in line {line}." in str(error)


def test_a_rank_that_gloo_sends_too_much_dies_and_its_last_words_are_kept() -> None:
    """Gloo compares the bytes that arrive with those that fit; `explain` reads it."""

    def fn():
        elements = 2000 if dist.get_rank() == 0 else 1000
        backend = dist.new_group()._get_backend(torch.device("cpu"))  # not recorded
        with contextlib.suppress(RuntimeError):  # rank 0's, if it sees the other's end
            backend.allreduce([torch.ones(elements)]).wait()

    error = fails(lab.RankDied, fn, world_size=2, backend="gloo")
    assert (error.rank, error.status) == (1, -signal.SIGABRT)
    last_words = error.run.output[1]
    assert "op.preamble.length <= op.nbytes" in last_words
    assert "Received data size doesn't match expected size" in last_words


def test_the_children_of_a_spawned_rank_that_dies_end_too(tmp_path) -> None:
    """What a rank has started ends with it, also when it dies by itself."""
    path = tmp_path / "pid"

    def leave_one():
        import subprocess

        path.write_text(str(subprocess.Popen(["sleep", "300"]).pid))
        os._exit(5)

    with pytest.raises(lab.RankDied, match="exit"):
        lab.run(leave_one, world_size=1, start_method="spawn")
    child = int(path.read_text())
    try:
        assert until(lambda: not alive(child))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


SPAWNS = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

FIRST = 10

class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return Pair(i, FIRST + i * i)

class Pair:
    def __init__(self, i, square):
        self.i, self.square = i, square

def as_they_are(pairs):
    return pairs

def doubled(index, queue, rank):
    queue.put((rank, FIRST * 2 + index))

def work():
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(doubled, (queue, dist.get_rank()), nprocs=2)
    told = sorted(queue.get() for _ in range(2))
    loader = DataLoader(
        Squares(), 2, num_workers=1, collate_fn=as_they_are,
        multiprocessing_context="spawn",
    )
    return told, [(pair.i, pair.square) for pairs in loader for pair in pairs]
"""


@pytest.mark.slow
def test_what_a_rank_spawns_knows_what_a_script_defines(script) -> None:
    """mp.spawn and a DataLoader's workers, of functions and classes of `__main__`."""
    begin = """
import collectives_lab as lab
if __name__ == "__main__":
    print("results", lab.run(work, 2, timeout=60).results)
"""
    line = script(SPAWNS + begin).line("results")
    squares = [(i, 10 + i * i) for i in range(4)]
    pairs = [([(rank, 20), (rank, 21)], squares) for rank in range(2)]
    assert line == str(pairs)


def test_all_ranks_dying_is_reported_once(all_report) -> None:
    """When every rank dies, one is told in full and the others are named."""

    def leave():
        dist.barrier()
        os._exit(4)

    error = fails(lab.RankDied, leave)
    assert str(error).startswith("rank 0 of 4 ended its process by os._exit(4)")
    assert "anks 1-3 died too" in str(error)


def test_a_death_that_is_reported_late_is_a_death(tmp_path: Path) -> None:
    """The others fail at once; the fork server, who knows why, may wait for a core."""
    stopped = tmp_path / "stopped"

    def dies() -> None:
        if dist.get_rank() == 1:
            os.kill(os.getppid(), signal.SIGSTOP)
            stopped.write_text(str(os.getppid()))
            os._exit(3)
        dist.barrier()

    def resume() -> None:
        assert until(lambda: stopped.exists() and stopped.read_text())
        time.sleep(5 * group.SETTLE)
        os.kill(int(stopped.read_text()), signal.SIGCONT)

    thread = threading.Thread(target=resume)
    thread.start()
    error = fails(lab.RankDied, dies, world_size=2)
    thread.join()
    assert str(error).startswith("rank 1 of 2 ended its process by os._exit(3)")


def recv_first():
    x, rank, world = torch.zeros(1), dist.get_rank(), dist.get_world_size()
    dist.recv(x, (rank + 1) % world)
    dist.send(x, (rank - 1) % world)


def send_first():
    x, rank, world = torch.zeros(1), dist.get_rank(), dist.get_world_size()
    dist.send(x, (rank + 1) % world)
    dist.recv(x, (rank - 1) % world)


def waits_for_a_finished_rank():
    if dist.get_rank() == 0:
        dist.recv(torch.zeros(1), 1)


def skips():
    if dist.get_rank() != 1:
        dist.all_reduce(torch.zeros(1))
    else:
        let_wait(2)  # of one that comes late nothing could be proved yet


DEADLOCKS = [
    (recv_first, 2, [0, 1], "dist.recv(x, (rank + 1)", "Every one receives first"),
    (recv_first, 3, [0, 1, 2], "dist.recv(x, (rank + 1)", "0 -> 1 -> 2 -> 0"),
    (send_first, 2, [0, 1], "dist.send(x, (rank + 1)", "Every one sends first"),
    (waits_for_a_finished_rank, 2, [0], "dist.recv(torch", "rank 1 has finished"),
    (skips, 3, [0, 2], "dist.all_reduce(torch.zeros(1))", "all_reduce for rank 1"),
]


def ends_by_its_own_timeout(call: str, seconds: float) -> str | None:
    """Let rank 0 alone make a call that has a time-out, and catch its error."""
    timeout = datetime.timedelta(seconds=seconds)
    x, group = torch.zeros(1), None
    if call == "in a group of its own":
        dist.barrier()  # so that the ranks meet within the group's time-out
        group = dist.new_group(timeout=timeout)
    elif call == "in a group made again":
        dist.destroy_process_group()
        dist.init_process_group("gloo", timeout=timeout)
    if dist.get_rank() != 0:
        return None
    try:
        if call == "monitored_barrier":
            dist.monitored_barrier(timeout=timeout)
        elif call == "wait":
            dist.all_reduce(x, async_op=True).wait(timeout)
        elif call == "in a group made again":
            dist.recv(x, 1)
        else:
            dist.all_reduce(x, group=group)
    except RuntimeError as error:
        return type(error).__name__
    return "no error"


TIMED = {
    "monitored_barrier": 0.6,
    "wait": 0.6,
    "in a group of its own": 2.0,
    "in a group made again": 4.0,
}
"""Calls and their time-outs, by which the ranks of a group meet too."""


@pytest.mark.parametrize("call", TIMED)
@pytest.mark.slow
def test_a_call_that_ends_by_its_own_timeout_is_no_deadlock(call: str) -> None:
    """Code that catches the error gets it, as it would from torch alone."""
    run = lab.run(ends_by_its_own_timeout, 2, args=(call, TIMED[call]))
    assert run.results[0] in ("RuntimeError", "DistBackendError")
    assert run.results[1] is None


@pytest.mark.parametrize("call", [call for call in TIMED if call != "wait"])
def test_a_timeout_behind_the_deadline_hides_no_deadlock(call: str) -> None:
    """A time-out that the job will not live to see changes nothing: it is proved."""
    with pytest.raises(lab.Deadlock, match="rank 1 has finished"):
        lab.run(ends_by_its_own_timeout, 2, args=(call, 600.0), timeout=30)


@pytest.mark.parametrize("fn, world_size, ranks, line, words", DEADLOCKS)
def test_a_deadlock_is_proved_and_explained(fn, world_size, ranks, line, words) -> None:
    """Who waits for whom, in which line, and the usual cure, before any deadline."""
    error = fails(lab.Deadlock, fn, world_size=world_size)
    assert error.ranks == ranks
    assert quotes(error, line) and words in str(error)
    for rank in ranks:
        assert re.search(rf"\b{rank}\b.* waits? in", str(error))
    assert {e.rank for e in error.run.trace.events} == set(ranks)


def other_collective():
    if dist.get_rank() != 1:
        dist.all_reduce(torch.zeros(1))
    else:
        dist.broadcast(torch.zeros(1), 0)


def other_shape():
    dist.all_reduce(torch.zeros(dist.get_rank() + 1))


def other_dtype():
    dist.all_reduce(torch.zeros(1, dtype=[torch.float32, torch.int32][dist.get_rank()]))


def other_message():
    if dist.get_rank() == 0:
        dist.send(torch.zeros(3), 1)
    else:
        dist.recv(torch.zeros(4), 0)


def split(sends: list[int], takes: list[int]) -> torch.Tensor:
    out = torch.zeros(sum(takes))
    x = torch.arange(float(sum(sends))) + 10 * dist.get_rank()
    dist.all_to_all_single(out, x, takes, sends)
    return out


def other_splits():
    split(*(([2, 3], [2, 2]), ([2, 2], [2, 2]))[dist.get_rank()])


def own_split():
    split(*(([2, 2], [1, 3]), ([2, 2], [2, 2]))[dist.get_rank()])


def other_parts():
    sizes = ((3, 1), (2, 2))[dist.get_rank()]
    outputs = [torch.zeros(2) for _ in range(2)]
    dist.all_to_all(outputs, [torch.ones(n) for n in sizes])


def test_splits_that_fit_pass() -> None:
    """However uneven, and again and again."""

    def fn():
        sizes = (([1, 3], [1, 2]), ([2, 5], [3, 5]))[dist.get_rank()]
        return [split(*sizes).tolist() for _ in range(3)][-1]

    first, second = lab.run(fn, 2).results
    assert first == [0, 10, 11] and second == [1, 2, 3, 12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    "fn, words",
    [
        (other_collective, ["all_reduce(1 float32", "broadcast(1 float32", "order"]),
        (other_shape, ["all_reduce(1 float32", "all_reduce(2 float32", "shape"]),
        (other_dtype, ["all_reduce(1 float32", "all_reduce(1 int32", "dtype"]),
        (other_message, ["send(3 float32", "recv(4 float32", "number of elements"]),
        (other_splits, ["sends [2, 3], takes [2, 2])", "compare input_split_sizes"]),
        (own_split, ["sends [2, 2], takes [1, 3])", "compare input_split_sizes"]),
        (other_parts, ["sends [3, 1], takes [2, 2])", "compare input_split_sizes"]),
    ],
)
def test_calls_that_do_not_match_are_shown_side_by_side(fn, words) -> None:
    """Both calls, both ranks, both lines, and the rule."""
    error = fails(lab.Mismatch, fn, world_size=2)
    assert error.ranks == [0, 1]
    assert len(re.findall(r"line \d+ of test_launch.py", str(error))) == 2
    for part in [*words, "rank 0", "rank 1"]:
        assert part in str(error)


def test_a_call_that_was_queued_and_left_is_shown_too() -> None:
    """A rank may be through with its job: NCCL only queues what it is given."""
    with lab.Ranks(2) as ranks:
        ranks.execute("work = dist.all_reduce(torch.ones(4), async_op=True)", ranks=[0])
        with pytest.raises(lab.Mismatch) as raised:
            ranks.execute("dist.all_reduce(torch.ones(5))", ranks=[1])
    assert "4 float32" in str(raised.value) and "5 float32" in str(raised.value)


def test_a_mismatch_that_is_caught_is_still_a_mismatch() -> None:
    """Code that swallows every Exception does not hide which calls did not match."""

    def swallow():
        with contextlib.suppress(Exception):
            other_shape()

    fails(lab.Mismatch, swallow, world_size=2)


def loses_a_message(sent: Path):
    if dist.get_rank() == 0:
        for _ in range(2):
            dist.isend(torch.ones(4), 1)
        sent.touch()
    else:
        assert until(sent.exists)
        time.sleep(0.3)  # torch has forgotten the first one
        dist.recv(torch.zeros(4), 0)


def test_a_message_that_was_dropped_is_named(tmp_path: Path) -> None:
    """Its sender has finished, and its receiver does not wait for the deadline."""
    args = (tmp_path / "sent",)
    error = fails(lab.Deadlock, loses_a_message, world_size=2, args=args)
    assert error.ranks == [1]
    assert "isend (line" in str(error) and "dist.isend(torch.ones(4), 1)" in str(error)
    assert "keep what isend returns, and wait() for it" in str(error)


def forgets_a_receive(then: str):
    """Receive the first message into nothing that is kept."""
    x = torch.zeros(4)
    if dist.get_rank() == 0:
        let_wait(1)
        time.sleep(0.2)  # torch has forgotten the first receive
        dist.send(x, 1)
    else:
        dist.irecv(x, 0)
    if then == "barrier":
        dist.barrier()
    elif dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)


@pytest.mark.parametrize("then", ["recv", "barrier"])
def test_an_irecv_that_was_dropped_is_named(then) -> None:
    """What comes after it need not wait for the deadline: its line is there."""
    error = fails(lab.Deadlock, forgets_a_receive, world_size=2, args=(then,))
    assert 1 in error.ranks and f"in {then}" in str(error)
    assert "rank 1 kept nothing of its irecv (line" in str(error)
    assert "keep what irecv returns, and wait() for it" in str(error)


def leaves_it_open(keep: bool):
    """Receive, and wait for it or not."""
    if dist.get_rank() == 0:
        dist.send(torch.ones(4), 1)
    else:
        work = dist.irecv(torch.zeros(4), 0)
        if keep:
            work.wait()


def test_an_irecv_that_nobody_waited_for_is_reported(capsys) -> None:
    """The run is what it is, and says that what was received may be anything."""
    lab.run(leaves_it_open, 2, args=(True,))
    assert capsys.readouterr().err == ""
    assert lab.run(leaves_it_open, 2, args=(False,)).results == [None, None]
    output = capsys.readouterr().err
    assert re.match(r"rank 1 did not wait for the irecv in line \d+ of test_l", output)
    assert "its tensor may hold anything. Keep what irecv returns, and wait()" in output


def test_a_tensor_that_is_not_contiguous_is_reported_before_torchs_words() -> None:
    """Which tensors Gloo takes, and what to do."""

    def fn():
        x = torch.arange(6.0).view(2, 3).t()
        dist.send(x, 1) if dist.get_rank() == 0 else dist.recv(x, 0)

    text = str(fails(lab.RankError, fn, world_size=2))
    assert text.index("send x.contiguous()") < text.index("Traceback")


def strided(rank: int) -> torch.Tensor:
    """A column: what lies between its elements is not its own."""
    return (torch.arange(8.0).view(4, 2) + rank)[:, 0]


def scatters() -> None:
    parts = [strided(0), strided(1)] if dist.get_rank() == 0 else None
    dist.scatter(torch.zeros(4), parts, src=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda rank: dist.all_reduce(strided(rank)),
        lambda rank: dist.broadcast(strided(rank), 0),
        lambda rank: dist.reduce(strided(rank), 0),
        lambda rank: dist.all_to_all_single(strided(rank), torch.zeros(4)),
        lambda rank: dist.reduce_scatter(strided(rank), [torch.zeros(4)] * 2),
        lambda rank: dist.all_reduce(torch.ones(1).expand(4)),
        lambda rank: scatters(),
    ],
)
def test_a_tensor_with_gaps_is_refused_where_gloo_would_write_into_them(call) -> None:
    """torch lets it through, and the result is wrong without a word."""
    text = str(fails(lab.RankError, lambda: call(dist.get_rank()), world_size=2))
    assert text.index("send x.contiguous()") < text.index("Traceback")
    assert "has gaps; it must be contiguous" in text


def test_a_tensor_without_gaps_may_be_in_any_order() -> None:
    """Such as a transposed one, after a contiguous one of the same shape."""

    def fn() -> bool:
        dist.all_reduce(torch.zeros(3, 2))
        x = torch.arange(6.0).view(2, 3).t()
        dist.all_reduce(x)
        return torch.equal(x, 2 * torch.arange(6.0).view(2, 3).t())

    assert lab.run(fn, world_size=2).results == [True, True]


def test_a_rank_that_its_group_does_not_have_is_named_with_a_remedy() -> None:
    """torch says that it is not part of a ProcessGroup object."""

    def fn():
        pair = dist.new_group([0, 1])
        if dist.get_rank() < 2:
            dist.broadcast(torch.zeros(1), src=2, group=pair)

    text = str(fails(lab.RankError, fn, world_size=3))
    assert text.index("must be among the group's") < text.index("Traceback")


def test_a_loop_without_end_meets_the_deadline() -> None:
    """The ranks that are not done are named with the line that each is in."""

    def endless():
        if dist.get_rank() == 1:
            while True:
                time.sleep(0.01)

    error = fails(lab.DeadlineExceeded, endless, world_size=2, timeout=3)
    assert str(error).startswith("rank 1 of 2 was not done after 3 s")
    assert quotes(error, "time.sleep(0.01)") or quotes(error, "while True:")
    assert error.rank == 1 and "timeout=" in str(error)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_tells_where_the_ranks_were_and_not_how_we_wait(tmp_path) -> None:
    """Between the reader's line and theirs there is none of the launcher's inside."""

    def fn():
        (tmp_path / str(dist.get_rank())).touch()
        time.sleep(60)

    def interrupt():
        until(lambda: len(list(tmp_path.iterdir())) == 2, START_DEADLINE)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        lab.run(fn, world_size=2)
    places = caught.value.__notes__[0]  # one of them may not sleep yet
    assert quotes(places, "time.sleep(60)") or quotes(places, "(tmp_path / ")
    assert "inbox.py" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda x: dist.broadcast(x, src=5),
            "broadcast: src=5 is no rank of its group",
        ),
        (
            lambda x: dist.reduce(x, dst=-1),
            "reduce: dst=-1 is no rank of its group of 2",
        ),
        (lambda x: dist.send(x, dst=7), "send: dst=7 is no rank of its group of 2"),
        (lambda x: dist.recv(x, src=2), "recv: src=2 is no rank .* they are 0 to 1"),
        (
            lambda x: dist.recv(x, src=dist.get_rank()),
            r"recv: rank \d cannot send to itself",
        ),
    ],
)
def test_a_rank_that_is_not_there_is_named_before_anything_is_sent(call, words) -> None:
    """The call, the argument, and the ranks that there are; no error of Gloo's."""
    error = fails(lab.RankError, lambda: call(torch.zeros(1)), world_size=2)
    assert re.search(words, str(error)) and "gloo" not in str(error)
    assert isinstance(error.cause, ValueError)


def waits_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    if dist.get_rank() == 0:
        lock.acquire()
    while True:
        pass


def waits_for_a_queue():
    if dist.get_rank() == 0:
        queue.Queue().get()
    while True:
        pass


@pytest.mark.parametrize(
    "fn, line",
    [(waits_for_a_lock, "lock.acquire()"), (waits_for_a_queue, "queue.Queue().get()")],
)
@pytest.mark.slow
def test_a_rank_that_waits_for_a_lock_or_a_queue_is_not_busy(fn, line) -> None:
    """It uses no processor time; one that computes is busy."""
    words = str(fails(lab.DeadlineExceeded, fn, world_size=2, timeout=2))
    assert re.search(rf"rank 0: waiting in line \d+ .*`{re.escape(line)}`", words)
    assert re.search(r"rank 1: busy in line \d+ .*`(while True:|pass)`", words)


def test_ranks_that_wait_in_different_groups_say_in_which() -> None:
    """The pool of threads may still do something else, so nothing is proved."""

    def fn():
        groups = [dist.new_group(), dist.new_group()]
        with ThreadPoolExecutor(1) as pool:
            here = groups if dist.get_rank() == 0 else groups[::-1]
            list(pool.map(lambda g: dist.all_reduce(torch.ones(1), group=g), here))

    words = str(fails(lab.DeadlineExceeded, fn, world_size=2, timeout=2))
    assert "rank 0: waiting in all_reduce of group 1 in line" in words
    assert "rank 1: waiting in all_reduce of group 2 in line" in words
    assert "must use them in the same order, also from threads" in words


def test_a_function_of_a_library_has_no_line_of_the_reader() -> None:
    """The command that began the process is not theirs, nor is its line 1."""
    with pytest.raises(lab.DeadlineExceeded) as caught:
        lab.run(time.sleep, world_size=2, args=(60,), timeout=1)
    assert "ranks 0 and 1: in a library\n" in str(caught.value)
    assert "line 1" not in str(caught.value)


@pytest.mark.parametrize("timeout", [0.001, 0.02, 0.04])
def test_a_deadline_at_the_very_end_is_no_riddle(timeout: float) -> None:
    """A job that ends as its deadline passes is done, or late; nothing third."""
    try:
        run = lab.run(lambda: time.sleep(0.02), world_size=4, timeout=timeout)
        assert run.results == [None] * 4
    except lab.DeadlineExceeded as error:
        assert f"not done after {timeout:g} s" in str(error)


@pytest.mark.slow
def test_a_rank_that_holds_the_interpreter_meets_the_deadline(monkeypatch) -> None:
    """A rank that cannot even answer is ended, and said not to answer."""
    monkeypatch.setattr(group, "ANSWER", 1.0)

    def deaf():
        import ctypes

        if dist.get_rank() == 1:
            ctypes.PyDLL(None).sleep(60)

    error = fails(lab.DeadlineExceeded, deaf, world_size=2, timeout=1)
    assert "rank 1: no answer" in str(error)


@pytest.mark.slow
def test_a_stopped_rank_meets_the_deadline(monkeypatch) -> None:
    """A rank that is stopped by a signal is ended too."""
    monkeypatch.setattr(group, "ANSWER", 1.0)

    def stop():
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)

    fails(lab.DeadlineExceeded, stop, world_size=2, timeout=1)


@pytest.mark.parametrize(
    "make, kind",
    [
        (lambda: (x for x in [1]), "generator"),
        (lambda: threading.Lock(), "lock"),
        (lambda: dist.group.WORLD, "ProcessGroup"),
        (lambda: {"a": [sys._getframe()]}, "dict"),
    ],
)
def test_a_result_that_cannot_be_pickled_is_named(make, kind) -> None:
    """The rank, the type, the reason, and what to return instead."""
    error = fails(lab.RankError, make, world_size=2)
    assert f"the result, a {kind}" in str(error) and "return tensors" in str(error)


def test_a_function_that_runs_nothing_is_refused(ranks_started: list[int]) -> None:
    """An `async def` or a generator is named as one, with what to give instead."""

    async def later():
        return 3

    def one_by_one():
        yield 3

    async def one_by_one_later():
        yield 3

    class Later:
        async def __call__(self):
            return 3

    for fn, remedy in (
        (later, "a plain function that returns `asyncio.run(later(...))`"),
        (functools.partial(later), "a plain function that returns `asyncio.run(later"),
        (Later(), "a plain function that returns `asyncio.run(Later.__call__(...))`"),
        (one_by_one, "a plain function that returns `list(one_by_one(...))`"),
        (one_by_one_later, "goes through it with `async for`, inside of `asyncio.run`"),
    ):
        with pytest.raises(lab.LaunchError, match=re.escape(remedy)):
            lab.run(fn, world_size=2)
    assert ranks_started == []


def test_a_coroutine_is_no_result() -> None:
    """What an `async def` gives cannot travel, and the error calls it a coroutine."""

    async def later():
        return 3

    assert "coroutine" in str(fails(lab.RankError, lambda: later(), world_size=1))


class Refuses:
    def __reduce__(self):
        return refuse, ()


def refuse():
    if os.environ.get("RANK") is None:
        raise RuntimeError("not here")


def test_a_result_that_cannot_be_read_here_names_its_rank() -> None:
    """A value that fails when it arrives is an error of ours, with the run."""
    error = fails(lab.LabError, lambda: Refuses(), world_size=2)
    assert "rank 0" in str(error) and "not here" in str(error)


def test_a_result_too_large_for_the_machine_is_refused() -> None:
    """A rank does not try to send more than fits, and says both figures."""

    def huge():
        from collectives_lab.launch.rank import rank_process as rank

        rank.free_memory = lambda: 10**6
        return torch.zeros(10**7)

    error = fails(lab.RankError, huge, world_size=1)
    assert "GB" in str(error) and "free memory" in str(error)


def test_an_error_in_another_thread_is_printed() -> None:
    """A thread of a rank that fails says so on stderr, and the rank goes on."""

    def fn():
        thread = threading.Thread(target=fails_in_thread)
        thread.start()
        thread.join()
        return 1

    run = lab.run(fn, world_size=2)
    assert run.results == [1, 1]
    assert all("ZeroDivisionError" in text for text in run.output)


def fails_in_thread():
    return 1 / 0


def test_a_communication_error_may_be_caught() -> None:
    """torch's own errors are ordinary exceptions of the reader's code."""

    def fn():
        try:
            dist.all_reduce("no tensor")
        except TypeError as error:
            return type(error).__name__

    assert lab.run(fn, world_size=2).results == ["TypeError"] * 2


def test_a_forked_child_of_a_rank_speaks_for_itself() -> None:
    """A rank whose helper process ended by os._exit and that dies later died itself."""

    def fn():
        import multiprocessing

        if dist.get_rank() == 1:
            helper = multiprocessing.get_context("fork").Process(target=print)
            helper.start()
            helper.join()
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    error = fails(lab.RankDied, fn, world_size=2)
    assert "SIGKILL" in str(error) and "os._exit" not in str(error)


# -- output ----------------------------------------------------------------------------


def test_output_is_kept_by_rank_and_echoed_with_its_rank(capfd) -> None:
    """Every rank's output is in run.output, and shown once where it is the same."""

    def talk():
        print("all alike")
        print("mine", dist.get_rank())
        print("oops", file=sys.stderr)

    run = lab.run(talk, world_size=2)
    for rank, text in enumerate(run.output):
        assert text.count("all alike\n") == 1 and f"mine {rank}\n" in text
        assert "oops\n" in text
    out, err = capfd.readouterr()
    assert "[rank 0] mine 0\n" in out and "[rank 1] mine 1\n" in out
    assert "oops" in err and "oops" not in out


def test_output_streams_while_the_run_goes_on(script) -> None:
    """A line is shown long before the function returns."""
    source = """
import time, collectives_lab as lab
def fn():
    print("early")
    time.sleep(60)
lab.run(fn, world_size=1, timeout=80)
"""
    assert script(source).line("[rank 0] ") == "early"


def test_what_is_printed_without_flush_leaves_soon() -> None:
    """As in a cell of a notebook, though nobody has asked for it, and in order."""

    def fn():
        for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
            print("half", end="", file=stream)
            time.sleep(1.5)
            os.write(fd, b" a line\n")  # this does not wait for a flush

    assert lab.run(fn, world_size=2).output == ["half a line\n" * 2] * 2


WRITES: dict[str, tuple[bytes, str, str]] = {
    "no newline": (b"no end", "no end", "[rank 0] no end\n"),
    "not UTF-8": (b"a\xffb\n", "a\ufffdb\n", "[rank 0] a\ufffdb\n"),
    "ANSI": (b"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n", "\x1b[31mred"),
    "carriage returns": (b"10%\r50%\r100%\n", "10%\r50%\r100%\n", "[rank 0] 100%\n"),
    "CRLF": (b"dos\r\n", "dos\r\n", "[rank 0] dos"),
    "bar at its end": (b"10%\r100%\r", "10%\r100%\r", "[rank 0] 100%"),
    "empty line": (b"\n", "\n", "[rank 0] \n"),
    "cut character": ("é".encode(), "é", "[rank 0] é\n"),
    "NUL": (b"a\0b\n", "a\0b\n", "a\0b\n"),
    "like Gloo's, and more": (b"[Gloo] Rank 1 i!\n", "[Gloo] Rank 1 i!\n", "Rank 1 i!"),
    "like Gloo's, to the end": (b"so [Gloo] Ra", "so [Gloo] Ra", "so [Gloo] Ra"),
}


def test_what_gloo_says_of_its_connections_is_left_out() -> None:
    """Some torches' Gloo tells of each group on each rank; no other line is touched."""
    line = (
        "[Gloo] Rank {} is connected to 3 peer ranks. {}connected peer ranks is : 3\n"
    )
    ours = line.format(12, "Expected number of ")

    def fn(size):
        text = f"before {ours}after{ours}\n{line.format('two', '')}".encode()
        for begin in range(0, len(text), size):
            os.write(1, text[begin : begin + size])
            time.sleep(0.001)

    for size in (1, 7, 1000):
        output = lab.run(functools.partial(fn, size), 2).output
        assert output == ["before after\n" + line.format("two", "")] * 2


@pytest.mark.parametrize("name", WRITES)
def test_bytes_of_all_kinds_become_text(name: str, capfd) -> None:
    """What C++ or a progress bar writes is kept, and echoed as a terminal would."""
    data, kept, shown = WRITES[name]

    def write():
        for byte in data:
            os.write(1, bytes([byte]))

    run = lab.run(write, world_size=1)
    assert run.output == [kept]
    assert shown in capfd.readouterr().out


ALIVE = """
import time, torch.distributed as dist, collectives_lab as lab
from collectives_lab.launch import group

group.ANSWER = 10.0  # a busy machine answers late

def slow():
    print("half a line", end="", flush=True)
    time.sleep(5 * (dist.get_rank() == 1))
    dist.barrier()
    print(", whole")

if __name__ == "__main__":
    lab.run(slow, 2)
"""


def shown_on_a_terminal(source: str, columns: int) -> str:
    """What a program writes whose standard output is a terminal."""
    ours, its = pty.openpty()
    env = os.environ | {"COLUMNS": str(columns)}
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdout=its, env=env) as process:
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # it has ended
            while data := os.read(ours, 4096):
                shown += data
        os.close(ours)
        assert process.wait(60) == 0
    return shown.decode()


@pytest.mark.slow
def test_a_terminal_shows_that_a_run_goes_on(tmp_path: Path) -> None:
    """Half lines, the seconds, and who waits where; at the end only lines are left."""
    file = tmp_path / "alive.py"
    file.write_text(ALIVE)
    source = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    shown_on = functools.partial(shown_on_a_terminal, source)
    with ThreadPoolExecutor() as pool:  # they sleep for most of the time
        wide, narrow = pool.map(shown_on, (200, 40))
    pictures = wide.split("\r\x1b[K")
    assert "[ranks 0 and 1] half a line" in pictures
    assert any(
        "rank 1: waiting in line 9 of alive.py" in picture for picture in pictures
    )
    assert any("rank 0: waiting in barrier" in picture for picture in pictures)
    assert pictures[-1] == "[ranks 0 and 1] half a line, whole\r\n"
    pictures = narrow.split("\r\x1b[K")
    assert all(len(picture.rstrip()) < 40 for picture in pictures)
    file.write_text(ALIVE.replace("sleep(5", "sleep(2"))
    piped = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert piped.stdout == "[ranks 0 and 1] half a line, whole\n"


@pytest.mark.slow
def test_a_terminal_that_knows_only_ascii_shows_the_rest(script) -> None:
    """Characters that the reader's terminal cannot show do not end the run."""
    source = "import collectives_lab as lab\nlab.run(lambda: print('na\u00efve'), 1)"
    started = script(source, env={"PYTHONIOENCODING": "ascii"})
    assert started.output() == "[rank 0] na\\xefve\n"


def test_a_huge_line_is_kept(capfd) -> None:
    """A line of a megabyte arrives whole in run.output."""
    run = lab.run(lambda: print("x" * 10**6), world_size=1)
    assert run.output == ["x" * 10**6 + "\n"]
    assert len(capfd.readouterr().out) < 10**6


def test_a_hundred_megabytes_of_output_do_no_harm(capfd) -> None:
    """A flood is kept at both ends, echoed a little, and costs the others nothing."""

    def flood():
        if dist.get_rank() == 1:
            for i in range(10**5):
                print(f"{i:09d}", "x" * 989)
        dist.barrier()
        return "done"

    run = lab.run(flood, world_size=2)
    assert run.results == ["done"] * 2
    text = run.output[1]
    assert text.startswith("000000000 x") and text.endswith("x\n")
    assert "characters left out" in text and len(text) < 4 * 2**20
    lost = int(re.search(r"(\d+) characters left out", text)[1])
    note = len(f"\n[... {lost} characters left out ...]\n")
    assert len(text) - note + lost == 10**8
    assert "000099999" in text
    captured = capfd.readouterr()
    assert len(captured.out) < 10**6
    assert "run.output has more" in captured.err


def test_a_flood_does_not_stretch_the_deadline(capfd) -> None:
    """Ranks that print without end are ended on time."""

    def flood():
        while True:
            print("x" * 1000)

    fails(lab.DeadlineExceeded, flood, world_size=4, timeout=1)


def test_printing_to_a_closed_stdout_is_the_readers_error() -> None:
    """After closing sys.stdout a print fails in the reader's line, nothing else."""

    def fn():
        sys.stdout.close()
        print("x")

    error = fails(lab.RankError, fn, world_size=1)
    assert quotes(error, 'print("x")') and "closed file" in str(error)


def test_a_rank_that_closes_its_descriptors_still_returns() -> None:
    """Closing descriptors 1 and 2 loses the output, not the result."""

    def fn():
        os.close(1)
        os.close(2)
        return 5

    assert lab.run(fn, world_size=2).results == [5, 5]


def test_a_transcript_counts_what_it_drops() -> None:
    """Beginning and end are kept, and the number left out is right."""
    transcript = printed_output.Transcript()
    whole = "".join(f"{i:09d}\n" for i in range(400_000))
    for start in range(0, len(whole), 10_007):
        transcript.add(whole[start : start + 10_007])
    text = transcript.text()
    lost = int(re.search(r"(\d+) characters left out", text)[1])
    head, _, tail = text.partition(f"\n[... {lost} characters left out ...]\n")
    assert whole.startswith(head) and whole.endswith(tail)
    assert len(head) + len(tail) + lost == len(whole)


# -- where it is called from -----------------------------------------------------------


def test_a_thread_can_run_ranks() -> None:
    """run works outside the main thread, and from three threads at once."""
    results: dict[int, list] = {}

    def job(i):
        for _ in range(3):
            results[i] = lab.run(lambda: (i, dist.get_rank()), world_size=2).results

    threads = [threading.Thread(target=job, args=[i]) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {i: [(i, 0), (i, 1)] for i in range(3)}


ADDS = """
import torch, torch.distributed as dist, collectives_lab as lab
def add():
    x = torch.ones(1) * dist.get_rank()
    dist.all_reduce(x)
    return x.item()
print("results", lab.run(add, world_size=3).results)
"""


@pytest.mark.slow
def test_scripts_without_a_guard_run_at_once(script) -> None:
    """A file, -c and stdin need no `if __name__ == "__main__"`, and do not meet."""
    commands = [None, [sys.executable, "-c", ADDS], [sys.executable, "-"]]
    for started in [script(ADDS, command) for command in commands]:
        from_stdin = started.process.args[-1] == "-"
        out = started.output(ADDS if from_stdin else None)
        assert out == "results [3.0, 3.0, 3.0]\n"


@pytest.mark.slow
def test_a_script_without_a_guard_spawns_ranks_unless_it_is_imported(
    script, tmp_path: Path
) -> None:
    """Ranks import what the script imports: then the line and the cure are told."""
    spawns = ADDS.replace("lab.run(add", 'lab.run(add, start_method="spawn"')
    assert spawns != ADDS
    assert script(spawns).output() == "results [3.0, 3.0, 3.0]\n"
    (tmp_path / "no_guard.py").write_text(spawns)
    imports_it = script("import no_guard\n").process
    printed, _ = imports_it.communicate(timeout=60)
    assert imports_it.returncode == 1
    assert "of no_guard.py" in printed
    assert 'put that call under `if __name__ == "__main__":`' in printed


@pytest.mark.slow
def test_a_forked_child_of_the_kernel_can_run(script) -> None:
    """After os.fork both processes run ranks of their own."""
    source = ADDS.replace("print(", "lab.run(add)\nimport os\npid = os.fork()\nprint(")
    source += "\nif pid: print(os.waitpid(pid, 0)[1])"
    out = script(source).output()
    assert out.count("results [3.0, 3.0, 3.0]") == 2
    assert out.endswith("\n0\n")


def test_the_cheat_sheet_says_how_it_is_run() -> None:
    """By plain python it names what is missing and the command, with status 2."""
    folder = Path(__file__).parents[2] / "collectives_lab" / "scripts"
    environment = {k: v for k, v in os.environ.items() if k != "LOCAL_RANK"}
    ended = subprocess.run(
        [sys.executable, str(folder / "collective_cheatsheet.py")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    missing, command = ended.stderr.splitlines()
    assert missing.startswith("LOCAL_RANK is not set")
    assert command.startswith("    torchrun --nproc-per-node 4 ")


TORCHRUN = """
import json, os, sys, torch, torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    x = torch.full((4,), float(dist.get_rank() + 1))
    dist.all_reduce(x)
    parts = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.full((2,), float(os.environ["LOCAL_RANK"])))
    dist.destroy_process_group()
    return x.tolist(), torch.cat(parts).tolist()

if __name__ == "__main__":
    result = main()
    with open(f"result{os.environ['RANK']}", "w") as file:
        json.dump(result, file)
"""


@pytest.mark.slow
def test_the_same_body_runs_under_torchrun(script, tmp_path, monkeypatch) -> None:
    """A script for torchrun gives the same results when its function is run here."""
    import json

    started = script(
        TORCHRUN,
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(tmp_path / "script.py")),
        ],
        env={"OMP_NUM_THREADS": "1"},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import script as module

    own = lab.run(module.main, world_size=2).results
    started.output(seconds=90)
    theirs = [json.loads((tmp_path / f"result{r}").read_text()) for r in range(2)]
    assert [list(map(list, result)) for result in own] == theirs
    assert theirs[0] == [[3.0] * 4, [0.0, 0.0, 1.0, 1.0]]
    del sys.modules["script"]


def test_a_group_made_again_has_the_backend_of_the_run() -> None:
    """torch's own choice where none is named would be NCCL on a machine with a GPU."""

    def configs():
        collected = []
        for _ in range(2):
            dist.init_process_group()
            collected.append(dist.get_backend_config())
            dist.destroy_process_group()
        return collected

    for first, second in lab.run(configs, 2, backend="gloo").results:
        assert first == second


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_a_function_may_make_its_group_again(backend) -> None:
    """init, destroy, init and destroy work as they do in a script of its own."""

    def fn():
        sums = []
        for _ in range(2):
            dist.init_process_group(backend)
            x = torch.ones(1)
            dist.all_reduce(x)
            sums.append(x.item())
            dist.destroy_process_group()
        return sums

    assert lab.run(fn, world_size=2).results == [[2.0, 2.0]] * 2


def test_the_backend_is_reported_with_its_reason() -> None:
    """A run knows which backend it used and why."""
    run = lab.run(dist.get_backend, world_size=1, backend="gloo")
    assert (run.results, run.backend) == (["gloo"], "gloo")
    assert run.backend_reason.startswith("asked for")
    auto = lab.run(dist.get_rank, world_size=2)
    assert auto.backend in ("gloo", "nccl") and "asked" not in auto.backend_reason


def imports(name: str) -> bool:
    """Import a library; whether it was there already."""
    was_there = name in sys.modules
    __import__(name)
    return was_there


def are_found(name: str) -> list[bool]:
    """Whether ranks find a library, once a server that is to have it is ready."""
    if servers.coming is not None:
        assert until(servers.coming.ready, START_DEADLINE)
    return lab.run(imports, 2, args=(name,)).results


@pytest.mark.slow
def test_a_library_that_ranks_import_again_is_learned(monkeypatch) -> None:
    """A run soon after the second finds it, unless its environment is another one."""
    name = "nbformat"
    assert are_found(name) == [False, False]
    assert are_found(name) == [False, False]
    assert until(lambda: are_found(name) == [True, True], START_DEADLINE)
    assert name in servers.with_libraries.libraries
    more = {"SOME_SETTING": "1"}
    assert not any(lab.run(imports, 2, args=(name,), env=more).results)
    monkeypatch.setenv("SOME_SETTING", "2")
    assert not any(lab.run(imports, 2, args=(name,)).results)
    monkeypatch.delenv("SOME_SETTING")
    assert all(lab.run(imports, 2, args=(name,)).results)
    monkeypatch.syspath_prepend("/nowhere")
    assert not any(lab.run(imports, 2, args=(name,)).results)
    assert until(lambda: are_found(name) == [True, True], START_DEADLINE)


@pytest.mark.slow
def test_what_was_learned_is_forgotten_when_pip_changes_something() -> None:
    """Ranks import the version that is installed, as fresh processes would."""

    name = "jsonschema"
    assert until(lambda: are_found(name) == [True, True], START_DEADLINE)
    os.utime(sysconfig.get_paths()["purelib"])
    assert are_found(name) == [False, False]
    assert until(lambda: are_found(name) == [True, True], START_DEADLINE)


@pytest.mark.parametrize(
    "source, complaint",
    [
        ("import os; os.getenv('HOME'); x = 1", None),
        ("import os; rank = int(os.environ.get('LOCAL_RANK', 0))", "LOCAL_RANK"),
        ("import os; many = 'WORLD_SIZE' in os.environ", "WORLD_SIZE"),
        ("import threading, time; t = threading.Thread(target=time.sleep, args=[9], "
         "daemon=True); t.start()", "started a thread"),
        ("file = open('/dev/null')", "opened a file"),
        ("x = bytearray(2 * 10**8)", "took 0.2 GB"),
        ("raise ValueError", None),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_library_that_ranks_cannot_share_is_not_learned(
    source, complaint, tmp_path
) -> None:
    """One that asks which rank it is, or leaves what is gone after a fork."""
    (tmp_path / "a_library.py").write_text(source)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from collectives_lab.launch.rank import library_imports\n"
        "library_imports.MOST_BYTES = 10**8\n"
        "library_imports.import_all(['json', 'a_library'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=SOON
    )
    assert (done.returncode == 0) == (complaint is None), done.stderr
    assert (complaint or "") in done.stderr


@pytest.mark.slow
def test_the_server_is_replaced_when_it_has_been_killed() -> None:
    """A fork server killed between runs is started again; during a run it is told."""
    lab.run(dist.get_rank, world_size=2)
    server = servers.current
    assert server is not None
    os.kill(server.process.pid, signal.SIGKILL)
    assert until(lambda: not alive(server.process.pid))
    assert lab.run(dist.get_rank, world_size=2).results == [0, 1]

    def kills_the_server() -> None:
        if dist.get_rank() == 0:
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(20)

    error = fails(lab.RankDied, kills_the_server, world_size=2)
    assert "SIGKILL" in str(error)


def makes_groups_in_another_order() -> None:
    members = [[0, 1], [0], [1]]
    for ranks in members if dist.get_rank() == 0 else reversed(members):
        dist.new_group(ranks)


def test_groups_made_in_another_order_are_proved_stuck() -> None:
    """Also where both wait for the same ranks: a group is found by its number."""
    with pytest.raises(lab.Deadlock) as raised:
        lab.run(makes_groups_in_another_order, world_size=2, timeout=SOON)
    words = str(raised.value)
    assert "rank 0 waits in new_group([0, 1]) for rank 1" in words
    assert "rank 1 waits in new_group([0, 1]) for rank 0" in words
    assert "in the same order, also the groups that it is not in" in words


def test_disjoint_groups_made_in_another_order_are_named() -> None:
    """Gloo would connect rank 0 with rank 3, and add up their numbers."""

    def fn() -> None:
        pairs = [[0, 1], [2, 3]]
        here = pairs if dist.get_rank() < 2 else pairs[::-1]
        groups = [dist.new_group(pair) for pair in here]
        own = next(i for i, pair in enumerate(here) if dist.get_rank() in pair)
        dist.all_reduce(torch.ones(1), group=groups[own])

    words = str(fails(lab.RankError, fn, world_size=4))
    wrong = r"group 1 is \[(0, 1|2, 3)\] on rank \d, but \[(0, 1|2, 3)\] on rank \d"
    assert re.search(wrong, words) and "in the same order" in words


def test_a_group_may_be_made_in_a_world_whose_store_compares_nothing() -> None:
    """As torch's fake backend has, with which one counts what a large world sends."""

    def fn() -> int:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.destroy_process_group()
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        return dist.get_world_size(dist.new_group([0, 1]))

    assert lab.run(fn, world_size=2).results == [2, 2]


def test_each_rank_may_make_a_group_of_itself() -> None:
    """Nobody is to be connected, so that the others need not know."""

    def fn() -> int:
        alone = dist.new_group([dist.get_rank()])
        return dist.get_world_size(alone)

    assert lab.run(fn, world_size=2).results == [1, 1]


def has_compiler_for_ddp() -> bool:
    """Mention DistributedDataParallel, which imports torch's compiler."""
    is_imported = "torch._dynamo" in sys.modules
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    return is_imported


def test_ranks_of_ddp_find_what_it_imports() -> None:
    """From the first run on: the server imports it once, before it starts them."""
    lab.run(dist.get_rank, world_size=2)
    time.sleep(0.2)  # ranks are forked ahead of need, which lack it
    assert lab.run(has_compiler_for_ddp, world_size=2).results == [True, True]


@pytest.mark.slow
def test_a_server_that_takes_over_knows_what_ranks_need() -> None:
    """Also one that becomes ready after a run was prepared, and before its ranks."""
    lab.run(dist.get_rank, world_size=2)
    held = servers.with_libraries, servers.coming
    servers.with_libraries = None
    servers.coming = server = Server((), ["colorsys"])
    try:
        prepare([b"DistributedDataParallel"])
        assert until(server.ready, START_DEADLINE)
        assert servers.get() is server and "torch._dynamo" in server.modules
    finally:
        servers.with_libraries, servers.coming = held
        server.stop()


@pytest.mark.slow
def test_a_server_that_replaces_another_knows_what_ranks_need() -> None:
    """Also where it has to be started between a run's preparation and its ranks."""
    prepare([b"DistributedDataParallel"])
    servers.stop()
    assert lab.run(has_compiler_for_ddp, world_size=2).results == [True, True]


def test_a_part_of_torch_is_imported_once() -> None:
    """The run after the first that imports it finds it, however soon it comes."""
    part = "torch.testing._internal.common_quantization"
    lab.run(imports, 2, args=(part,))
    assert lab.run(imports, 2, args=(part,)).results == [True, True]


def test_a_room_of_the_package_is_imported_once() -> None:
    """As a part of torch: what a cell has used, later ranks need not import."""
    room = "collectives_lab.strategies"
    lab.run(imports, 2, args=(room,))
    assert lab.run(imports, 2, args=(room,)).results == [True, True]


def test_what_a_rank_draws_with_stays_with_it() -> None:
    """matplotlib reads variables of the environment, which runs may be given."""
    room = "collectives_lab.plots"
    assert lab.run(imports, 1, args=(room,)).results == [False]
    assert not any(name.startswith(room) for name in servers.modules)


def draws() -> tuple[float, float, int]:
    """Draw from generators that nobody has seeded."""
    return random.random(), np.random.rand(), int(torch.randint(2**62, ()))


def test_what_nobody_has_seeded_differs_by_rank_and_by_run() -> None:
    """As under torchrun: a model without a seed is another one on each rank."""
    drawn = [lab.run(draws, world_size=3).results for _ in range(2)]
    for numbers in zip(*drawn[0], *drawn[1], strict=True):
        assert len(set(numbers)) == 6

"""The formats of other programs: dumps, logs, reports and stacks, hostile ones too."""

import io
import json
import os
import pickle
import tracemalloc
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from dump_files import Recorder

from collectives_lab.formats import (
    flight_recorder,
    job_logs,
    json_stream,
    plain_pickle,
    ras,
    stacks,
)
from collectives_lab.formats.rank_names import named_rank, rank_of_line
from collectives_lab.formats.user_line import user_line

PROTOCOLS = range(6)


def recorder(rank: int = 1, **options: Any) -> Recorder:
    made = Recorder(rank, **options)
    made.call(size=(3, 4))
    made.call("_all_gather_base", (2,), out=(8,), dtype="BFloat16")
    made.call("barrier", state="started")
    return made


# -- plain pickles ---------------------------------------------------------------------

PLAIN = {
    "numbers": [0, 1, -1, 255, 256, 70_000, -(2**31), 2**40, 2**70, 1.5],
    "texts": ["", "rank", "ü", "a\nb", "x" * 300],
    "others": (None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    "nested": {1: [{}, {"a": []}]},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_plain_pickle_is_read_as_python_reads_it(protocol: int) -> None:
    """Dicts, lists, tuples, texts and numbers, in every protocol, shared ones too."""
    shared = [1, 2]
    value = {
        **PLAIN,
        "shared": [shared, shared],
        "bytes": b"" if protocol < 3 else b"x",
    }
    if protocol < 3:
        del value["bytes"]  # there Python writes a call of a codec
    read = plain_pickle.load(io.BytesIO(pickle.dumps(value, protocol)))
    assert read == (value, True)
    assert repr(read.value) == repr(value)


class Calls:
    """Something whose pickle calls a function."""

    def __init__(self, function: Any, *arguments: Any):
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "function, name",
    [(os.system, "system"), (eval, "eval"), (__import__, "__import__")],
)
def test_a_pickle_that_calls_is_refused_by_name(
    function: Any, name: str, protocol: int, tmp_path: Path
) -> None:
    """Nothing is imported or called, and the error says what was asked for."""
    trap = tmp_path / "trap"
    call = f"open({str(trap)!r}, 'w')" if name == "eval" else f"touch {trap}"
    dump = {"version": "2.10", "entries": [{"frames": [Calls(function, call)]}]}
    path = tmp_path / "rank_0"
    path.write_bytes(pickle.dumps(dump, protocol))
    with pytest.raises(plain_pickle.NotPlain, match=name) as error:
        flight_recorder.read(path)
    assert str(path) in str(error.value)
    assert not trap.exists()


@pytest.mark.parametrize(
    "value",
    [
        OrderedDict(a=1),
        {1, 2},
        frozenset([1]),
        bytearray(b"x"),
        1j,
        Path("x"),
        range(3),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_plain_value_is_refused(value: Any) -> None:
    """Harmless objects too: a dump has none."""
    for protocol in PROTOCOLS:
        with pytest.raises(plain_pickle.NotPlain):
            plain_pickle.load(io.BytesIO(pickle.dumps([value], protocol)))


def test_a_global_inside_a_value_is_found() -> None:
    """A name that is never called is refused as well: it would be imported."""
    for code in (b"cos\nsystem\n.", b"}(X\x01\x00\x00\x00acos\nsystem\nu."):
        with pytest.raises(plain_pickle.NotPlain, match=r"os\.system"):
            plain_pickle.load(io.BytesIO(code))
    with pytest.raises(plain_pickle.NotPlain, match="BINPERSID"):
        plain_pickle.load(io.BytesIO(b"K\x01Q."))
    with pytest.raises(plain_pickle.NotPlain, match="EXT1"):
        plain_pickle.load(io.BytesIO(b"\x82\x01."))


BOMBS = {
    "a memo of 2**32 places": b"Nr\xff\xff\xff\xff.",
    "a text of 4 GB": b"X\xff\xff\xff\xff",
    "a text of 2**64": b"\x8d" + b"\xff" * 8,
    "a long of 4 GB": b"\x8b\xff\xff\xff\xff",
    "marks without end": b"(" * 300_000,
    "copies without end": b"]" + b"2" * 300_000,
    "a list in itself": b"]q\x00h\x00a.",
    "nested lists": b"]" * 100_000 + b"a" * 99_999 + b".",
    "doubled lists": b"]" + b"2(h\x00h\x00lq\x00" * 50 + b".",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_little(name: str) -> None:
    """Claims of gigabytes are refused, or cost what the file has; nothing overflows."""
    try:
        read = plain_pickle.load(io.BytesIO(BOMBS[name]))
    except plain_pickle.Broken as error:
        assert len(str(error)) < 200
    else:
        assert isinstance(read.complete, bool)


def test_bytes_that_are_no_pickle_are_an_error_and_never_another() -> None:
    """Every flipped byte and every beginning of a dump ends in a value or an error."""
    whole = pickle.dumps(recorder().dump(), 2)
    for n in range(0, len(whole), 11):
        for bytes_ in (
            whole[:n],
            whole[:n] + bytes([whole[n] ^ 0x55]) + whole[n + 1 :],
        ):
            with suppress(plain_pickle.Broken, plain_pickle.NotPlain):
                plain_pickle.load(io.BytesIO(bytes_))


# -- JSON as a stream ------------------------------------------------------------------


def test_a_stream_of_json_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the pieces fall, keys and elements are those that json finds."""
    value = {
        "a": 12.5,
        "entries": [{"n": n, "s": 'x"\\é' * n} for n in range(9)],
        "b": [],
    }
    text = json.dumps(value, indent=1)
    for chunk in (1, 2, 7, 1 << 20):
        monkeypatch.setattr(json_stream, "CHUNK", chunk)
        found = list(json_stream.items(io.StringIO(text), ("entries",)))
        assert [v for k, v in found if k == "entries"] == value["entries"]
        assert dict(f for f in found if f[0] != "entries") == {"a": 12.5, "b": []}


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": }', '{"a" 1}', "{]", "[" * 9999])
def test_json_that_is_no_object_is_an_error(text: str) -> None:
    """Also where it is nested ten thousand deep."""
    for chars in (text, '{"a": ' + text):
        if chars != "{" + "}":
            with pytest.raises(json_stream.Broken):
                list(json_stream.items(io.StringIO(chars), ()))


# -- Flight Recorder dumps -------------------------------------------------------------


@pytest.mark.parametrize("backend", ["nccl", "gloo", "xccl", "rccl"])
@pytest.mark.parametrize("form", ["pickle", "json"])
def test_a_dump_is_read_in_both_forms(form: str, backend: str, tmp_path: Path) -> None:
    """Calls, sizes, groups and counts; lines in the pickle, which alone has frames."""
    dump = flight_recorder.read(recorder(backend=backend).save(tmp_path, form=form))
    verbs = [(c.verb, c.number, c.over) for c in dump.calls]
    assert verbs == [
        ("all_reduce", 1, True),
        ("all_gather", 2, True),
        ("barrier", 3, False),
    ]
    assert dump.calls[1].inputs == ((2,),) and dump.calls[1].outputs == ((8,),)
    assert dump.calls[1].dtypes == ("BFloat16",)
    assert (dump.rank, dump.rank_from, dump.backend) == (1, "name", backend)
    assert dump.status["0"] == (3, -1, 2)
    assert {g.ranks for g in dump.groups.values()} == {(0, 1, 2, 3)}
    where = "/home/me/train.py:10" if form == "pickle" else ""
    assert {c.where for c in dump.calls} == {where}


def test_over_means_what_the_backend_says() -> None:
    """NCCL: completed, and retired alone is a time-out. Gloo: retired."""
    base = {"profiling_name": "nccl:all_reduce", "state": "started", "retired": True}

    def over(**fields: Any) -> bool:
        one = io.BytesIO(pickle.dumps({"entries": [base | fields]}))
        entries = flight_recorder._Entries(9)
        flight_recorder._from_pickle(one, entries)
        return entries.calls[0].over

    assert not over()
    assert over(state="completed", retired=False)
    assert over(profiling_name="gloo:all_reduce", state="scheduled")
    assert not over(profiling_name="gloo:all_reduce", retired=False)


def test_messages_have_a_peer_and_say_whose_dump_it_is(tmp_path: Path) -> None:
    """`send 2->0` and `recv 2<-0` are of rank 2, whatever the file is called."""
    made = Recorder(2)
    made.message("send", 0)
    made.message("recv", 3, dtype="Half")
    dump = flight_recorder.read(made.save(tmp_path, "renamed"))
    assert (dump.rank, dump.rank_from) == (2, "contents")
    assert [(c.verb, c.own, c.peer, c.number) for c in dump.calls] == [
        ("send", 2, 0, 1),
        ("recv", 2, 3, 2),
    ]


def test_a_rank_is_found_by_the_groups_that_it_is_in(tmp_path: Path) -> None:
    """The one rank that is in all groups of its calls; else the rank is unknown."""
    made = Recorder(1, groups={"1": [0, 1], "2": [1, 3]})
    made.call(group="1")
    assert flight_recorder.read(made.save(tmp_path, "a")).rank is None
    made.call(group="2")
    dump = flight_recorder.read(made.save(tmp_path, "b"))
    assert (dump.rank, dump.rank_from) == (1, "contents")


@pytest.mark.parametrize(
    "name, rank",
    [
        ("nccl_trace_rank_3", 3),
        ("rank12.json", 12),
        ("Rank-07.pkl", 7),
        ("comm_lib_trace_rank_0", 0),
        ("rank_3/dump", 3),
        ("worker_dump", None),
    ],
)
def test_a_rank_in_a_name(name: str, rank: int | None) -> None:
    """Of the file or of its folder."""
    assert named_rank(f"/tmp/{name}") == rank


def test_a_broken_off_dump_gives_what_came_before(tmp_path: Path) -> None:
    """Pickle and JSON, with the groups of the pickle, which stand first."""
    for form in ("pickle", "json"):
        path = recorder().save(tmp_path, form=form)
        whole = path.read_bytes()
        cut = whole.rindex(b"barrier") if form == "pickle" else len(whole) - 150
        path.write_bytes(whole[:cut])
        dump = flight_recorder.read(path)
        assert not dump.complete
        assert [c.verb for c in dump.calls][:2] == ["all_reduce", "all_gather"]
        assert form == "json" or dump.groups["0"].ranks == (0, 1, 2, 3)


@pytest.mark.parametrize(
    "contents, complaint",
    [
        (b"", "empty"),
        (b"\x80", "breaks off"),
        (b"\x80\x02]q\x00.", "holds a list; a dump is a dict"),
        (pickle.dumps({"model": [1.0]}), "it holds model"),
        (b'{"traceEvents": []}', "it holds traceEvents"),
        (b'{"entries": ', "no Flight Recorder dump|ends before"),
        (b"\x00" * 100, "no pickle"),
    ],
)
def test_a_foreign_file_is_an_error_that_says_so(
    contents: bytes, complaint: str, tmp_path: Path
) -> None:
    """With its path."""
    path = tmp_path / "file"
    path.write_bytes(contents)
    with pytest.raises(flight_recorder.NotADump, match=complaint) as error:
        flight_recorder.read(path)
    assert str(path) in str(error.value)


def test_a_wrapped_buffer_keeps_the_last_calls(tmp_path: Path) -> None:
    """most_calls bounds what stays in memory; older counts the rest."""
    made = Recorder(0)
    for _ in range(30):
        made.call()
    for form in ("pickle", "json"):
        dump = flight_recorder.read(made.save(tmp_path, form=form), most_calls=10)
        assert [c.number for c in dump.calls] == [*range(21, 31)]
        assert dump.older == 20


@pytest.mark.parametrize(
    "missing", ["frames", "state", "op_id", "p2p_seq_id", "is_p2p"]
)
def test_an_entry_may_lack_a_field(missing: str, tmp_path: Path) -> None:
    """Older and other recorders write fewer."""
    made = recorder()
    for entry in made.entries:
        del entry[missing]
    assert len(flight_recorder.read(made.save(tmp_path)).calls) == 3


def test_fields_of_the_wrong_type_are_passed_over(tmp_path: Path) -> None:
    """A hostile dump has texts for numbers and numbers for lists."""
    wrong = ["x", -1, 1e300, None, [[[]]], {"a": 1}, 2**70]
    for value in wrong:
        entry = dict.fromkeys(recorder().entries[0], value)
        entry["profiling_name"] = "nccl:all_reduce"
        dump = {"entries": [entry], "pg_config": value, "pg_status": {"0": value}}
        path = tmp_path / "rank_0"
        path.write_bytes(pickle.dumps(dump))
        assert len(flight_recorder.read(path).calls) == 1


def test_the_fixtures_have_the_fields_that_torch_writes() -> None:
    """Our dumps are of the form of torch's own header, field by field."""
    torch = pytest.importorskip("torch")
    headers = Path(torch.__file__).parent / "include/torch/csrc/distributed/c10d"
    header = headers / "FlightRecorder.hpp"
    if not header.exists():
        pytest.skip("this torch brings no FlightRecorder.hpp")
    text = header.read_text()
    made = recorder(groups={"1": [0]}).dump()
    for key in (*made, *made["entries"][0], *made["pg_status"]["0"], "name", "line"):
        assert f'"{key}"' in text or "last_" in key or key == "desc", key


# -- lines of the user -----------------------------------------------------------------


@pytest.mark.parametrize(
    "files, line",
    [
        (
            ["/x/site-packages/torch/distributed/c10d.py", "/home/me/a.py"],
            "/home/me/a.py:2",
        ),
        (["torch/distributed/distributed_c10d.py", "train.py"], "train.py:2"),
        (["/usr/lib/python3.11/threading.py", "<string>"], "<string>:2"),
        (["??", "/b/at/native/x.cpp"], ""),
        ([r"C:\env\Lib\site-packages\torch\x.py", r"C:\me\a.py"], r"C:\me\a.py:2"),
        (["<frozen runpy>", "/tmp/ipykernel_7/12.py"], "/tmp/ipykernel_7/12.py:2"),
        (["/work/torch_models/train.py"], "/work/torch_models/train.py:1"),
    ],
)
def test_the_users_line_is_the_innermost_one_of_their_own(
    files: list[str], line: str
) -> None:
    """Not torch's, not Python's, not C++."""
    assert user_line((file, n) for n, file in enumerate(files, 1)) == line


# -- logs ------------------------------------------------------------------------------

WATCHDOG = """\
[rank1]:[E626 06:24:44 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught \
collective operation timeout: WorkNCCL(SeqNum=808, OpType=_ALLGATHER_BASE, \
NumelIn=10, NumelOut=40, Timeout(ms)=600000) ran for 600020 milliseconds before \
timing out.
[rank1]:[E626 06:24:44 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 7(mesh_tp) \
Rank 1] Exception (either an error or timeout) detected by watchdog at work: 808, \
last enqueued NCCL work: 811, last completed NCCL work: 807.
"""


def facts(text: str, **options: Any) -> list[job_logs.Fact]:
    return list(job_logs.facts(text.splitlines(), **options))


def test_the_watchdogs_lines_are_read() -> None:
    """The call that timed out, and the numbers of the group."""
    timeout, counts = facts(WATCHDOG)
    assert (timeout.kind, timeout.rank, timeout.number) == ("timeout", 1, 808)
    assert (timeout.verb, timeout.elements) == ("all_gather", (10, 40))
    assert (counts.kind, counts.group) == ("counts", "7")
    assert (counts.enqueued, counts.completed, counts.number) == (811, 807, 808)


def test_the_rank_in_a_watchdogs_brackets_is_that_within_the_group() -> None:
    """The rank of the job stands before them, or in the file's name."""
    text = WATCHDOG.replace("[rank1]:", "[rank5]:")
    assert [fact.rank for fact in facts(text)] == [5, 5]
    bare = WATCHDOG.replace("[rank1]:", "")
    assert [fact.rank for fact in facts(bare, rank=6)] == [6, 6]
    assert [fact.rank for fact in facts(bare)] == [1, None]


TRACEBACK = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    main()
  File "/x/site-packages/torch/nn/module.py", line 1, in call
    raise ValueError(f"no {key}")
ValueError: no bias
"""


@pytest.mark.parametrize("prefix", ["[rank2]: ", "[default2]:", "2: ", "[2]: ", ""])
def test_a_traceback_has_rank_line_and_exception(prefix: str) -> None:
    """By the prefix of torch, torchrun, srun or mpirun, or by the file's name."""
    text = "".join(prefix + line for line in TRACEBACK.splitlines(True))
    (fact,) = facts(text, rank=None if prefix else 2)
    assert (fact.kind, fact.rank, fact.follows) == ("exception", 2, False)
    assert (fact.text, fact.where) == ("ValueError: no bias", "/home/me/train.py:12")


@pytest.mark.parametrize(
    "text, kind, follows",
    [
        ("RuntimeError: Connection closed by peer [10.0.0.1]:9", "exception", True),
        ("RuntimeError: Timed out waiting 3000ms for recv", "exception", True),
        ("torch.distributed.DistBackendError: NCCL watchdog", "exception", True),
        ("RuntimeError: Detected mismatch between collectives", "exception", True),
        ("KeyError: 'label'", "exception", False),
        ("TypeError: new(): invalid data type 'str'", "exception", False),
    ],
)
def test_an_exception_that_another_ranks_end_brings_about_follows(
    text: str, kind: str, follows: bool
) -> None:
    """It is no cause."""
    (fact,) = facts(TRACEBACK.replace("ValueError: no bias", text))
    assert (fact.kind, fact.follows) == (kind, follows)


def test_a_connection_to_others_than_the_ranks_is_a_cause() -> None:
    """Such as that of a data loader to its store."""
    text = TRACEBACK.replace("torch/nn/module.py", "urllib3/connection.py")
    text = text.replace("ValueError: no bias", "OSError: Connection reset by peer")
    assert not facts(text)[0].follows


def test_torch_says_that_an_exception_was_not_caught() -> None:
    """By the prefix of its own hook; a launcher's prefix says nothing."""
    for prefix, uncaught in (("[rank2]: ", True), ("2: ", False), ("", False)):
        text = "".join(prefix + line for line in TRACEBACK.splitlines(True))
        assert facts(text)[0].uncaught is uncaught
    functions = [frame.function for frame in facts(TRACEBACK)[0].frames]
    assert functions == ["call", "<module>"]


FAULT = """Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 9 in wait

Current thread 0x00007e (most recent call first):
  File "/home/me/kernels.py", line 18 in fused
  File "/home/me/train.py", line 24 in <module>

Extension modules: numpy
"""


def test_a_crash_has_its_line() -> None:
    """As Python's faulthandler writes it."""
    (fact,) = facts(FAULT, rank=3)
    assert (fact.kind, fact.rank, fact.text) == ("died", 3, "Segmentation fault")
    assert fact.where == "/home/me/kernels.py:18"
    (fact,) = facts(FAULT.partition("Extension")[0], rank=3)
    assert fact.where == "/home/me/kernels.py:18"


def test_what_gloo_and_torch_say_of_calls_that_differ() -> None:
    """Gloo ends the rank that was sent too much; torch compares under DETAIL."""
    (fact,) = facts(
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
        "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. "
        "8 vs 4. Received data size doesn't match expected size.",
        rank=2,
    )
    assert (fact.kind, fact.rank) == ("misfit", 2)
    own, other = facts(
        "[rank2]: RuntimeError: Detected mismatch between collectives on ranks. Rank 2 "
        "is running collective: CollectiveFingerPrint(SequenceNumber=4, "
        "OpType=ALLREDUCE, TensorShape=[8, 2], TensorDtypes=Float, TensorDeviceTypes="
        "cpu), but Rank 1 is running collective: CollectiveFingerPrint("
        "SequenceNumber=4OpType=BARRIER)."
    )
    assert (own.rank, own.verb, own.dtype, own.elements) == (
        *(2, "all_reduce", "Float", (16, 16)),
    )
    assert (other.rank, other.verb, own.follows, other.follows) == (
        *(1, "barrier", False, True),
    )


def test_torchrun_says_which_end_was_first() -> None:
    """Its summary names it last."""
    one = "  rank      : {} (local_rank: 0)\n  exitcode  : {} (pid: 7)\n"
    text = one.format(1, 1) + "Root Cause (first observed failure):\n"
    ends = facts(text + one.format(3, -9))
    assert [(fact.rank, fact.root) for fact in ends] == [(1, False), (3, True)]


@pytest.mark.parametrize(
    "text, kind, follows",
    [
        ("failed (exitcode: -9) local_rank: 3 (pid: 7) of binary: py", "died", False),
        (
            "failed (exitcode: 1) local_rank: 3 (pid: 7) of binary: py",
            "exception",
            False,
        ),
        ("  rank      : 3 (local_rank: 1)\n  exitcode  : -15 (pid: 7)", "died", True),
        ("process 3 terminated with signal SIGKILL", "died", False),
        ("srun: error: node7: task 3: Out Of Memory", "died", False),
        ("collectives_lab: rank 3 was killed by SIGKILL", "died", False),
    ],
)
def test_the_end_of_a_process_is_read(text: str, kind: str, follows: bool) -> None:
    """As torchrun, torch's spawn, Slurm and this package print it."""
    (fact,) = facts(text)
    assert (fact.kind, fact.rank, fact.follows) == (kind, 3, follows)


def test_a_log_of_any_size_is_read_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One endless line, and more tracebacks than anybody reads."""
    path, limit = tmp_path / "rank3.log", 500
    monkeypatch.setattr(job_logs, "MOST_FACTS", limit)
    with path.open("w") as file:
        file.write("x" * 20_000_000 + "\n")
        for n in range(2 * limit + 9):
            file.write(TRACEBACK.replace("no bias", f"no {n}"))
    tracemalloc.start()
    found = job_logs.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_500_000, peak
    numbers = [int(fact.text.rpartition(" ")[2]) for fact in found]
    assert numbers == [*range(limit), *range(limit + 9, 2 * limit + 9)]


def test_a_log_of_other_lines_says_nothing() -> None:
    """Numbers at the beginning of a line are no ranks of facts."""
    assert facts("step 3: loss 0.5\n12: done\nepoch 1 connection ok\n" * 9) == []
    assert rank_of_line("loss 3") == (None, "loss 3")


# -- stacks ----------------------------------------------------------------------------

PY_SPY = """\
Process 812: python train.py --rank 3
Python v3.11.4 (/usr/bin/python3.11)

Thread 900 (active): "Thread-1"
    run (threading.py:9)
Thread 812 (idle): "MainThread"
    recv (torch/distributed/distributed_c10d.py:2500)
    wrapper (torch/distributed/c10d_logger.py:83)
    step (train.py:33)
        Locals:
            x: <Tensor at 0x7f>
    <module> (train.py:50)
"""


def test_a_stack_of_py_spy_is_read(tmp_path: Path) -> None:
    """The main thread of each process, its rank, and the user's line."""
    path = tmp_path / "stacks.txt"
    path.write_text(PY_SPY + "== rank 5 ==\n" + PY_SPY.replace(" --rank 3", ""))
    first, second = stacks.read(path)
    assert (first.rank, first.pid, first.where) == (3, 812, "train.py:33")
    assert [f.function for f in first.frames] == ["recv", "wrapper", "step", "<module>"]
    assert second.rank == 5


def test_a_stack_as_json_and_by_faulthandler_is_read(tmp_path: Path) -> None:
    """`py-spy dump --json` is a list of threads; faulthandler's main thread is last."""
    frames = [{"name": "load", "filename": "/home/me/data.py", "line": 4}]
    thread = {"pid": 7, "thread_name": "MainThread", "active": True, "frames": frames}
    path = tmp_path / "rank_2.json"
    path.write_text(json.dumps([{**thread, "thread_name": "x", "frames": []}, thread]))
    (stack,) = stacks.read(path)
    assert (stack.rank, stack.where) == (2, "/home/me/data.py:4")
    path = tmp_path / "rank_1.txt"
    path.write_text(
        "Thread 0x00007f (most recent call first):\n"
        '  File "/usr/lib/python3.11/threading.py", line 3 in wait\n\n'
        "Current thread 0x00007e (most recent call first):\n"
        '  File "/home/me/a.py", line 8 in step\n'
    )
    (stack,) = stacks.read(path)
    assert (stack.rank, stack.where) == (1, "/home/me/a.py:8")


# -- RAS -------------------------------------------------------------------------------

RAS = """\
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  {errors}

Errors
======
{more}
"""
MISMATCH = """\
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  7 ranks have launched up to operation 64
  Rank 5 has launched up to operation 60 -- GPU 3 managed by process 16 on node n1
"""
DEAD = """\
DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 6
"""


def test_reports_of_ras_are_read(tmp_path: Path) -> None:
    """Counts, missing ranks and several queries, as text."""
    path = tmp_path / "ras.txt"
    path.write_text(
        RAS.format(errors="MISMATCH", more=MISMATCH)
        + RAS.format(errors="INCOMPLETE", more=DEAD)
        + RAS.format(errors="OK", more="")
    )
    mismatch, dead, fine = ras.read(path)
    assert (mismatch.size, mismatch.most, mismatch.counts) == (8, 64, {5: 60})
    assert (dead.missing, dead.dead, dead.query) == ([6], [6], 1)
    assert fine.healthy and not fine.missing


def test_reports_of_ras_as_json_are_read(tmp_path: Path) -> None:
    """The form of NCCL 2.28.7 and later."""
    counts = {"Broadcast": 1, "AllReduce": 4}
    ranks = [{"rank": 0, "collective_counts": counts}]
    lost = [{"rank": 1, "status": {"considered_dead": False}}]
    one = {"hash": "0xae", "size": 2, "ranks": ranks, "missing_ranks": lost}
    path = tmp_path / "ras.json"
    path.write_text(json.dumps({"nccl_version": "2.29.1", "communicators": [one]}))
    (read,) = ras.read(path)
    assert (read.counts, read.missing, read.dead) == ({0: 5}, [1], [])

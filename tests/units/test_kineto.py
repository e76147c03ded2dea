"""Profiles of torch.profiler: what a file says of calls is in the trace."""

import gzip
import json
import tracemalloc

import pytest
from kineto_files import AUTOGRAD, COMPUTE, File, gloo, nccl, parameters

import collectives_lab as lab
from collectives_lab import fabrics
from collectives_lab.basics import live_area
from collectives_lab.basics.errors import LabError
from collectives_lab.data import shipped
from collectives_lab.trace import Trace
from collectives_lab.trace.kineto import calls, stream, times

# -- verbs, bytes, dtypes, groups ------------------------------------------------------

NCCL = [
    (("allreduce", 10, 10), ("all_reduce", 40)),
    (("broadcast", 10, 10), ("broadcast", 40)),
    (("_allgather_base", 10, 20), ("all_gather", 80)),
    (("allgather", 10, 20), ("all_gather", 80)),
    (("_reduce_scatter_base", 20, 10), ("reduce_scatter", 80)),
    (("all_to_allv", 20, 20), ("all_to_all", 80)),
    (("gather", 10, 0), ("gather", 80)),
    (("scatter", 0, 10), ("scatter", 80)),
    (("reduce", 10, 10), ("reduce", 40)),
    (("barrier", 1, 1), ("barrier", 0)),
]
"""What NCCL's record says of a call on 2 ranks, and the event: bytes by S."""

FLOATS, LIST, EMPTY = "float", "TensorList", ""
GLOO = [
    ("allreduce_", [[[10]]], [LIST], ["", "", "", "", "False"], "all_reduce",
     ("all_reduce", 40, None, None)),
    ("broadcast_", [[[10]]], [LIST], ["", "", "1", "0", "False"], "broadcast",
     ("broadcast", 40, 1, None)),
    ("reduce_", [[[10]]], [LIST], ["", "", "", "1", "0", "False"], "reduce",
     ("reduce", 40, 1, None)),
    ("allgather_", [[], [[10]]], [EMPTY, LIST], ["", "", "", "False"], "all_gather",
     ("all_gather", 80, None, None)),
    ("_allgather_base_", [[20], [10]], [FLOATS] * 2, ["", "", "", "False"],
     "all_gather", ("all_gather", 80, None, None)),
    ("_reduce_scatter_base_", [[10], [20]], [FLOATS] * 2, ["", "", "", "", "False"],
     "all_reduce", ("reduce_scatter", 80, None, None)),
    ("gather_", [[], [[10]]], [EMPTY, LIST], ["", "", "", "1", "False"], "gather",
     ("gather", 80, 1, None)),
    ("scatter_", [[[10]], []], [LIST, EMPTY], ["", "", "", "0", "False"], "scatter",
     ("scatter", 80, 0, None)),
    ("alltoall_base_", [[20], [20]], [FLOATS] * 2, ["", "", "", "[]", "[]", "False"],
     "all_to_all", ("all_to_all", 80, None, None)),
]  # fmt: skip
"""A call of Gloo, the annotation of what carries it out, and the event: root, peer."""


def nccl_file(rank=0, **head):
    """A file with every call of NCCL."""
    file = File(rank, **head)
    for number, (said, _) in enumerate(NCCL):
        nccl(file, 100 * number, parameters(*said), (100 * number + 20, 50))
    return file


def gloo_file(rank=0):
    """A file with every call of Gloo."""
    file = File(rank)
    file.head["distributedInfo"]["backend"] = "gloo"
    for number, (op, dims, types, values, note, _) in enumerate(GLOO):
        at = 100 * number
        gloo(file, at, op, dims, types, values, at + 60, (note, [10], FLOATS))
    return file


def communication(trace, rank=0):
    """The calls of a rank without its computing."""
    return [e for e in trace.of_rank(rank) if e.op != "compute"]


def holds_what_nccl_says(load, folder):
    """Whether a reader gives the verb and the bytes of each call of NCCL."""
    for rank in range(2):
        nccl_file(rank).write(folder / f"rank{rank}.json")
    seen = [(e.op, e.nbytes) for e in communication(load(folder), 1)]
    return seen == [wanted for _, wanted in NCCL]


def holds_what_gloo_says(load, folder):
    """Whether a reader gives verb, bytes and root of each call of Gloo."""
    for rank in range(2):
        gloo_file(rank).write(folder / f"rank{rank}.json.gz")
    events = communication(load(folder))
    return [(e.op, e.nbytes, e.root, e.peer) for e in events] == [g[-1] for g in GLOO]


def test_a_call_of_nccl_is_an_event(tmp_path) -> None:
    """Verb, bytes in the S convention, dtype and group are those of its record."""
    assert holds_what_nccl_says(Trace.load, tmp_path)
    trace = Trace.load(tmp_path)
    assert {(e.dtype, e.group) for e in communication(trace)} == {("float32", "0")}
    assert trace.bytes_sent()[0] > 0 and len(trace.replay(fabrics.loopback(2)).trace)


def test_a_call_of_gloo_is_an_event(tmp_path) -> None:
    """The shapes of its arguments say the bytes, and its annotation the dtype."""
    assert holds_what_gloo_says(Trace.load, tmp_path)


def test_a_reader_that_takes_shares_for_the_whole_is_found(
    tmp_path, monkeypatch
) -> None:
    """Both batteries fail for one that counts the first argument of every call."""
    monkeypatch.setattr(calls, "_BUFFERS", {})
    assert not holds_what_gloo_says(Trace.load, tmp_path)
    read = calls._read_parameters

    def input_only(call, args):
        read(call, args)
        call.elements = args["In msg nelems"]

    monkeypatch.setattr(calls, "_read_parameters", input_only)
    for path in tmp_path.iterdir():
        path.unlink()
    assert not holds_what_nccl_says(Trace.load, tmp_path)


def test_messages_have_their_peers(tmp_path) -> None:
    """A send of Gloo and its recv match, by the ranks of the world."""
    for rank, (op, name) in enumerate([("send", "send"), ("recv_", "recv")]):
        file = File(rank)
        values = ["", "", str(1 - rank), "7"]
        gloo(file, 0, op, [[[10]]], [LIST], values)
        shape = {"Input Dims": [[10]], "Input type": ["float"]}
        file.add(f"gloo:{name}", "user_annotation", 5, 500, **shape)
        file.op("aten::add_", 510, 10)
        file.write(tmp_path / f"{rank}.json")
    (message,) = Trace.load(tmp_path).messages
    assert (message.send.peer, message.send.nbytes, message.send.tag) == (1, 40, 7)
    assert message.recv.waited is not None


def test_uneven_parts_of_an_all_to_all_are_kept(tmp_path) -> None:
    """The rows of its splits become bytes for each rank of the group."""
    said = parameters("all_to_allv", 40, 40, **{"In split size": "[1, 3]"})
    for rank in range(2):
        file = File(rank)
        nccl(file, 0, said, (20, 50))
        file.write(tmp_path / f"{rank}.json")
    assert communication(Trace.load(tmp_path))[0].splits == "40,120"


def test_a_file_of_before_torch_2_2_says_it_by_shapes(tmp_path) -> None:
    """`ncclKernel_` and no parameters: bytes are in NCCL's annotation."""
    file = File(0, 1, baseTimeNanoseconds=None, host_name=None)
    del file.head["distributedInfo"]["pg_config"]
    file.op("c10d::allreduce_", 0, 50, **{"Input Dims": [[], []], "Input type": [LIST]})
    file.op(
        "record_param_comms", 2, 46, **{"Input Dims": [[]], "Input type": ["Scalar"]}
    )
    shape = {"Input Dims": [[19618307]], "Input type": ["c10::BFloat16"]}
    file.add("nccl:all_reduce", "user_annotation", 4, 40, **shape)
    name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
    file.kernel(name, 60, 500, 14, 30)
    (event,) = communication(Trace.load(file.write(tmp_path / "r.json.gz")))
    assert (event.op, event.nbytes, event.dtype) == ("all_reduce", 39236614, "bfloat16")
    assert event.completed - event.issued == pytest.approx(560e-6)


# -- what is missing is said -----------------------------------------------------------


def without_shapes():
    """A file of torch 1.13 without record_shapes."""
    file = File()
    file.op("c10d::allreduce_", 0, 50)
    file.op("record_param_comms", 2, 46)
    file.add("nccl:all_reduce", "user_annotation", 4, 40)
    return file


def of_a_smaller_group():
    """A file of Gloo in a job that has a group beside the whole world."""
    file = File(0, 4)
    group = {"pg_name": "1", "ranks": [0, 1]}
    file.head["distributedInfo"]["pg_config"].append(group)
    gloo(file, 0, "allreduce_", [[[10]]], [LIST])
    return file


@pytest.mark.parametrize(
    "file, words",
    [
        (without_shapes(), "record_shapes=True"),
        (nccl_file(distributedInfo=None), "init_process_group before"),
        (nccl_file(distributedInfo={"backend": "nccl"}), "init_process_group before"),
        (of_a_smaller_group(), "Gloo writes no group"),
        (nccl_file(), "there is no file of rank 1"),
        (File(0, 1, schemaVersion=None, distributedInfo=None), "another tool"),
    ],
    ids=["shapes", "job", "rank", "group", "files", "tool"],
)
def test_what_a_file_lacks_is_said(file, words, tmp_path) -> None:
    """The error is one for a reader, and names the option that would write it."""
    with pytest.raises(LabError, match=words):
        Trace.load(file.write(tmp_path / "rank0.json"))


@pytest.mark.parametrize(
    "data, words",
    [
        (b"{", "ends too early"),
        (
            b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "ts"',
            "ends too early|has",
        ),
        (b'{"traceEvents": [nonsense]}', "has 'nonsense"),
        (b'{"nccl_version": "2.21", "entries": [1]}', "no traceEvents"),
        (b"[1, 2]", "no JSON object"),
        (gzip.compress(b'{"schemaVersion": 1}' * 1000)[:40], "no whole gzip"),
    ],
    ids=["ends", "ends in an event", "no JSON", "dump", "list", "torn gzip"],
)
def test_a_broken_or_foreign_file_is_refused(data, words, tmp_path) -> None:
    """It says what was found, and names the file."""
    path = tmp_path / "rank0.json"
    path.write_bytes(data)
    with pytest.raises(LabError, match=words) as error:
        Trace.load(path)
    assert str(path) in str(error.value)


def test_files_of_one_rank_or_of_two_jobs_are_refused(tmp_path) -> None:
    """A folder has one file a rank, of one job."""
    nccl_file(0).write(tmp_path / "a.json")
    nccl_file(0).write(tmp_path / "b.json")
    with pytest.raises(LabError, match="both of rank 0"):
        Trace.load(tmp_path)
    nccl_file(1, distributedInfo={"rank": 1, "world_size": 3}).write(
        tmp_path / "b.json"
    )
    with pytest.raises(LabError, match="need the files of one job"):
        Trace.load(tmp_path)


def test_calls_without_kernels_are_noted(tmp_path) -> None:
    """A profile of NCCL's calls without the GPU's activity says so."""
    file = File(0, 1)
    nccl(file, 0, parameters("allreduce", 10, 10, ranks=(0,)))
    (note,) = Trace.load(file.write(tmp_path / "r.json")).meta["profiler"]["notes"]
    assert "ProfilerActivity.CUDA" in note


# -- time ------------------------------------------------------------------------------

BUCKETS, COMPUTING, TAIL, OPTIMIZER = 4, 1000.0, 500.0, 300.0
"""Of a step: its buckets, and microseconds of computing for each of them, after the
last one, and of the optimizer. An all_reduce of up to 500 is hidden."""


def step_ends(alpha):
    """Return when each bucket is sent and over, and when the step is.

    An all_reduce of 2 ranks takes 2 alpha; one comes after another.
    """
    sent, over, free = [], [], 0.0
    for bucket in range(BUCKETS):
        sent.append(COMPUTING * (bucket + 1))
        free = max(sent[-1], free) + 2 * alpha
        over.append(free)
    return sent, over, max(sent[-1] + TAIL, over[-1]) + OPTIMIZER


def on_a_gpu(rank, alpha):
    """A step of DDP on a GPU: the CPU runs ahead, and no wait is recorded."""
    file, (sent, over, end) = File(rank), step_ends(alpha)
    for bucket in range(BUCKETS):
        at = 50.0 * bucket
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        file.op(name, at, 45, AUTOGRAD)
        begin = sent[bucket] - COMPUTING
        file.kernel("sgemm_128x64", begin, COMPUTING, COMPUTE, at + 1, AUTOGRAD)
        said = parameters("allreduce", 1000, 1000)
        nccl(file, at + 10, said, (over[bucket] - 2 * alpha, 2 * alpha), tid=AUTOGRAD)
    file.op("autograd::engine::evaluate_function: TBackward0", 200, 45, AUTOGRAD)
    file.kernel("transpose", sent[-1], TAIL, COMPUTE, 205, AUTOGRAD)
    file.add("Optimizer.step#SGD.step", "user_annotation", 300, 50)
    file.op("aten::add_", 310, 20)
    file.kernel("adam", end - OPTIMIZER, OPTIMIZER, COMPUTE, 315)
    return file


def on_a_cpu(rank, alpha):
    """A step of DDP by Gloo on a CPU, which waits at the end of the backward pass."""
    file, (sent, over, end) = File(rank), step_ends(alpha)
    file.head["distributedInfo"]["backend"] = "gloo"
    for bucket in range(BUCKETS):
        begin = sent[bucket] - COMPUTING
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        file.op(name, begin, COMPUTING + 0.2)
        file.op("aten::mm", begin, COMPUTING)
        values = ["", "", "", "", "True", "-1"]
        dims, note = [[[1000]]], ("all_reduce", [1000], FLOATS)
        gloo(file, sent[bucket], "allreduce_", dims, [LIST], values)
        file.events[-1]["dur"] = 0.1
        shape = {"Input Dims": [note[1]], "Input type": [note[2]]}
        begun = over[bucket] - 2 * alpha + 0.05
        took = 2 * alpha - 0.05
        file.add("gloo:all_reduce", "user_annotation", begun, took, 1, **shape)
    file.op("autograd::engine::evaluate_function: TBackward0", sent[-1] + 1, TAIL - 1)
    file.op("aten::t", sent[-1] + 1, TAIL - 1)
    file.op("aten::add_", end - OPTIMIZER, OPTIMIZER)
    return file


def predicts(form, recorded, other, folder):
    """Whether a profile at one speed gives the step at its own and at another one."""
    for rank in range(2):
        form(rank, recorded).write(folder / f"{rank}.json")
    trace = Trace.load(folder)
    for alpha in (recorded, other):
        replayed = trace.replay(fabrics.uniform(2, alpha * 1e-6, 0), compute=1)
        wanted = step_ends(alpha)[2] * 1e-6
        if replayed.elapsed != pytest.approx(wanted, rel=2e-3):
            return False
    return True


@pytest.mark.parametrize("form", [on_a_gpu, on_a_cpu])
@pytest.mark.parametrize("recorded, other", [(200, 900), (900, 200), (700, 3000)])
def test_a_profile_predicts_the_step_at_another_speed(
    form, recorded, other, tmp_path
) -> None:
    """Hidden communication or exposed: what was computed, sent and awaited is found."""
    assert predicts(form, recorded, other, tmp_path)


@pytest.mark.parametrize("form", [on_a_gpu, on_a_cpu])
def test_a_reader_without_waits_is_found(form, tmp_path, monkeypatch) -> None:
    """The battery fails where nobody is seen to wait at the end of a backward pass.

    Where the wait shows as a gap, it is found nevertheless.
    """
    monkeypatch.setattr(times, "_waits_of_backward", lambda *args: None)
    assert not predicts(form, 200, 900, tmp_path)
    assert predicts(form, 900, 200, tmp_path)
    monkeypatch.setattr(times, "_waits_in_gaps", lambda *args: None)
    assert not predicts(form, 900, 200, tmp_path)


def test_a_recorded_wait_counts(tmp_path) -> None:
    """NCCL's record of a wait ends the oldest call: the stream comes to it after."""
    file = File(0, 1)
    said = parameters("allreduce", 10, 10, ranks=(0,))
    file.kernel("a", 0, 100, COMPUTE, 1)
    nccl(file, 10, said, (100, 500))
    file.kernel("b", 100, 200, COMPUTE, 40)
    file.op("record_param_comms", 60, 5, **parameters("wait", 0, 0, "Byte", ranks=(0,)))
    file.kernel("c", 600, 100, COMPUTE, 80)
    (event,) = communication(Trace.load(file.write(tmp_path / "r.json")))
    assert event.issued == pytest.approx(100e-6, abs=5e-9)
    assert event.waited == pytest.approx(300e-6, abs=5e-9)
    assert event.completed == pytest.approx(600e-6, abs=5e-9)


@pytest.mark.parametrize(
    "launch, waited",
    [(50, 200), (350, 350), (595, None), (900, None)],
    ids=["queued", "queued within the gap", "at the end", "later"],
)
def test_a_stream_with_nothing_in_its_queue_waits_for_python(
    launch: float, waited: float | None, tmp_path
) -> None:
    """Beside a collective it waits only from the launch of its next kernel on."""
    file, said = File(0, 1), parameters("allreduce", 10, 10, ranks=(0,))
    file.kernel("a", 0, 200, COMPUTE, 1)
    nccl(file, 10, said, (100, 500))
    file.kernel("b", max(610, launch + 8), 100, COMPUTE, launch)
    (event,) = communication(Trace.load(file.write(tmp_path / "r.json")))
    assert event.completed == pytest.approx(600e-6, abs=5e-9)
    expected = None if waited is None else pytest.approx(waited * 1e-6, abs=5e-9)
    assert event.waited == expected


def test_a_job_that_waits_for_python_gains_nothing_from_a_network() -> None:
    """That of chapter 12: its sums end before Python has launched what comes after."""
    file = str(shipped("ddp_resnet50.json.gz"))
    trace = Trace.load(file, symmetric=True)
    assert [e.waited for e in trace.of_rank(0) if e.op == "all_reduce"] == 5 * [None]
    recorded, faster = (fabrics.uniform(2, alpha, 0) for alpha in (5e-4, 1e-6))
    job = lab.what_if(trace, recorded)
    assert max(job.exposed()) == 0
    assert job.on(faster).elapsed == pytest.approx(job.replayed.elapsed, rel=1e-3)


def test_a_kernel_in_the_computing_stream_blocks_it(tmp_path) -> None:
    """A synchronous call of newer torch runs where the computing does."""
    file = File(0, 1)
    file.kernel("a", 0, 100, 40, 1)
    nccl(file, 10, parameters("allreduce", 10, 10, ranks=(0,)), (100, 500))
    (event,) = communication(Trace.load(file.write(tmp_path / "r.json")))
    assert event.waited == event.issued == pytest.approx(100e-6, abs=5e-9)


def test_computing_lies_between_the_calls(tmp_path) -> None:
    """Nested ops count once, and an annotation or a call is no computing."""
    file = File(0, 1)
    file.add("ProfilerStep#1", "user_annotation", 0, 1000)
    file.op("aten::linear", 0, 100)
    file.op("aten::addmm", 10, 80)
    values = ["", "", "", "", "False", "-1"]
    note = ("all_reduce", [10], FLOATS)
    gloo(file, 200, "allreduce_", [[[10]]], [LIST], values, 400, note)
    file.op("aten::mul", 500, 50)
    trace = Trace.load(file.write(tmp_path / "r.json"))
    assert [e.op for e in trace.events] == ["compute", "all_reduce", "compute"]
    seconds = [e.seconds for e in trace.events if e.op == "compute"]
    assert seconds == pytest.approx([100e-6, 50e-6])
    assert trace.replay(fabrics.loopback(1)).elapsed == pytest.approx(150e-6)


# -- several ranks ---------------------------------------------------------------------


def test_clocks_of_other_hosts_are_set_by_common_ends(tmp_path) -> None:
    """Two hosts whose files count from anywhere agree on when a collective ends."""
    for rank in range(2):
        file = nccl_file(
            rank, host_name=f"host{rank}", baseTimeNanoseconds=rank * 10**15
        )
        file.write(tmp_path / f"{rank}.json")
    ends = [
        [e.completed for e in communication(Trace.load(tmp_path), r)] for r in (0, 1)
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)


def mesh_file(rank):
    """A rank of a mesh of 2 by 2: calls in its row, then in its column, then all."""
    file = File(rank, 4)
    row, column = rank // 2 * 2, rank % 2
    for number, (name, ranks) in enumerate(
        [("row", (row, row + 1)), ("column", (column, column + 2)), ("0", (0, 1, 2, 3))]
    ):
        said = parameters("allreduce", 10, 10, group=f"{name}{ranks[0]}", ranks=ranks)
        said |= {"Process Group Name": "0"} if name == "0" else {}
        nccl(file, 100 * number, said, (100 * number + 20, 50))
    return file


def test_missing_ranks_are_completed_only_when_asked_and_marked(tmp_path) -> None:
    """One file of a mesh gives the calls of all ranks, each in its own groups."""
    path = mesh_file(0).write(tmp_path / "rank0.json")
    with pytest.raises(LabError, match="symmetric=True"):
        Trace.load(path)
    trace = Trace.load(path, symmetric=True)
    assert trace.meta["completed"] == [1, 2, 3]
    assert "completed by symmetry" in repr(trace)
    for rank in range(4):
        groups = [trace.groups[e.group] for e in communication(trace, rank)]
        row, column = rank // 2 * 2, rank % 2
        assert groups == [(row, row + 1), (column, column + 2), (0, 1, 2, 3)]
    assert trace.replay(fabrics.loopback(4)).elapsed > 0


def test_all_files_of_a_mesh_are_one_trace(tmp_path) -> None:
    """What was completed by symmetry is what the other ranks' files say."""
    for rank in range(4):
        mesh_file(rank).write(tmp_path / f"{rank}.json")
    whole = Trace.load(tmp_path)
    completed = Trace.load(tmp_path / "0.json", symmetric=True)
    for rank in range(4):
        for a, b in zip(
            communication(whole, rank), communication(completed, rank), strict=True
        ):
            assert whole.groups[a.group] == completed.groups[b.group]
            assert (a.op, a.nbytes) == (b.op, b.nbytes)


def test_ranks_that_call_different_things_are_not_completed(tmp_path) -> None:
    """Where one of two files has a call more, the number of each rank is said."""
    one, other = nccl_file(0), nccl_file(1)
    nccl(other, 5000, parameters("allreduce", 10, 10), (5020, 50))
    one.write(tmp_path / "0.json")
    other.write(tmp_path / "1.json")
    with pytest.raises(LabError, match="10 by rank 0, 11 by rank 1"):
        Trace.load(tmp_path)


# -- large files -----------------------------------------------------------------------


@pytest.mark.slow
def test_events_are_read_one_by_one(tmp_path, monkeypatch) -> None:
    """A file of many chunks takes the memory of a few, and cuts no value."""
    monkeypatch.setattr(stream, "CHUNK", 997)
    path = tmp_path / "many.json"
    event = {"ph": "X", "name": "ä" * 50, "ts": 12.5, "args": {"a": [1, {"b": "]}"}]}}
    count = 20_000
    head = '{"n": 12345, "traceEvents": ['
    path.write_text(head + ",\n".join([json.dumps(event)] * count) + '], "last": 7}')
    tracemalloc.start()
    events, others = 0, {}
    for key, value in stream.stream(path):
        if key == "traceEvents":
            events += value == event
        else:
            others[key] = value
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert events == count and others == {"n": 12345, "last": 7}
    assert peak < path.stat().st_size / 10


def test_reading_shows_its_progress(tmp_path, monkeypatch) -> None:
    """A screen has the share that has been read, and nothing at the end."""
    shown = []

    class Screen:
        def show(self, text):
            shown.append(text)

        def make_room(self):
            return True

    monkeypatch.setattr(live_area, "screen", Screen)
    monkeypatch.setattr(live_area, "INTERVAL", 0.0)
    monkeypatch.setattr(stream, "CHUNK", 1000)
    for rank in range(2):
        nccl_file(rank).write(tmp_path / f"rank{rank}.json")
    Trace.load(tmp_path)
    assert any("reading rank0.json: " in text and "%" in text for text in shown)
    assert shown[-1] == ""

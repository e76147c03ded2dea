"""The recorder: every call of torch.distributed on real ranks, once and as it was."""

import _thread
import contextlib
import gc
import mmap
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from conftest import until

import collectives_lab as lab
from collectives_lab import recorder
from collectives_lab.deadlock.status_board import Board, create, digest
from collectives_lab.launch import group
from collectives_lab.recorder import interposer, torch_ops
from collectives_lab.recorder.call_record import mixed
from collectives_lab.recorder.call_site import OwnThread

P = 4
TORCH = tuple(int(n) for n in torch.__version__.split(".")[:2])


def ints(*shape, dtype=torch.float32):
    """Small integers that differ by rank."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) + 10 * dist.get_rank()).reshape(shape).to(dtype)


# -- one function a form of a call ---------------------------------------------------

FORMS = {}


def form(expected, count=1):
    """Register a form of a call: what each rank's event must say, and how many events.

    The call stands in the first line of the function.
    """

    def register(function):
        FORMS[function.__name__] = (function, expected, count)
        return function

    return register


def says(op, variant, nbytes, **more):
    """What all ranks' events must say."""
    return lambda rank: {"op": op, "variant": variant, "nbytes": nbytes} | more


@form(says("all_reduce", "all_reduce", 24, dtype="float32", reduce_op="SUM"))
def all_reduce(r):
    dist.all_reduce(ints(2, 3))


@form(says("all_reduce", "all_reduce", 8, dtype="int64", reduce_op="MAX"))
def all_reduce_max(r):
    dist.all_reduce(ints(1, dtype=torch.int64), dist.ReduceOp.MAX)


@form(says("all_reduce", "all_reduce", 12, dtype="float32", reduce_op="SUM"))
def all_reduce_later(r):
    work = dist.all_reduce(ints(3), async_op=True)
    work.wait()
    assert work.is_completed()


@form(says("all_reduce", "all_reduce", 0, dtype="float32"))
def all_reduce_of_nothing(r):
    dist.all_reduce(ints(0))


@form(says("all_reduce", "all_reduce", 6, dtype="bfloat16"))
def all_reduce_in_inference_mode(r):
    with torch.inference_mode(), torch.no_grad(): dist.all_reduce(ints(3).bfloat16())  # fmt: skip # noqa: E501, E701


@form(says("all_reduce", "all_reduce_coalesced", 20, reduce_op="SUM"))
def all_reduce_coalesced(r):
    dist.all_reduce_coalesced([ints(2), ints(3)])


@form(says("all_reduce", "all_reduce_coalesced", 20, dtype="float32"))
def all_reduce_in_a_coalescing_block(r):
    with dist.distributed_c10d._coalescing_manager():
        dist.all_reduce(torch.ones(2))
        dist.all_reduce(torch.ones(3))


@form(says("broadcast", "broadcast", 20, root=2, dtype="int32"))
def broadcast(r):
    dist.broadcast(ints(5, dtype=torch.int32), src=2)


@form(says("reduce", "reduce", 16, root=1, reduce_op="PRODUCT"))
def reduce(r):
    dist.reduce(ints(4), dst=1, op=dist.ReduceOp.PRODUCT)


@form(says("scatter", "scatter", 4 * P * 3, root=3, dtype="float32"))
def scatter(r):
    dist.scatter(ints(3), [torch.ones(3)] * P if r == 3 else None, src=3)


@form(says("gather", "gather", 4 * P * 3, root=0, dtype="float32"))
def gather(r):
    dist.gather(ints(3), [torch.zeros(3) for _ in range(P)] if r == 0 else None)


@form(says("all_gather", "all_gather", 4 * P * 3, dtype="float32"))
def all_gather(r):
    dist.all_gather([torch.zeros(3) for _ in range(P)], ints(3))


@form(says("all_gather", "all_gather_into_tensor", 4 * P * 3, dtype="float32"))
def all_gather_into_tensor(r):
    dist.all_gather_into_tensor(torch.zeros(3 * P), ints(3))


if TORCH >= (2, 8):  # Gloo had it not before (pytorch pull request 149869)

    @form(says("reduce_scatter", "reduce_scatter", 4 * P * 3, reduce_op="SUM"))
    def reduce_scatter(r):
        dist.reduce_scatter(torch.zeros(3), [ints(3) for _ in range(P)])


@form(says("reduce_scatter", "reduce_scatter_tensor", 4 * P * 3, reduce_op="SUM"))
def reduce_scatter_tensor(r):
    dist.reduce_scatter_tensor(torch.zeros(3), ints(3 * P))


if hasattr(dist, "all_gather_single"):  # torch 2.13 and later

    @form(says("all_gather", "all_gather_single", 4 * P * 3, dtype="float32"))
    def all_gather_single(r):
        dist.all_gather_single(torch.zeros(3 * P), ints(3))

    @form(says("reduce_scatter", "reduce_scatter_single", 4 * P * 3, reduce_op="SUM"))
    def reduce_scatter_single(r):
        dist.reduce_scatter_single(torch.zeros(3), ints(3 * P))


@form(says("all_to_all", "all_to_all_single", 4 * P * 2, sent=24.0, received=24.0))
def all_to_all_single(r):
    dist.all_to_all_single(torch.zeros(2 * P), ints(2 * P))


SPLITS = [[0, 1, 2, 3], [4, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 2]]


def uneven(variant):
    def expected(rank):
        sent = sum(SPLITS[rank]) - SPLITS[rank][rank]
        received = sum(row[rank] for row in SPLITS) - SPLITS[rank][rank]
        return {
            "op": "all_to_all",
            "variant": variant,
            "nbytes": 4 * 2 * sum(SPLITS[rank]),
            "sent": 4.0 * 2 * sent,
            "received": 4.0 * 2 * received,
        }

    return expected


@form(uneven("all_to_all_single"))
def all_to_all_single_of_uneven_rows(r):
    dist.all_to_all_single(
        torch.zeros(sum(row[r] for row in SPLITS), 2),
        ints(sum(SPLITS[r]), 2),
        [row[r] for row in SPLITS],
        SPLITS[r],
    )


def _barrier_like(variant):
    return says("barrier", variant, 0, sent=None, received=None, dtype="")


@form(_barrier_like("barrier"))
def barrier(r):
    dist.barrier()


@form(_barrier_like("monitored_barrier"))
def monitored_barrier(r):
    dist.monitored_barrier(timeout=timedelta(seconds=20))


def to_the_right(op, variant, nbytes, tag):
    step = 1 if op == "send" else -1
    return lambda rank: {
        "op": op,
        "variant": variant,
        "nbytes": nbytes,
        "peer": (rank + step) % P,
        "tag": tag,
        "dtype": "float32",
        "root": None,
    }


_works = []
"""Works of this rank, kept until they can be waited for."""


@form(to_the_right("send", "isend", 12, 5))
def isend(r):
    _works.append(dist.isend(ints(3), (r + 1) % P, tag=5))


@form(to_the_right("recv", "recv", 12, 5))
def recv(r):
    assert dist.recv(torch.zeros(3), (r - 1) % P, tag=5) == (r - 1) % P


@form(to_the_right("recv", "irecv", 12, 0))
def irecv(r):
    _works.append(dist.irecv(torch.zeros(3), (r - 1) % P))


@form(to_the_right("send", "send", 12, 0))
def send(r):
    dist.send(ints(3), (r + 1) % P)
    while _works:
        _works.pop().wait()


@form(to_the_right("send", "isend", 8, 9))
def isend_to_any(r):
    _works.append(dist.isend(ints(2), (r + 1) % P, tag=9))


@form(to_the_right("recv", "recv", 8, 9))
def recv_from_any(r):
    assert dist.recv(torch.zeros(2), tag=9) == (r - 1) % P
    _works.pop().wait()


@form(lambda rank: {"variant": "batch_isend_irecv", "nbytes": 8, "tag": 0}, count=2)
def batch_isend_irecv(r):
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, ints(2), (r + 1) % P),
            dist.P2POp(dist.irecv, torch.zeros(2), (r - 1) % P),
        ]
    )
    for work in works:
        work.wait()


@form(lambda rank: {"op": "broadcast", "root": 1}, count=2)
def broadcast_object_list(r):
    dist.broadcast_object_list([{"rank": r}], src=1)


@form(lambda rank: {"op": "all_gather", "variant": "all_gather_object"}, count=2)
def all_gather_object(r):
    dist.all_gather_object([None] * P, {"rank": r})


@form(lambda rank: {"variant": "gather_object"}, count=2)
def gather_object(r):
    dist.gather_object(r, [None] * P if r == 2 else None, dst=2)


@form(lambda rank: {"variant": "scatter_object_list", "root": 0}, count=3)
def scatter_object_list(r):
    dist.scatter_object_list([None], list(range(P)) if r == 0 else None)


def run_forms(forms):
    """Call every form once, with a barrier nowhere: what is seen is what was called."""
    warnings.simplefilter("ignore")
    for function in forms:
        function(dist.get_rank())


def wanted(name, rank):
    """What the events of a form must say on a rank, one dict an event."""
    function, expected, count = FORMS[name]
    line = function.__code__.co_firstlineno + 2
    return [expected(rank) | {"where": f"{__file__}:{line}"}] * count


def asked_for(event, name, rank):
    """What an event says, of that which its form must say."""
    expected = FORMS[name][1](rank)
    return {n: getattr(event, n) for n in expected} | {"where": event.where}


def twice(event):
    return [event, event]


def never(event):
    return []


def by_share(event):
    return [replace(event, nbytes=event.nbytes // P)]


def a_line_late(event):
    file, _, line = event.where.rpartition(":")
    return [replace(event, where=f"{file}:{int(line) + 1}")]


def by_operator(event):
    return [replace(event, op=event.variant)]


@pytest.fixture(scope="module")
def forms():
    """One run of all forms, its events by the function that made them and by rank."""
    run = lab.run(run_forms, P, [[function for function, _, _ in FORMS.values()]])
    by_form = {name: [[] for _ in range(P)] for name in FORMS}
    names = {}
    for name, (function, _, _) in FORMS.items():
        first = function.__code__.co_firstlineno
        lines = [line for *_, line in function.__code__.co_lines() if line]
        names |= {f"{__file__}:{n}": name for n in range(first, max(lines) + 1)}
    for event in run.trace.events:
        by_form[names[event.where]][event.rank].append(event)
    return run, by_form


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_call_is_seen_once(forms, name):
    """Each call makes its event on every rank: verb, variant, bytes, ranks and line."""
    for rank, events in enumerate(forms[1][name]):
        actual = [asked_for(event, name, rank) for event in events]
        assert actual == wanted(name, rank)


@pytest.mark.parametrize("wrong", [twice, never, by_share, a_line_late, by_operator])
def test_a_recorder_that_is_wrong_in_one_point_is_caught(forms, wrong):
    """The battery finds calls doubled or missed, and wrong bytes, lines and verbs."""
    bad = [
        name
        for name in FORMS
        for rank, events in enumerate(forms[1][name])
        if wanted(name, rank)
        != [asked_for(w, name, rank) for event in events for w in wrong(event)]
    ]
    assert bad


def test_no_call_is_seen_that_was_not_made(forms):
    """The trace holds the forms and nothing else."""
    calls = sum(count for _, _, count in FORMS.values())
    assert len(forms[0].trace) == P * calls


def test_times_of_a_call_are_in_order(forms):
    """A call is issued before it is waited for, and waited for before it ends."""
    later = [event for events in forms[1]["all_reduce_later"] for event in events]
    for event in forms[0].trace.events:
        assert 0 <= event.issued <= min(event.waited, event.completed), event
        # What others may end before it is waited for is the one exception.
        assert event.waited <= event.completed or event in later, event
        assert event.completed <= forms[0].elapsed
    for events in forms[1]["all_reduce_later"]:
        assert events[0].waited > events[0].issued
    for events in forms[1]["all_reduce"]:
        assert events[0].waited == events[0].issued


def test_every_message_has_both_ends(forms):
    """Sends and recvs of all forms match, those from any rank too."""
    trace = forms[0].trace
    assert len(trace.messages) == trace.ops()["send"] == trace.ops()["recv"]
    for message in trace.messages:
        assert message.send.nbytes == message.recv.nbytes
        assert message.send.issued <= message.recv.completed


def test_what_is_sent_is_received(forms):
    """Over all ranks the calls send as much as they receive, uneven parts included."""
    trace = forms[0].trace
    assert sum(trace.bytes_sent()) == sum(trace.bytes_received())
    assert sum(trace.bytes_sent()) > 0


def test_all_forms_of_this_torch_are_tried():
    """No operator of the dispatcher but the ones named here lacks its form."""
    names = torch._C._dispatch_get_all_op_names()
    verbs = {n.removeprefix("c10d::") for n in names if n.startswith("c10d::")}
    known = set(torch_ops._VERBS) | {"check_for_nan"}
    assert {v for v in verbs if "." not in v} <= known


# -- groups, threads, tensors --------------------------------------------------------


def subgroups():
    r = dist.get_rank()
    groups = [dist.new_group([1, 3]), dist.new_group([0, 2])]
    own = groups[0] if r in (1, 3) else groups[1]
    x = torch.full((2,), float(r))
    dist.all_reduce(x, group=own)
    dist.broadcast(x, src=3 if r in (1, 3) else 2, group=own)
    if r in (1, 3):
        peer = 4 - r
        work = dist.isend(x, peer, group=own)
        dist.recv(torch.zeros(2), peer, group=own)
        work.wait()
        dist.broadcast(x, group=own, group_src=0)
    return x.tolist()


def test_ranks_of_a_subgroup_are_ranks_of_the_world():
    """Roots and peers are global, and the trace knows the members of the group."""
    run = lab.run(subgroups, P)
    assert run.results == [[2, 2], [4, 4], [2, 2], [4, 4]]
    (odd,) = {e.group for e in run.trace.of_rank(1)}
    (even,) = {e.group for e in run.trace.of_rank(0)}
    assert "0" not in (odd, even) and odd != even
    assert run.trace.groups[odd] == (1, 3)
    assert run.trace.groups[even] == (0, 2)
    last = run.trace.of_rank(3)
    assert [(e.op, e.root, e.peer) for e in last] == [
        ("all_reduce", None, None),
        ("broadcast", 3, None),
        ("send", None, 1),
        ("recv", None, 1),
        ("broadcast", 1, None),
    ]
    assert run.trace.bytes_sent() == [8, 8 + 8 + 8, 8 + 8, 8 + 8 + 8]


def sparse_sums():
    rank = dist.get_rank()
    x = torch.sparse_coo_tensor([[rank, 3]], [1.0, float(rank)], (4,))
    dist.all_reduce(x)
    return x.to_dense().tolist()


def test_a_sparse_tensor_counts_as_what_it_holds():
    """Ranks add sparse tensors, as of an embedding's gradient: 8 + 4 bytes an item."""
    run = lab.run(sparse_sums, world_size=3)
    assert run.results == 3 * [[1, 1, 1, 3]]
    assert [event.nbytes for event in run.trace.events] == 3 * [2 * (8 + 4)]


def in_threads():
    r = dist.get_rank()
    groups = [dist.new_group(range(2)) for _ in range(2)]
    x = torch.full((2,), float(r))
    dist.all_reduce(x)

    together = threading.Barrier(2)  # of two that follow each other the number is one

    def talk(group, length):
        together.wait()
        for _ in range(3):
            dist.all_reduce(torch.ones(length), group=group)

    threads = [threading.Thread(target=talk, args=(g, 4)) for g in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return x.tolist()


def test_calls_of_other_threads_are_seen():
    """Every thread's calls are in the trace, numbered by thread, the first one 0."""
    run = lab.run(in_threads, 2)
    for rank in range(2):
        events = run.trace.of_rank(rank)
        assert [e.thread for e in events[:1]] == [0]
        assert Counter(e.thread for e in events) == {0: 1, 1: 3, 2: 3}
        assert all(__file__ in e.where for e in events)


def is_blocked_beside(runs_readers_code):
    """Whether a rank that waits is blocked while a thread of the package runs."""
    recording, done = interposer.current(), threading.Event()
    frames, sys._current_frames = sys._current_frames, None  # not to be read
    own = OwnThread(done.wait, name="own", runs_readers_code=runs_readers_code)
    own.start()
    recording.blocked[threading.get_ident()] = None
    try:
        return recording.all_blocked()
    finally:
        sys._current_frames = frames
        recording.blocked.clear()
        done.set()
        own.join()


@pytest.mark.parametrize("runs_readers_code", [False, True])
def test_a_thread_of_the_package_says_whether_it_may_call(runs_readers_code):
    """Its frames are not read, and only one that runs a reader's code may move."""
    run = lab.run(is_blocked_beside, 1, args=[runs_readers_code])
    assert run.results == [not runs_readers_code]


def headers_then_data():
    r = dist.get_rank()
    if r:
        dist.send(torch.full((1,), float(r)), 0)
        dist.send(torch.full((r,), float(r)), 0)
        return None
    got, header = [], torch.zeros(1)
    for _ in range(1, P):
        src = dist.recv(header)
        data = torch.zeros(int(header))
        dist.recv(data, src)
        got.append((src, data.tolist()))
    return sorted(got)


def test_a_recv_from_any_counts_for_the_rank_it_came_from():
    """A header from anybody, then its data from that rank: a correct program."""
    run = lab.run(headers_then_data, P)
    assert run.results[0] == [(1, [1]), (2, [2, 2]), (3, [3, 3, 3])]
    assert len(run.trace.messages) == 6
    assert run.trace.bytes_by_pair()[3] == [16, 0, 0, 0]


def refused():
    r = dist.get_rank()
    if r == 1:
        with pytest.raises((RuntimeError, ValueError)):
            dist.all_gather([torch.zeros(2) for _ in range(P)], ints(3))
    x = [torch.zeros(3) for _ in range(P)]
    dist.all_gather(x, ints(3))
    dist.all_reduce(x[0])
    return [t[0].item() for t in x]


def test_a_call_that_torch_refuses_is_no_call():
    """Who catches the error and calls again is at the same place as the others."""
    run = lab.run(refused, P)
    assert run.results == [[0, 10, 20, 30]] * P
    assert run.trace.ops() == {"all_gather": P, "all_reduce": P}


def never_waited_for():
    work = dist.all_reduce(torch.ones(4), async_op=True)
    dist.barrier()
    return work.is_completed()


def test_a_call_ends_though_nobody_waits_for_it():
    """The end of an asynchronous collective is noted when it ends, with no wait."""
    run = lab.run(never_waited_for, 2)
    assert run.results == [True, True]
    for rank in range(2):
        event = run.trace.of_rank(rank)[0]
        assert event.waited is None
        assert event.issued <= event.completed


def told_late():
    work = dist.all_reduce(torch.ones(4), async_op=True)
    own, future = recorder.current(), torch.futures.Future()
    record = own.records[-1]
    own._note_end(SimpleNamespace(get_future=lambda: future), record)
    work.wait()
    over = recorder.now()
    future.set_result(None)
    return record.completed <= over


def test_a_call_has_ended_when_its_wait_returns():
    """Though torch's own thread, which tells of the end, may come to it later."""
    assert lab.run(told_late, 2).results == [True, True]


def waits_with_a_time_out():
    work = dist.all_reduce(torch.ones(4), async_op=True)
    work.wait(timedelta(seconds=10))


def test_a_wait_with_a_time_out_is_recorded():
    """Who gives up after a while still waits until then, and the trace says so.

    What has ended before it is waited for did so before.
    """
    for event in lab.run(waits_with_a_time_out, 2).trace.events:
        assert event.issued <= min(event.waited, event.completed)


def forgets_works():
    r = dist.get_rank()
    peer = 1 - r
    for _ in range(100):
        kept = torch.ones(8)
        works = [dist.isend(kept, peer), dist.irecv(torch.zeros(8), peer)]
        for work in works:
            work.wait()
    watched = [weakref.ref(work) for work in works] + [weakref.ref(kept)]
    later = dist.all_reduce(kept, async_op=True)
    later.wait()
    watched.append(weakref.ref(later))
    del kept, work, works, later
    dist.isend(torch.ones(1), peer)  # nobody keeps its work, and nobody receives it
    dist.barrier()
    gc.collect()
    deadline = time.monotonic() + 5  # Gloo's thread lets go shortly after the wait
    while any(ref() is not None for ref in watched) and time.monotonic() < deadline:
        time.sleep(0.01)
    seen = recorder.current()
    return [ref() is None for ref in watched], len(seen.works), len(seen.unended)


def test_nothing_of_a_call_is_kept_alive():
    """Works and tensors end with the reader's last name for them; so does an isend."""
    for gone, works, unended in lab.run(forgets_works, 2).results:
        assert all(gone)
        # The barrier's own, at most: the last work of a thread is held for its caller.
        assert works <= 1 and unended == 0


def plain_tensors():
    x = torch.ones(64, 64)
    for _ in range(20):
        x = (x @ x).relu().softmax(0)
    before = len(recorder.current().records)
    dist.all_reduce(x)
    return before, len(recorder.current().records)


def test_nothing_but_communication_is_recorded():
    """Operators on tensors make no event."""
    assert lab.run(plain_tensors, 2).results == [(0, 1)] * 2


def stops():
    seen = recorder.current()
    dist.all_reduce(torch.ones(2))
    recorder.start(None)
    dist.all_reduce(torch.ones(3))
    dist.barrier()
    recorder.start(seen)
    dist.all_reduce(torch.ones(4))


def test_a_stopped_recorder_sees_nothing():
    """Between its stop and its next start, calls go on unseen."""
    trace = lab.run(stops, 2).trace
    assert [e.nbytes for e in trace.of_rank(0)] == [8, 16]


# -- what others build on torch.distributed ------------------------------------------


def model():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(6, 6) for _ in range(3)]
    return torch.nn.Sequential(*layers)


def builders():
    """DDP, ZeRO and functional collectives: how many calls each of them makes."""
    import torch.distributed._functional_collectives as funcol
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    r, seen, marks = dist.get_rank(), recorder.current(), {}

    def mark(name):
        marks[name] = len(seen.records)

    ddp = DistributedDataParallel(model())
    mark("built")
    ddp(ints(2, 6)).sum().backward()
    mark("backward")
    zero = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.5)
    zero.step()
    mark("zero")
    y = funcol.all_reduce(torch.full((3,), float(r)), "sum", dist.group.WORLD)
    y = y.tolist()
    mark("functional")
    return marks, y, sum(p.numel() for p in ddp.parameters())


def test_ddp_zero_and_functional_collectives_are_seen():
    """Gradients by all_reduce, each once; owners' broadcasts; functional ones too."""
    run = lab.run(builders, 2, timeout=60)
    for rank in range(2):
        marks, y, parameters = run.results[rank]
        assert y == [1, 1, 1]
        events = run.trace.of_rank(rank)
        backward = events[marks["built"] : marks["backward"]]
        gradients = [e for e in backward if e.op == "all_reduce"]
        assert sum(e.nbytes for e in gradients) == 4 * parameters
        assert all(__file__ in e.where for e in gradients)
        zero = events[marks["backward"] : marks["zero"]]
        owners = [e for e in zero if e.op == "broadcast"]
        assert sum(e.nbytes for e in owners) == 4 * parameters
        assert {e.root for e in owners} == {0, 1}
        (functional,) = events[marks["zero"] :]
        assert (functional.op, functional.nbytes) == ("all_reduce", 12)
        assert functional.completed is not None
    assert sum(run.trace.bytes_sent()) == sum(run.trace.bytes_received())


def sharded():
    """FSDP2, whose root is not gathered again in the backward pass."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = model()
    mesh = init_device_mesh("cpu", (2,))
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    before = len(recorder.current().records)
    net(ints(2, 6)).sum().backward()
    return before


@pytest.mark.skipif(TORCH < (2, 7), reason="FSDP2 of torch 2.6 wants a GPU")
def test_fsdp2_is_seen():
    """Each layer is gathered forward and backward, and scattered once."""
    run = lab.run(sharded, 2, timeout=60)
    for rank, before in enumerate(run.results):
        events = run.trace.of_rank(rank)[before:]
        layer = 4 * (6 * 6 + 6)
        gathers = [e.nbytes for e in events if e.op == "all_gather"]
        scatters = [e.nbytes for e in events if e.op == "reduce_scatter"]
        assert scatters == [layer] * 3
        assert set(gathers) == {layer} and 5 <= len(gathers) <= 6
        assert all(__file__ in e.where for e in events)


# -- bytes ---------------------------------------------------------------------------

MIB = 2**20


def one_verb(name, nbytes):
    """One collective whose full logical tensor has so many bytes."""
    r, p = dist.get_rank(), dist.get_world_size()
    whole, part = torch.ones(nbytes // 4), torch.ones(nbytes // 4 // p)
    parts = list(whole.chunk(p))
    {
        "broadcast": lambda: dist.broadcast(whole, 0),
        "scatter": lambda: dist.scatter(part, None if r else parts),
        "gather": lambda: dist.gather(part, None if r else parts),
        "all_gather": lambda: dist.all_gather(parts, part),
        "reduce": lambda: dist.reduce(whole, 0),
        "reduce_scatter": lambda: dist.reduce_scatter(part, parts),
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_to_all": lambda: dist.all_to_all_single(torch.zeros_like(whole), whole),
    }[name]()


BOOK = {
    "broadcast": 3.0,
    "scatter": 0.75,
    "gather": 0.75,
    "all_gather": 3.0,
    "reduce": 3.754,
    "reduce_scatter": 6.01,
    "all_reduce": 6.01,
    "all_to_all": 3.0,
}
"""BOOK.md's table: what Gloo puts on the wire at P = 4, total / S."""


@pytest.fixture(scope="module")
def four():
    with lab.Ranks(P) as ranks:
        yield ranks


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")
@pytest.mark.parametrize(
    "verb", [verb for verb in BOOK if verb != "reduce_scatter" or TORCH >= (2, 8)]
)
def test_gloo_puts_on_the_wire_what_the_book_says(four, verb):
    """The library's own traffic, beside the bound that the call is counted with."""
    trace = four.run(one_verb, [verb, MIB]).trace
    assert sum(trace.wire_bytes()) / MIB == pytest.approx(
        BOOK[verb], rel=0.01, abs=0.01
    )
    assert sum(trace.bytes_sent()) <= sum(trace.wire_bytes())
    bounds = {"scatter": 0.75, "gather": 0.75, "all_reduce": 6.0}
    assert sum(trace.bytes_sent()) == bounds.get(verb, 3.0) * MIB


def ring_all_reduce(tensor):
    """Sum over all ranks in 2(P-1) steps: reduce-scatter, then all-gather."""
    r, p = dist.get_rank(), dist.get_world_size()
    chunks = list(tensor.chunk(p))
    right, left = (r + 1) % p, (r - 1) % p
    for step in range(2 * (p - 1)):
        own, theirs = chunks[(r - step) % p], chunks[(r - step - 1) % p]
        work = dist.isend(own.clone(), right)
        got = torch.empty_like(theirs)
        dist.recv(got, left)
        work.wait()
        theirs.copy_(theirs + got if step < p - 1 else got)


def whole_ring_all_reduce(tensor):
    """The same sum by passing whole tensors: (P-1) S a rank."""
    r, p = dist.get_rank(), dist.get_world_size()
    own, total = tensor.clone(), tensor.clone()
    for _ in range(p - 1):
        work = dist.isend(own, (r + 1) % p)
        got = torch.empty_like(own)
        dist.recv(got, (r - 1) % p)
        work.wait()
        own, total = got, total + got
    tensor.copy_(total)


def reduced(algorithm, nbytes):
    x = torch.arange(nbytes // 4) % 7 * 1.0 + dist.get_rank()
    algorithm(x)
    expected = torch.arange(nbytes // 4) % 7 * P * 1.0 + sum(range(P))
    return torch.equal(x, expected)


def test_a_ring_of_messages_sends_what_the_bound_of_all_reduce_says(four):
    """2 (P-1)/P S a rank: by payloads, by the verb's bound, nearly so on the wire."""
    run = four.run(reduced, [ring_all_reduce, MIB])
    assert run.results == [True] * P
    assert run.trace.bytes_sent() == [2 * (P - 1) * MIB // P] * P
    assert run.trace.bytes_received() == run.trace.bytes_sent()
    assert len(run.trace.messages) == 2 * (P - 1) * P
    verb = four.run(one_verb, ["all_reduce", MIB])
    assert run.trace.bytes_sent() == verb.trace.bytes_sent()
    if run.trace.wire is not None:
        pairs = run.trace.bytes_by_pair()
        for src in range(P):
            for dst in range(P):
                extra = run.trace.wire[src][dst] - pairs[src][dst]
                assert 0 <= extra < 2000


def test_a_ring_of_whole_tensors_does_not(four):
    """The naive ring gives the same sums and is told apart by its bytes."""
    run = four.run(reduced, [whole_ring_all_reduce, MIB])
    assert run.results == [True] * P
    assert run.trace.bytes_sent() == [(P - 1) * MIB] * P


# -- the board -----------------------------------------------------------------------


def test_who_comes_second_sees_a_mismatch():
    """Equal signatures of a call agree, others do not, other calls are not compared."""
    board = Board(create(20), 20)
    key = digest("collective", "0")
    assert board.meet(0, key, 7)
    assert board.meet(1, key, 7)
    assert not board.meet(2, key, 8)
    assert not board.meet(16, key, 9)  # the lane of rank 0
    assert board.meet(2, digest("collective", "1"), 8)
    board.clear()
    assert board.meet(2, key, 8)


def test_an_old_call_is_forgotten_and_never_mistaken():
    """A slot that serves another call by now says nothing about the old one."""
    board = Board(create(2), 2)
    keys = [mixed(digest("collective", "0"), n) for n in range(20_000)]
    assert all(board.meet(0, key, 1) for key in keys)
    assert all(board.meet(0, key, 2) for key in keys[:10_000])
    assert not board.meet(1, keys[9_999], 3)


def test_no_two_calls_are_taken_for_one():
    """Thousands of messages and collectives, all different, contradict nobody."""
    board = Board(create(4), 4)
    for base in range(200):
        for number in range(100):
            key = mixed(digest("message", "0", base), number)
            assert board.meet(number % 4, key, digest(base, number))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_two_ranks_that_call_at_the_same_moment_do_not_miss_each_other():
    """Of two processes that call at once, at least one sees the mismatch."""
    calls = 5000
    board = Board(create(2), 2)
    shared = memoryview(mmap.mmap(-1, 8 * (2 + 2 * calls))).cast("Q")
    here, passed = shared[:2], shared[2:]
    child = meet_in_two_processes(board, here, passed, calls)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not any(a and b for a, b in zip(passed[::2], passed[1::2], strict=True))


def meet_in_two_processes(board, here, passed, calls):
    """Let this process and a child meet `calls` times; return the child's number.

    Fewer times, on a machine too busy for both, but enough.
    """
    child = os.fork()
    try:
        rank = 1 if child else 0
        until = time.monotonic() + 30
        for number in range(calls):
            here[rank] = number + 1
            while here[1 - rank] <= number and time.monotonic() < until:
                pass
            if here[1 - rank] <= number:
                break  # who ran ahead would take the slots of calls not met yet
            key = mixed(digest("collective", "0"), number)
            passed[2 * number + rank] = board.meet(rank, key, rank + 1)
    finally:
        if not child:
            os._exit(0 if here[0] >= min(100, calls) else 1)
    return child


def test_every_rank_computes_the_same_digest():
    """A digest depends on its parts alone, whatever the process."""
    assert digest("message", "0", 1, 2) == digest("message", "0", 1, 2)
    assert digest("message", "0", 1, 2) != digest("message", "0", 2, 1)
    script = "from collectives_lab.deadlock import status_board\n"
    script += "print(status_board.digest('a', 1))"
    command = [sys.executable, "-c", script]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(out) == digest("a", 1)


def _seen_and_unseen() -> tuple[int, int, int]:
    recording = recorder.current()
    assert recording is not None
    counts = []
    for _ in range(2):
        with recorder.absent():
            dist.all_reduce(torch.ones(1))
            dist.all_reduce(torch.ones(1), async_op=True).wait()
        counts.append(len(recording.peek().columns["rank"]))
        dist.all_reduce(torch.ones(1), async_op=True).wait()
    return (*counts, len(recording.peek().columns["rank"]))


def test_the_recorder_stands_aside_and_comes_back() -> None:
    """While it is absent nothing is seen, and all is seen again afterwards."""
    run = lab.run(_seen_and_unseen, 2)
    assert run.results == [(0, 1, 2)] * 2
    assert run.trace.ops() == {"all_reduce": 4}


def refused_first(sizes):
    """A call that torch refuses on every rank, one rank later than the other."""
    rank = dist.get_rank()
    time.sleep(0.2 * rank)
    with contextlib.suppress(RuntimeError, ValueError):
        dist.all_gather([torch.zeros(1), torch.zeros(2)], ints(1))
        return "torch took it"
    x = ints(sizes[rank])
    dist.all_reduce(x)
    return x.tolist()


def test_what_was_refused_is_no_counterpart_of_what_comes_next():
    """A rank that has caught torch's error meets the others in the next call."""
    assert lab.run(refused_first, 2, [(2, 2)]).results == [[10.0, 12.0]] * 2


def refused_alone():
    """A call that torch refuses on one rank, before the other makes its first."""
    if dist.get_rank() == 0:
        with contextlib.suppress(RuntimeError, ValueError):
            dist.all_gather([torch.zeros(1), torch.zeros(2)], ints(1))
    time.sleep(1.0 - 0.5 * dist.get_rank())
    x = ints(2)
    dist.all_reduce(x)
    return x.tolist()


def test_what_one_rank_was_refused_is_forgotten():
    """The others, who come later, are not held against a call that was not made."""
    assert lab.run(refused_alone, 2).results == [[10.0, 12.0]] * 2


def test_a_mismatch_after_a_refusal_is_found():
    """The calls that come after it are compared as ever."""
    with pytest.raises(lab.Mismatch, match="3 float32"):
        lab.run(refused_first, 2, [(2, 3)])


def test_standing_ranks_go_on_after_a_refusal(monkeypatch):
    """A cell that torch refused on every rank is no reason to refuse the next."""
    monkeypatch.setattr(group, "SETTLE", 10.0)  # both report, however late
    with lab.Ranks(2) as ranks:
        with pytest.raises(lab.RankError, match="all 2 ranks failed"):
            ranks.execute(
                "dist.all_gather([torch.ones(1), torch.ones(2)], torch.ones(1))"
            )
        assert ranks.run(refused_first, [(2, 2)]).results == [[10.0, 12.0]] * 2


# -- threads of C++ --------------------------------------------------------------------


def called_by_no_python():
    """A broadcast by a thread that runs no Python code, as autograd's for GPUs do."""
    x = torch.full((2,), 7.0 - dist.get_rank())
    call = torch.ops.c10d.broadcast_.default._op
    _thread.start_new_thread(call, ([x], dist.group.WORLD.boxed(), 0, 0, True, -1))
    own = recorder.current()
    assert until(lambda: own.records and x.tolist() == [7.0, 7.0], 25.0)
    return [(record.op, record.where) for record in own.records]


def test_a_call_of_a_thread_without_python_is_recorded():
    """It goes on as ever, and has no line."""
    assert lab.run(called_by_no_python, 2).results == [[("broadcast", None)]] * 2


def called_back():
    """Whether a call was made by another thread, and its work ended with that thread.

    Rank 1 comes late, so that rank 0's is made by a thread of Gloo's.
    """
    own, others, ends = recorder.current(), [], []
    forget = own._dropped

    def dropped(work):
        ends.append(sys._getframe().f_back is None)  # under no other Python code
        forget(work)

    def then(_):
        others.append(threading.get_ident() != first)
        return dist.all_reduce(torch.ones(8), async_op=True).get_future().wait()[0]

    own._dropped, first = dropped, threading.get_ident()
    if dist.get_rank():
        dist.recv(torch.ones(1), 0)
    future = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(then)
    if dist.get_rank() == 0:
        dist.send(torch.ones(1), 1)
    future.wait()
    dist.barrier()
    gc.collect()
    return others, any(ends)


def test_no_python_code_runs_as_a_thread_of_c_ends():
    """Python 3.12 does not survive it."""
    assert lab.run(called_back, 2).results[0] == ([True], False)


def trains(compiled):
    """Train a DDP model for three steps, compiled or as it is."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    step = torch.compile(model, backend="aot_eager") if compiled else model
    for _ in range(3):
        step(torch.ones(2, 8)).sum().backward()


@pytest.mark.slow
def test_a_compiled_model_is_recorded_and_dynamo_sees_nothing_of_ours():
    """The same calls as without torch.compile, and no warning that names our files."""
    plain = lab.run(trains, 2, args=(False,), timeout=120)
    compiled = lab.run(trains, 2, args=(True,), timeout=120)
    for rank in range(2):
        calls = [
            [(e.op, e.nbytes) for e in run.trace.of_rank(rank)]
            for run in (plain, compiled)
        ]
        assert calls[0] == calls[1] and ("all_reduce", 288) in calls[0]
        assert "collectives_lab" not in compiled.output[rank]
        assert "does not know how to trace" not in compiled.output[rank]

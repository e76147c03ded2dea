"""The promises of the sealed wire: it behaves as Gloo does, and believes nothing."""

from __future__ import annotations

import collections
import contextlib
import enum
import os
import random
import socket
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest
import torch
import torch.distributed as dist
from conftest import Memory

import collectives_lab as lab
from collectives_lab.basics.own_cluster import constants
from collectives_lab.wire import (
    EVERY_VERB,
    Box,
    Failure,
    Other,
    Outcome,
    Program,
    Schedule,
    Strided,
    frames,
    operations,
    switch,
)
from collectives_lab.wire import program as programs
from collectives_lab.wire.codec import MOST_PARTS, Malformed, decode, encode
from collectives_lab.wire.frames import Frame, Kind, Reader
from collectives_lab.wire.matching import Traffic
from collectives_lab.wire.outcome import Broken
from collectives_lab.wire.posted import Posted
from collectives_lab.wire.program import preload

HEADER = "import os, sys, time, threading, torch, torch.distributed as dist\n"


RING = """
def f():
    rank, P = dist.get_rank(), dist.get_world_size()
    x, y = torch.ones(3), torch.zeros(3)
    work = dist.isend(x, (rank + 1) % P)
    dist.recv(y, (rank - 1) % P)
    work.wait()
    return y
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with Box("C") as opened:
        yield opened


def outcome_of(
    box: Box, body: str, world_size: int, args: tuple = (), seed: int | None = None
) -> Outcome:
    """What `f(*args)` of a text gives on sealed ranks."""
    program = Program.source([("cell 1", HEADER + body)])
    with box.ranks(world_size, program, wall_seconds=60) as ranks:
        return ranks.call("f", [args] * world_size, schedule=Schedule(seed))


# -- values ----------------------------------------------------------------------------

VALUES = [
    *(None, True, False, 0, -(2**63), 2**63 - 1, 1.5, float("inf"), "", "text ü"),
    *((), (1, (2.0, "three")), [1, 2], {"a": 1, "b": (2,), 3: None}),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_arrives_as_it_was(value: object) -> None:
    """What is encoded comes back equal, and of the same type."""
    back = decode(encode(value))
    assert back == value and type(back) is type(value)


def test_a_scalar_of_numpy_is_a_number() -> None:
    """A student's formula may well give one."""
    back = decode(encode((np.float64(1.5), np.int32(3), np.bool_(True))))
    assert back == (1.5, 3, True) and [type(v) for v in back] == [float, int, bool]


class Verb(enum.StrEnum):
    SEND = "send"

    def __str__(self) -> str:
        return "a lie"


class Number(enum.IntEnum):
    TWO = 2


class Half(float):
    pass


Pair = collections.namedtuple("Pair", "value rank")


@pytest.mark.parametrize(
    "value, plain",
    [
        (Pair(Half(0.5), Number.TWO), (0.5, 2)),
        (collections.OrderedDict(b=1, a=Verb.SEND), {"b": 1, "a": "send"}),
        (collections.defaultdict(dict, {"A": {Number.TWO: []}}), {"A": {2: []}}),
        (torch.ones(2, 3).shape, (2, 3)),
        (torch.tensor([3, 1]).sort(), None),
    ],
    ids=["namedtuple", "OrderedDict", "defaultdict", "Size", "tensors"],
)
def test_what_derives_from_a_value_travels_as_this_one(
    value: object, plain: object
) -> None:
    """In all its depth, to types that only the base can have made."""
    back = decode(encode(value))
    assert plain is None or back == plain
    for one in back.values() if isinstance(back, dict) else back:
        assert type(one) in (int, float, str, dict, torch.Tensor)
    assert type(back) in (tuple, dict)


def test_what_derives_from_a_value_says_nothing_itself() -> None:
    """The base says what is in it: what the class makes of that is not asked for."""

    class Lies(list):
        def __iter__(self) -> Iterator:
            raise AssertionError("it was asked")

        __len__ = __iter__  # type: ignore[assignment]

    class Hides(dict):
        def items(self) -> Any:
            raise AssertionError("it was asked")

    assert decode(encode(Lies([1, 2]))) == [1, 2]
    assert decode(encode(Hides(a=1))) == {"a": 1}


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
def test_a_tensor_arrives_as_it_was(shape: tuple, dtype: torch.dtype) -> None:
    """Also empty, without dimensions, and in a dtype that numpy does not know."""
    tensor = torch.ones(shape).to(dtype)
    back = decode(encode(tensor))
    assert torch.equal(back, tensor) and back.dtype == dtype and back.shape == shape


@pytest.mark.parametrize(
    "value", [2**70, object(), {1}, lambda: 0, torch.ones(2).to_sparse()]
)
def test_what_cannot_travel_says_its_type(value: object) -> None:
    """Nothing is pickled: an unknown value becomes the name of its type."""
    back = decode(encode((1, value)))
    assert back[0] == 1 and isinstance(back[1], Other) and back[1].type_name


def test_any_bytes_are_a_value_or_malformed() -> None:
    """The parser raises Malformed for all else, with no more memory."""
    drawn = random.Random(0)
    whole = encode((1, "text", {"a": torch.arange(5.0)}, [None, 2.5], torch.ones(2, 3)))
    kinds = {"value": 0, "malformed": 0}
    for _ in range(20_000):
        data = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        cut = bytes(data[: drawn.choice([len(data), drawn.randrange(len(data))])])
        try:
            decode(cut)
            kinds["value"] += 1
        except Malformed:
            kinds["malformed"] += 1
    assert min(kinds.values()) > 100


@pytest.mark.parametrize(
    "data",
    [
        b"t" + struct.pack("<qqq", 0, 1, 1 << 40),  # a terabyte that is not there
        b"t" + struct.pack("<qq", 99, 0),
        b"(" + struct.pack("<q", -1),
        b"(" * 100,
        b"{" + struct.pack("<q", 2) + b"NN",
        b"s" + struct.pack("<q", 1 << 62),
        b"",
    ],
)
def test_hostile_bytes_are_malformed(data: bytes) -> None:
    """Sizes that are not there, depths and keys that nobody wrote are refused."""
    with pytest.raises(Malformed):
        decode(data)


# -- frames ----------------------------------------------------------------------------


def test_frames_are_cut_wherever_the_bytes_are() -> None:
    """A frame arrives whole, however its bytes come."""
    sent = [
        Frame(Kind.SEND, 1, 2, 3, 4, 5, "cell 1:7"),
        Frame(Kind.SEND, 9, body=b"x" * 1000),
        Frame(Kind.WAIT, 1, where="ü"),
    ]
    data = b"".join(map(frames.pack, sent))
    for step in (1, 7, 50, len(data)):
        reader, got = Reader(), []
        for at in range(0, len(data), step):
            got += list(reader.feed(data[at : at + step]))
        assert got == sent


@pytest.mark.parametrize(
    "frame",
    [
        frames.pack(Frame(Kind.READ, 1)),  # only the switch says so
        frames.pack(Frame(Kind.DIGEST, 1, body=bytes(frames.DIGEST + 1))),
        bytes(48),
        b"\xff" * 60,
        struct.pack("<BxHIqqqqQ", Kind.SEND, 0, 1, 0, 0, 0, 0, 1 << 40),
    ],
)
def test_a_frame_that_a_rank_may_not_send_is_malformed(frame: bytes) -> None:
    """Before its bytes are kept: a length that is too long needs no memory."""
    with pytest.raises(Malformed):
        list(Reader().feed(frame))


# -- as Gloo does ----------------------------------------------------------------------


def all_reduce(rank, P, a):
    x = a * 1
    dist.all_reduce(x)
    return x


def all_reduce_max(rank, P, a):
    x = a * 1
    dist.all_reduce(x, dist.ReduceOp.MAX)
    return x


def all_reduce_product(rank, P, a):
    x = a * 1
    dist.all_reduce(x, dist.ReduceOp.PRODUCT)
    return x


def all_reduce_min_int(rank, P, a):
    x = a.long()
    dist.all_reduce(x, dist.ReduceOp.MIN)
    return x


def all_reduce_2d(rank, P, a):
    x = a.reshape(2, 3)
    dist.all_reduce(x)
    return x


def broadcast(rank, P, a):
    x = a * 1
    dist.broadcast(x, src=1)
    return x


def reduce(rank, P, a):
    x = a * 1
    dist.reduce(x, dst=1)
    return x if rank == 1 else None


def all_gather(rank, P, a):
    o = [torch.zeros(6) for _ in range(P)]
    dist.all_gather(o, a)
    return o


def all_gather_single(rank, P, a):
    o = torch.zeros(6 * P)
    dist.all_gather_into_tensor(o, a)
    return o


def gather(rank, P, a):
    o = [torch.zeros(6) for _ in range(P)] if rank == 2 % P else None
    dist.gather(a, o, dst=2 % P)
    return o


def scatter(rank, P, a):
    i = [a + k for k in range(P)] if rank == 0 else None
    x = torch.zeros(6)
    dist.scatter(x, i, src=0)
    return x


def reduce_scatter(rank, P, a):
    o = torch.zeros(2)
    dist.reduce_scatter(o, [a[:2] + k for k in range(P)])
    return o


def reduce_scatter_single(rank, P, a):
    o = torch.zeros(6)
    dist.reduce_scatter_tensor(o, a.repeat(P))
    return o


def all_to_all(rank, P, a):
    o = torch.zeros(P)
    dist.all_to_all_single(o, torch.arange(P) + 10.0 * rank)
    return o


def all_to_all_uneven(rank, P, a):
    n = [k + 1 for k in range(P)]
    o = torch.zeros((rank + 1) * P)
    x = torch.arange(float(sum(n))) + 100 * rank
    dist.all_to_all_single(o, x, [rank + 1] * P, n)
    return o


def barrier(rank, P, a):
    dist.barrier()
    return rank


def in_the_background(rank, P, a):
    x = a * 1
    w = dist.all_reduce(x, async_op=True)
    w.wait()
    return x


def ring(rank, P, a):
    y = torch.zeros(6)
    w = dist.isend(a, (rank + 1) % P)
    dist.recv(y, (rank - 1) % P)
    w.wait()
    return y


def batch(rank, P, a):
    y = torch.zeros(6)
    to_right = dist.P2POp(dist.isend, a, (rank + 1) % P)
    from_left = dist.P2POp(dist.irecv, y, (rank - 1) % P)
    [w.wait() for w in dist.batch_isend_irecv([to_right, from_left])]
    return y


def any_source(rank, P, a):
    y = torch.zeros(6)
    if rank:
        dist.send(a, 0)
        return None
    s = 0
    for _ in range(P - 1):
        s = s + dist.recv(y)
    return s


def tags(rank, P, a):
    y = [torch.zeros(6), torch.zeros(6)]
    right, left = (rank + 1) % P, (rank - 1) % P
    w = [dist.isend(a, right, tag=1), dist.isend(2 * a, right, tag=2)]
    dist.recv(y[1], left, tag=2)
    dist.recv(y[0], left, tag=1)
    [v.wait() for v in w]
    return y


def subgroup(rank, P, a):
    g = dist.new_group([0, P - 1])
    x = a * 1
    if rank in (0, P - 1):
        dist.all_reduce(x, group=g)
    return x


def two_groups(rank, P, a):
    g, h = dist.new_group(list(range(P))), dist.new_group([P - 1, 0])
    x = a * 1
    dist.all_reduce(x, group=g)
    if dist.get_rank(h) == 0:
        dist.send(x, P - 1, group=h)
    if dist.get_rank(h) == 1:
        dist.recv(x, 0, group=h)
    return x


def objects(rank, P, a):
    o = [None] * P
    dist.all_gather_object(o, {"rank": rank})
    return o


def broadcast_objects(rank, P, a):
    o = [rank, "x" * rank]
    dist.broadcast_object_list(o, src=1)
    return o


def callback(rank, P, a):
    x, seen = a * 1, []
    future = dist.all_reduce(x, async_op=True).get_future()
    then = future.then(lambda done: seen.append(done.value()[0] * 2))
    future.wait()
    then.wait()
    return x, seen


def futures_in_a_chain(rank, P, a):
    x, y = a * 1, a * 2
    first = dist.all_reduce(x, async_op=True).get_future()
    later = first.then(lambda done: done.value()[0] * 2).then(lambda done: done.value())
    both = [first, dist.all_reduce(y, async_op=True).get_future()]
    whole = torch.futures.collect_all(both)
    o = [torch.zeros(6) for _ in range(P)]
    last = dist.all_gather(o, a, async_op=True).get_future()
    torch.futures.wait_all([last, *both])
    return later.wait(), [each.value()[0] for each in whole.wait()], o


def values_of_futures(rank, P, a):
    x, y, z = a * 1, torch.zeros(2 * P), torch.zeros(2)
    parts = [a[:2] * n for n in range(P)] if rank == 1 else None
    works = [
        dist.broadcast(x, 1, async_op=True),
        dist.all_to_all_single(y, a[:2].repeat(P), async_op=True),
        dist.scatter(z, parts, 1, async_op=True),
    ]
    return [work.get_future().wait() for work in works]


def value_of_a_list(rank, P, a):
    work = dist.all_to_all(list(torch.zeros(P, 2)), [a[:2]] * P, async_op=True)
    return work.get_future().wait()


def futures_that_raise(rank, P, a):
    x, message = a * 1, []
    late = dist.all_reduce(x, async_op=True).get_future().then(lambda done: 1 / 0)
    for wait in (late.wait, torch.futures.collect_all([late]).wait):
        try:
            wait()
        except Exception as error:
            message.append("division by zero" in str(error))
    return message


def coalesced(rank, P, a):
    x, y = a * 1, a * 2
    w = dist.all_reduce_coalesced([x, y], async_op=True)
    w.wait()
    return x, y


VERBS = [
    all_reduce,
    all_reduce_max,
    all_reduce_product,
    all_reduce_min_int,
    all_reduce_2d,
    broadcast,
    reduce,
    all_gather,
    all_gather_single,
    gather,
    scatter,
    reduce_scatter,
    reduce_scatter_single,
    all_to_all,
    all_to_all_uneven,
    barrier,
    in_the_background,
    ring,
    batch,
    any_source,
    tags,
    subgroup,
    two_groups,
    objects,
    broadcast_objects,
    coalesced,
    callback,
    futures_in_a_chain,
    futures_that_raise,
    values_of_futures,
    value_of_a_list,
]


def called(verb: Callable) -> Callable[[], object]:
    """What a rank runs: the verb, on numbers of its own."""

    def f() -> object:
        warnings.simplefilter("ignore")
        rank, world_size = dist.get_rank(), dist.get_world_size()
        return verb(rank, world_size, torch.arange(6.0) + 1 + 10 * rank)

    return f


OF_LISTS = {reduce_scatter: "2.8", value_of_a_list: "2.13"}
"""The version of torch with which Gloo has a verb of lists."""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("world_size", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_verb_gives_what_gloo_gives(
    box: Box, verb: Callable, world_size: int
) -> None:
    """The same code on real Gloo ranks and on sealed ones ends with the same values."""
    if torch.__version__ < (since := OF_LISTS.get(verb, "2.6")):
        pytest.skip(f"Gloo had no such verb of a list before torch {since}")
    f = called(verb)
    real = lab.run(f, world_size, backend="gloo").results
    with box.ranks(world_size, Program.objects({"f": f})) as ranks:
        for schedule in (Schedule(), Schedule(1)):
            sealed = ranks.call("f", [()] * world_size, schedule=schedule)
            assert sealed.failure is None, sealed.failure
            assert repr(list(sealed.results)) == repr(real)


def test_a_trace_of_the_wire_is_one_of_the_recorder(box: Box) -> None:
    """Sealed and recorded runs of one code have the same moves, and replay alike."""
    recorded = lab.run(called(ring), 4, backend="gloo").trace
    with box.ranks(4, Program.objects({"f": called(ring)})) as ranks:
        sealed = ranks.call("f", [()] * 4).trace
    assert sealed.moves() == recorded.moves()
    assert sealed.bytes_sent() == recorded.bytes_sent()
    fabric = lab.fabrics.uniform(4, 1e-6, 1e-9)
    assert sealed.replay(fabric).elapsed == recorded.replay(fabric).elapsed


# -- what is counted -------------------------------------------------------------------

UNEVEN = """
def parts(sizes): return [torch.ones(n) for n in sizes]
def scatter(r, x):
    dist.scatter(torch.ones(4 * r), parts([0, 4, 8]) if r == 0 else None, src=0)
def gather(r, x):
    dist.gather(torch.ones(8 - 4 * r), parts([8, 4, 0]) if r == 1 else None, dst=1)
def all_gather(r, x): dist.all_gather(parts([0, 1, 2]), torch.ones(r))
def reduce_scatter(r, x): dist.reduce_scatter(torch.ones(r), parts([0, 1, 2]))
def all_to_all(r, x): dist.all_to_all(parts([0, r, 2 * r]), parts([0, r, 2 * r]))
def all_to_all_single(r, x):
    dist.all_to_all_single(torch.ones(12 * r), torch.ones(12), [4 * r] * 3, [0, 4, 8])
def in_a_pair(r, x):
    pair = dist.new_group([0, 2])
    if r != 1:
        own = torch.ones(2 * r)
        dist.scatter(own, parts([0, 4]) if r == 0 else None, src=0, group=pair)
def alone(r, x):
    groups = [dist.new_group([k]) for k in range(3)]
    dist.all_reduce(x, group=groups[r])
def nothing(r, x): dist.all_to_all_single(x[:0], x[:0])
def even(r, x):
    dist.scatter(torch.ones(4), parts([4] * 3) if r == 0 else None, src=0)
def f(name): globals()[name](dist.get_rank(), torch.ones(12))
"""
CARRIED = {
    "scatter": ([12, 0, 0], [0, 4, 8]),
    "gather": ([8, 0, 0], [0, 8, 0]),
    "all_gather": ([0, 2, 4], [3, 2, 1]),
    "reduce_scatter": ([3, 2, 1], [0, 2, 4]),
    "all_to_all": ([0, 2, 2], [0, 2, 2]),
    "all_to_all_single": ([12, 8, 4], [0, 8, 16]),
    "in_a_pair": ([4, 0, 0], [0, 0, 4]),
    "alone": ([0, 0, 0], [0, 0, 0]),
    "nothing": ([0, 0, 0], [0, 0, 0]),
    "even": ([8, 0, 0], [0, 4, 4]),
}
"""Elements of 4 bytes that each rank sends and receives, by hand."""


def test_what_crosses_ranks_is_counted_however_uneven(box: Box) -> None:
    """By the parts of all members; a replay of it takes time as well."""
    program = Program.source([("cell 1", HEADER + UNEVEN)])
    with box.ranks(3, program) as ranks:
        for verb, elements in CARRIED.items():
            outcome = ranks.call("f", [(verb,)] * 3)
            assert outcome.failure is None, (verb, outcome.failure)
            trace = outcome.trace
            actual = trace.bytes_sent(), trace.bytes_received()
            assert actual == tuple([4 * n for n in side] for side in elements), verb
            elapsed = trace.replay(lab.fabrics.uniform(3, 0.0, 1e-9)).elapsed
            assert bool(elapsed) == any(elements[0]), verb


def test_a_reduce_leaves_no_sum_that_is_not_counted(box: Box) -> None:
    """Off the root there is what the chain to it brings: to its far end nothing."""
    body = (
        "def f(root):\n    x = torch.ones(1)\n    dist.reduce(x, root)\n"
        "    return x.item()\n"
    )
    for root, left in ((0, [4, 3, 2, 1]), (2, [2, 1, 4, 3])):
        outcome = outcome_of(box, body, 4, (root,))
        assert outcome.results == left
        taken = [4.0 * (n > 1) for n in left]
        assert outcome.trace.bytes_received() == taken


FORGED = """
import gc
def f():
    rank, y = dist.get_rank(), torch.zeros(1)
    wire = next(o for o in gc.get_objects() if type(o).__name__ == "Wire")
    Kind, frames = (type(wire).send_frame.__globals__[n] for n in ("Kind", "frames"))
    peek = lambda: wire.receive_frames() or y.item()
    if rank == 0:
        dist.send(torch.ones(1), 1)
        dist.send(torch.ones(1), 1)
        return 0
    first, second = dist.irecv(y, 0), None
    time.sleep(0.05)
    before = peek()
    {ask}
    wire.wait(first)
    dist.recv(torch.ones(1), 0)
    return before
"""


@pytest.mark.parametrize(
    "ask", ["pass", "wire.send_frame(Kind.POLL, first.id, 1); first.waited = True"]
)
def test_data_comes_with_the_wait_for_it(box: Box, ask: str) -> None:
    """Whoever looks early finds nothing; whoever asks otherwise has waited."""
    outcome = outcome_of(box, FORGED.replace("{ask}", ask), 2)
    assert outcome.failure is None and outcome.results[1] == 0.0
    first, second = (e for e in outcome.trace.of_rank(1) if e.op == "recv")
    assert first.waited < second.issued


def test_what_is_sent_is_what_was_there_at_the_call(box: Box) -> None:
    """Posted before its data has come, a send is early and carries what was there."""
    body = (
        "def f():\n    r, x, y = dist.get_rank(), torch.zeros(1), torch.zeros(1)\n"
        "    if r == 0:\n        dist.send(x + 1, 1)\n"
        "    if r == 1:\n        w = dist.isend(x, 2)\n"
        "        dist.recv(x, 0)\n        dist.barrier()\n        w.wait()\n"
        "    else:\n        dist.barrier()\n"
        "    if r == 2:\n        dist.recv(x, 1)\n"
        "    return x.item()\n"
    )
    assert outcome_of(box, body, 3).results == [0, 1, 0]


# -- what is harder than Gloo ----------------------------------------------------------


def test_sends_meet_their_recvs(box: Box) -> None:
    """All ranks sending first is a deadlock even for one element, told with lines."""
    body = (
        "def f():\n    x = torch.ones(1)\n    other = 1 - dist.get_rank()\n"
        "    dist.send(x, other)\n    dist.recv(x, other)\n"
    )
    failure = outcome_of(box, body, 2).failure
    assert failure.kind == "deadlock"
    assert "0 -> 1 -> 0" in failure.text and "cell 1:5" in failure.text


def test_a_buffer_reused_early_shows(box: Box) -> None:
    """A send's buffer is read when its recv is matched, not when it is posted."""
    body = (
        "def f():\n    x, y = torch.ones(1), torch.zeros(1)\n"
        "    if dist.get_rank() == 0:\n"
        "        work = dist.isend(x, 1)\n        x.zero_()\n        work.wait()\n"
        "    else:\n        dist.recv(y, 0)\n    return y.item()\n"
    )
    assert outcome_of(box, body, 2).failure.kind == "overwritten"
    assert outcome_of(box, body.replace("zero_", "abs_"), 2).results[1] == 1.0


WRITES_EARLY = {
    "isend": "w = dist.isend(x, 1 - r); v = dist.irecv(y, 1 - r); {}; v.wait()",
    "all_reduce": "w = dist.all_reduce(x, async_op=True); {}",
    "reduce_scatter_tensor": "w = dist.reduce_scatter_tensor(y, x, async_op=True); {}",
    "all_gather": "w = dist.all_gather_into_tensor(z, x, async_op=True); {}",
    "polled": "w = dist.all_reduce(x, async_op=True); {}\n"
    "    while not w.is_completed(): pass",
    "nobody waits": "dist.isend(x, 1 - r); w = dist.irecv(y, 1 - r); {}; return",
    "caught": "w = dist.all_reduce(x, async_op=True); {}\n"
    "    try: w.wait()\n    except RuntimeError: return",
    "a thread waits": "w = dist.all_reduce(x, async_op=True); {}\n"
    "    t = threading.Thread(target=w.wait); t.start(); t.join()",
}


@pytest.mark.parametrize("how", WRITES_EARLY)
def test_a_tensor_that_is_being_sent_may_not_be_written_to(box: Box, how: str) -> None:
    """With a seed it fails, told with the line of the call, whoever is asked for it."""
    body = (
        "def f():\n    r, x, y = dist.get_rank(), torch.ones(2), torch.zeros(2)\n"
        f"    z = torch.zeros(4); y = y[: {1 if 'scatter' in how else 2}]\n"
        f"    {WRITES_EARLY[how]}\n    w.wait()\n"
    )
    wrong = body.replace("{}", "x.add_(1)")
    fine = body.replace("{}", "x.add_(0); x + 1")
    failure = outcome_of(box, wrong, 2, seed=3).failure
    assert failure is not None and failure.kind == "overwritten", failure
    assert "(cell 1:5)" in failure.text and failure.rank in (0, 1)
    assert outcome_of(box, fine, 2, seed=3).failure is None


FILLS_EARLY = {
    "irecv": "w = dist.irecv(y, 1 - r); {}; v = dist.isend(x, 1 - r); v.wait()",
    "all_gather": "w = dist.all_gather_into_tensor(z, x, async_op=True); {}",
    "all_to_all": "w = dist.all_to_all_single(y, x, async_op=True); {}",
    "one buffer for two": "w = dist.irecv(y, 1 - r); v = dist.irecv(y, 1 - r)\n"
    "    [dist.isend(x, 1 - r).wait() for _ in range(2)]; {}; v.wait()",
}


@pytest.mark.parametrize("how", FILLS_EARLY)
def test_where_something_is_received_may_not_be_written(box: Box, how: str) -> None:
    """Neither by the program nor by another receive; told with the line of the call."""
    body = (
        "def f():\n    r, x, y = dist.get_rank(), torch.ones(2), torch.zeros(2)\n"
        f"    z = torch.zeros(4)\n    {FILLS_EARLY[how]}\n    w.wait()\n"
    )
    alone = how == "one buffer for two"  # wrong by itself: the first fills it too early
    wrong = body.replace("{}", "pass" if alone else "y.add_(1); z.add_(1)")
    failure = outcome_of(box, wrong, 2, seed=3).failure
    assert (failure.kind, failure.type_name) == ("raised", "TensorInUse"), failure
    assert "being received" in failure.text and "(cell 1:5)" in failure.text
    assert outcome_of(box, wrong, 2).failure is None  # without a seed it is unseen
    if not alone:
        fine = body.replace("{}", "y.add_(0); z + 1")
        assert outcome_of(box, fine, 2, seed=3).failure is None


def test_a_seed_draws_from_what_is_there_and_not_from_when_it_came() -> None:
    """Ranks are heard in any order; what could meet next is listed in one."""
    listed = []
    for ranks in (range(4), (2, 0, 3, 1)):
        traffic = Traffic(4)
        for id, rank in enumerate(ranks):
            left, right = (rank - 1) % 4, (rank + 1) % 4
            traffic.post(Posted(rank, 2 * id, "recv", "0", 0.0, peer=left))
            traffic.post(Posted(rank, 2 * id + 1, "send", "0", 0.0, peer=right))
        meetings = traffic.candidates()
        listed.append([[op.rank for op in m.operations] for m in meetings])
    assert listed[0] == listed[1] == [[3, 0], [0, 1], [1, 2], [2, 3]]


def test_a_strict_call_is_strict_without_a_seed(box: Box) -> None:
    """For exercises that have no seeded cases; the next call of the ranks is not."""
    body = (
        "def f():\n    x, y = torch.ones(1), torch.zeros(1)\n"
        "    other = 1 - dist.get_rank()\n    w = dist.irecv(y, other)\n"
        "    y.add_(1)\n    dist.isend(x, other).wait()\n    w.wait()\n"
        "    return y.item()\n"
        "def g():\n    dist.barrier()\n    return 1\n"
    )
    program = Program.source([("cell 1", HEADER + body)])
    with box.ranks(2, program) as ranks:
        assert (
            ranks.call("g", [()] * 2, schedule=Schedule(strict=True)).results == [1] * 2
        )
        assert ranks.call("f", [()] * 2).results == [1.0] * 2
        failure = ranks.call("f", [()] * 2, schedule=Schedule(strict=True)).failure
    assert failure.type_name == "TensorInUse"


def test_a_tensor_may_be_sent_twice_at_once(box: Box) -> None:
    """It is only read; and written to again after the wait."""
    body = (
        "def f():\n    r, P = dist.get_rank(), dist.get_world_size()\n"
        "    x, y = torch.ones(2), torch.zeros(P, 2)\n    for _ in range(3):\n"
        "        w = [dist.isend(x, q) for q in range(P) if q != r]\n"
        "        v = [dist.irecv(y[q], q) for q in range(P) if q != r]\n"
        "        [i.wait() for i in v + w]\n        x += y.sum(0)\n    return x[0]\n"
    )
    for seed in (None, 1):
        assert outcome_of(box, body, 3, seed=seed).results == [27.0] * 3


def test_lines_are_the_students_in_every_wrapper_of_torchs(box: Box) -> None:
    """Some functions of torch's are wrapped by a library that lies beside it."""
    body = (
        "def f():\n    x, y = torch.ones(2), torch.zeros(2)\n"
        "    dist.reduce_scatter_tensor(y[:1], x)\n"
        "    dist.all_gather_into_tensor(y, x[:1])\n"
        "    with dist._coalescing_manager():\n        dist.all_reduce(x)\n"
    )
    places = {e.where for e in outcome_of(box, body, 2).trace.events}
    assert places and all(p.startswith("cell 1:") for p in places), places


def test_what_is_received_is_there_after_the_wait_only(box: Box) -> None:
    """A recv's buffer is not filled behind the back of a rank that has not waited."""
    body = (
        "def f():\n    x, y = torch.ones(1), torch.zeros(1)\n"
        "    if dist.get_rank() == 0:\n        dist.send(x, 1)\n        return 0\n"
        "    work = dist.irecv(y, 0)\n    time.sleep(0.05)\n"
        "    before = y.item()\n    work.wait()\n    return before, y.item()\n"
    )
    assert outcome_of(box, body, 2).results[1] == (0.0, 1.0)


# -- what the checker bears ------------------------------------------------------------


def end_of_a_call(message: Iterable[bytes], world_size: int = 2) -> Failure | None:
    """How a call ends in which rank 0 says this and the others say nothing."""
    pairs = [socket.socketpair() for _ in range(world_size)]
    outputs = [os.pipe() for _ in range(world_size)]
    at_switch, at_rank = zip(*pairs, strict=True)

    def talk() -> None:
        with contextlib.suppress(OSError):  # the switch has closed the wire
            for data in message:
                at_rank[0].sendall(data)

    wire = switch.Switch(
        at_switch, [reads for reads, _ in outputs], lambda silent: None
    )
    rank = threading.Thread(target=talk)
    rank.start()
    try:
        args, deadline = [()] * world_size, time.monotonic() + 30
        return wire.call("f", args, EVERY_VERB, Schedule(), deadline).failure
    finally:
        wire.close()
        for sock in at_rank:
            sock.close()
        for fd in sum(outputs, ()):
            os.close(fd)
        rank.join(10)


def group_of(members: Sequence[int], number: int) -> bytes:
    body = struct.pack(f"<{len(members)}q", *members)
    return frames.pack(Frame(Kind.GROUP, a=number, b=number, body=body))


def one_number(n: int) -> bytes:
    """Another group by the number of the one before."""
    body = struct.pack("<2q", 0, 1)
    return frames.pack(Frame(Kind.GROUP, a=5, b=n, body=body))


def collective_of(tensors: int, id: int, nbytes: int = 0) -> bytes:
    sides = struct.pack(f"<q{2 * tensors}qq", tensors, *[0, nbytes] * tensors, 0)
    verb = operations.VERBS.index("all_reduce")
    return frames.pack(Frame(Kind.COLLECTIVE, id, verb, body=sides))


FLOODS = {
    "members twice": (lambda n: group_of([0, 1] * 16_000, n), "protocol"),
    "more groups than anybody needs": (lambda n: group_of([0, 1], n), "protocol"),
    "groups of one number": (one_number, "protocol"),
    "sizes beyond all bounds": (lambda n: collective_of(1, n, 1 << 62), "protocol"),
    "half a number": (lambda n: collective_of(1, n, 3), "protocol"),
    "data that is to come later": (lambda n: collective_of(1, n, 4), "protocol"),
    "operations of many tensors": (lambda n: collective_of(16_000, n), "flood"),
    "many operations": (lambda n: collective_of(1, n), "flood"),
    "long lines": (
        lambda n: frames.pack(Frame(Kind.COMPUTE, where=f"{n} {'x' * 500}")),
        "flood",
    ),
}


@pytest.mark.parametrize("name", FLOODS)
def test_what_a_rank_makes_the_switch_remember_has_a_bound(name: str) -> None:
    """It is the rank's failure, long before it fills the memory of the checker."""
    message, kind = FLOODS[name]
    memory = Memory()
    failure = end_of_a_call(message(n) for n in range(1, 1 << 20))
    assert failure is not None and (failure.kind, failure.rank) == (kind, 0)
    assert memory.grown() < 256 << 20


def test_collectives_that_one_rank_never_completes_have_a_bound(box: Box) -> None:
    """What the others give is not kept beyond it."""
    body = (
        "def f():\n    x = torch.zeros(1 << 20)\n"
        "    works = [dist.all_reduce(x, async_op=True) for _ in range(60)]\n"
        "    while dist.get_rank() == 0: pass\n    works[-1].wait()\n"
    )
    program = Program.source([("cell 1", HEADER + body)])
    memory = Memory()
    with box.ranks(3, program, cpu_seconds=30, wall_seconds=60) as ranks:
        failure = ranks.call("f", [()] * 3).failure
    assert failure.kind == "flood" and "on the way" in failure.text
    assert memory.grown() < 512 << 20


def nested(item: bytes, count: int) -> bytes:
    """A list of lists that hold so many items."""
    inner = b"[" + struct.pack("<q", 4096) + item * 4096
    lists = count // 4096
    return b"[" + struct.pack("<q", lists) + inner * lists


EMPTY_TENSOR = b"t" + struct.pack("<qqq", 0, 1, 0)
TEXT = b"s" + struct.pack("<q", 256) + "\U0001f600".encode() * 64


@pytest.mark.parametrize(
    "item, few, many",
    [(b"N", 8, 32), (EMPTY_TENSOR, 1, 4), (TEXT, 1, 2)],
    ids=["None", "tensors", "texts"],
)
def test_a_value_of_a_stranger_has_a_bound_of_parts(
    item: bytes, few: int, many: int
) -> None:
    """A byte of it may cost a kilobyte, or four in a text."""
    assert decode(nested(item, few * 4096), MOST_PARTS)
    with pytest.raises(Malformed, match="parts"):
        decode(nested(item, many * 4096), MOST_PARTS)


def test_what_goes_to_all_ranks_has_a_bound(box: Box) -> None:
    """A result that each of 8 ranks is to get is not there eight times."""
    body = (
        "def f():\n    x = torch.zeros(7 << 20, dtype=torch.int8)\n"
        "    dist.all_gather_into_tensor(torch.zeros(8 * len(x), dtype=x.dtype), x)\n"
    )
    program = Program.source([("cell 1", HEADER + body)])
    memory = Memory()
    with box.ranks(8, program, cpu_seconds=30, wall_seconds=60) as ranks:
        failure = ranks.call("f", [()] * 8).failure
    assert failure.kind == "flood" and "than they read" in failure.text
    assert memory.grown() < 384 << 20


def test_a_question_now_and_then_is_no_wait(box: Box) -> None:
    """What has ended by the clock depends on the machine; a loop of questions waits."""
    body = (
        "def f():\n    r, y = dist.get_rank(), torch.zeros(1)\n"
        "    w = dist.isend(y + 1, 1) if r == 0 else dist.irecv(y, 0)\n"
        "    time.sleep(0.2)\n"
        "    early = [w.is_completed() for _ in range(3) if not time.sleep(0.01)]\n"
        "    while not w.is_completed(): pass\n    return *early, y.item()\n"
    )
    assert outcome_of(box, body, 2).results[1] == (False, False, False, 1.0)


def test_a_program_may_hold_much_for_every_rank(box: Box) -> None:
    """A solution in a notebook brings along what it refers to."""
    program = Program.objects({"f": bytes(10 << 20).__len__})
    with box.ranks(8, program, wall_seconds=60) as ranks:
        assert ranks.call("f", [()] * 8).results == [10 << 20] * 8


def test_a_rank_that_polls_goes_on(box: Box) -> None:
    """Asking again and again ends as waiting does, in a schedule of its own too."""
    body = (
        "def f():\n    r, P = dist.get_rank(), dist.get_world_size()\n"
        "    y = torch.zeros(1)\n    w = [dist.isend(torch.tensor([float(r)]), "
        "(r + 1) % P), dist.irecv(y, (r - 1) % P)]\n"
        "    while not all(v.is_completed() for v in w): pass\n    return y[0]\n"
    )
    for seed in (None, 1, 2):
        assert outcome_of(box, body, 3, seed=seed).results == [2, 0, 1]
    alone = body.replace("dist.irecv(y, (r - 1) % P)", "dist.irecv(y, r - 1, tag=r)")
    program = Program.source([("cell 1", HEADER + alone)])
    with box.ranks(2, program, cpu_seconds=0.3, wall_seconds=60) as ranks:
        assert ranks.call("f", [()] * 2).failure.kind in ("cpu", "raised")


@pytest.mark.parametrize("waits", ["w.wait()", "0"])
def test_a_trace_says_what_was_waited_for(box: Box, waits: str) -> None:
    """Also where it had ended by then."""
    body = (
        "def f():\n    r, y = dist.get_rank(), torch.zeros(1)\n"
        "    w = dist.isend(y, 1) if r == 0 else dist.irecv(y, 0)\n"
        "    dist.barrier()\n"
        f"    while not ({waits} or {waits == '0'}): pass\n"
    )
    events = outcome_of(box, body, 2).trace.events
    waited = [e.waited is not None for e in events if e.op in ("send", "recv")]
    assert waited == [waits != "0"] * 2


def test_messages_of_one_pair_and_tag_keep_their_order(box: Box) -> None:
    """No schedule lets a message overtake one of its source, destination and tag."""
    body = (
        "def f():\n    r = dist.get_rank()\n    x = torch.arange(8.0)\n"
        "    y = torch.zeros(8)\n"
        "    works = [dist.isend(x[i:i+1], 1) if r == 0 else dist.irecv(y[i:i+1], 0)\n"
        "             for i in range(8)]\n"
        "    [w.wait() for w in works]\n    return y.tolist()\n"
    )
    for seed in range(8):
        assert outcome_of(box, body, 2, seed=seed).results[1] == list(
            map(float, range(8))
        )


RACE = (
    "def f():\n    r, y = dist.get_rank(), torch.zeros(1)\n"
    "    if r:\n        dist.send(torch.tensor([float(r)]), 0)\n        return None\n"
    "    return [dist.recv(y) and y.item() or y.item() for _ in range(3)]\n"
)


def test_a_seed_makes_a_race_and_makes_it_again(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schedules differ in who comes first; the same one is the same each time."""
    monkeypatch.setattr(switch, "PATIENCE", 30.0)  # a rank may wait for a core
    first = {seed: outcome_of(box, RACE, 4, seed=seed).results[0] for seed in range(8)}
    again = {seed: outcome_of(box, RACE, 4, seed=seed).results[0] for seed in range(8)}
    assert first == again and len({tuple(order) for order in first.values()}) > 2


CLAIMS = "threading.active_count = lambda: 10**6\n"


def test_a_claim_of_threads_switches_no_schedule_off(box: Box) -> None:
    """Whoever says that some thread still runs waits longer, and is reordered."""
    seen = {
        tuple(outcome_of(box, CLAIMS + RACE, 4, seed=s).results[0]) for s in range(6)
    }
    assert len(seen) > 1


@pytest.mark.slow
def test_nobody_puts_messages_in_order_by_sleeping(box: Box) -> None:
    """A late schedule is more patient than ranks may be idle."""
    body = RACE.replace("    if r:\n", "    if r:\n        time.sleep(0.6 * r)\n")
    seen = {tuple(outcome_of(box, body, 4, seed=s).results[0]) for s in range(3)}
    assert len(seen) > 1


def test_threads_of_a_rank_share_its_wire(box: Box) -> None:
    """One thread waits in a recv while another sends."""
    body = (
        "def f():\n    r, P = dist.get_rank(), dist.get_world_size()\n"
        "    x, y = torch.tensor([float(r)]), torch.zeros(1)\n"
        "    t = threading.Thread(target=dist.recv, args=(y, (r - 1) % P))\n"
        "    t.start()\n    dist.send(x, (r + 1) % P)\n    t.join()\n    return y[0]"
    )
    for seed in (None, 1):
        assert outcome_of(box, body, 3, seed=seed).results == [2, 0, 1]


# -- arguments and results -------------------------------------------------------------


def test_a_view_comes_with_the_memory_around_it(box: Box) -> None:
    """A Strided argument is a view in the rank, and its whole storage comes back."""
    body = "def f(x):\n    x += 1\n    return tuple(x.stride())\n"
    given = Strided(torch.zeros(12), (3, 2), (4, 2), 1)
    got = outcome_of(box, body, 1, (given,))
    assert got.results == [(4, 2)] and got.after[0][0].sum() == 6
    assert given.storage.sum() == 0


def test_a_value_is_read_without_a_call(box: Box) -> None:
    """None for arguments asks for a constant of the program."""
    program = Program.source([("cell 1", "answer = {'a': 1.5}")])
    with box.ranks(1, program) as ranks:
        assert ranks.call("answer", [None]).results == [{"a": 1.5}]


def test_objects_of_a_kernel_run_in_the_box(box: Box) -> None:
    """A function, with what it refers to, is pickled by value, modules of ours too."""
    factor = 3

    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * factor + len(VERBS)

    with box.ranks(2, Program.objects({"f": scale})) as ranks:
        got = ranks.call("f", [(torch.ones(1),)] * 2).results
    assert [x.item() for x in got] == [3.0 + len(VERBS)] * 2


def test_modules_that_were_pickled_by_value_still_are() -> None:
    """What the reader has registered stays so after a program was made."""
    module = sys.modules[__name__]
    assert any(module is own for own in programs._own_modules())
    cloudpickle.register_pickle_by_value(module)
    Program.objects({"f": test_modules_that_were_pickled_by_value_still_are})
    assert __name__ in cloudpickle.list_registry_pickle_by_value()
    cloudpickle.unregister_pickle_by_value(module)
    Program.objects({"f": test_modules_that_were_pickled_by_value_still_are})
    assert __name__ not in cloudpickle.list_registry_pickle_by_value()


def test_what_ranks_print_is_kept_in_part(box: Box) -> None:
    """The beginning of it: megabytes of output take no memory of ours."""
    body = "def f():\n    print('begin')\n    print('x' * 3_000_000)\n"
    printed = outcome_of(box, body, 2).printed
    assert "begin" in printed and len(printed) < 10_000


# -- failures --------------------------------------------------------------------------

FAILURES = {
    "raised": (
        "def f():\n    if dist.get_rank() == 1:\n        1 / 0\n    dist.barrier()\n",
        2,
    ),
    "died": ("def f():\n    os._exit(3)\n", 2),
    "deadlock": ("def f():\n    if dist.get_rank():\n        dist.barrier()\n", 3),
    "mismatch": (
        "def f():\n    x = torch.ones(2 + dist.get_rank())\n    dist.all_reduce(x)\n",
        2,
    ),
    "unmatched": ("def f():\n    dist.isend(torch.ones(1), 1 - dist.get_rank())\n", 2),
    "late": (
        "def f():\n    main = threading.main_thread().ident\n"
        "    def calls(frame):\n"
        "        return calls(frame.f_back) + [frame.f_code.co_name] if frame else []\n"
        "    def goes_on():\n"
        "        while '_guarded' in calls(sys._current_frames()[main]):\n"
        "            time.sleep(0.01)\n"  # until its rank has told of the return
        "        dist.barrier()\n"
        "    if dist.get_rank():\n        time.sleep(9)\n"
        "    threading.Thread(target=goes_on).start()\n",
        2,
    ),
    "cpu": ("def f():\n    while True: pass\n", 1),
    "idle": ("def f():\n    time.sleep(60)\n", 1),
    "flood": (
        "def f():\n    x = torch.ones(1)\n"
        "    while True: dist.isend(x, 1 - dist.get_rank())\n",
        2,
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.slow
def test_a_failure_is_reported_and_the_next_run_is_well(box: Box, kind: str) -> None:
    """Each way to fail has its name, and leaves the box as it was."""
    body, world_size = FAILURES[kind]
    failure = outcome_of(box, body, world_size).failure
    assert failure is not None and failure.kind == kind, failure
    assert outcome_of(box, RING, 3).failure is None


@pytest.mark.parametrize("late", [0, 1])
def test_data_of_a_rank_that_died_is_not_waited_for(
    box: Box, late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it had died when its send met the recv, or dies while it is asked."""
    body = (
        "def f():\n    r, x = dist.get_rank(), torch.zeros(1)\n"
        "    if r == 0:\n        dist.isend(x, 1)\n"
        f"        time.sleep({0.1 * late})\n        os._exit(3)\n"
        f"    time.sleep({0.1 * (1 - late)})\n    dist.recv(x, 0)\n"
    )
    watch, ended = box.watch, []

    def noted(silent: float) -> None:
        try:
            watch(silent)
        except Broken as error:
            ended.append(error.failure.kind)
            raise

    monkeypatch.setattr(box, "watch", noted)
    failure = outcome_of(box, body, 2).failure
    assert (failure.kind, failure.rank) == ("died", 0) and "code 3" in failure.text
    assert ended == [], "it was waited for until all were idle"


def test_a_thread_that_goes_on_is_no_forger(box: Box) -> None:
    """It is told by what it does, with the student's line."""
    failure = outcome_of(box, *FAILURES["late"]).failure
    assert "rank 0: a thread still communicates after the function" in failure.text
    assert "(cell 1:9)" in failure.text


def test_the_rank_that_raised_is_reported_with_its_lines(box: Box) -> None:
    """Not those that waited for it in vain."""
    failure = outcome_of(box, *FAILURES["raised"]).failure
    assert (failure.rank, failure.type_name) == (1, "ZeroDivisionError")
    assert failure.places[-1][:2] == ("cell 1", 4)


@pytest.mark.parametrize(
    "body, message",
    [
        ("dist.all_reduce(x) if r else dist.broadcast(x, 0)", "calls all_reduce"),
        ("dist.broadcast(x, r)", "with root 1"),
        (
            "dist.all_reduce(x, [dist.ReduceOp.SUM, dist.ReduceOp.MAX][r])",
            "with reduce_op",
        ),
        ("dist.all_reduce(x if r else x.double())", "one dtype"),
        ("dist.all_reduce(x[: 1 + r])", "need 4"),
        ("dist.send(x, 1) if r == 0 else dist.recv(torch.ones(3), 0)", "receives 3 of"),
        ("dist.all_reduce(x.int(), dist.ReduceOp.AVG)", "AVG"),
        ("dist.all_to_all_single(x, x, [r, 2 - r], [1, 1])", "takes 0 bytes of rank 0"),
    ],
)
def test_calls_that_do_not_fit_are_reported(box: Box, body: str, message: str) -> None:
    """With both ranks and what each of them did."""
    source = f"def f():\n    r, x = dist.get_rank(), torch.ones(2)\n    {body}\n"
    failure = outcome_of(box, source, 2).failure
    assert failure.kind == "mismatch" and message in failure.text, failure.text


def test_a_verb_that_is_not_allowed_is_refused(box: Box) -> None:
    """However it is called, and also where the error is caught."""
    body = (
        "add = dist.all_reduce\n"
        "def f():\n    try:\n        add(torch.ones(1))\n    except RuntimeError:\n"
        "        return 'caught'\n"
    )
    program = Program.source([("cell 1", HEADER + body)])
    with box.ranks(2, program) as ranks:
        outcome = ranks.call("f", [()] * 2, allowed=lab.wire.POINT_TO_POINT)
    assert outcome.failure.kind == "refused" and "cell 1:5" in outcome.failure.where
    assert outcome.results == ["caught"] * 2 and len(outcome.trace) == 0


GARBAGE = """
import gc, socket, struct, random
def wires():
    return [o for o in gc.get_objects() if isinstance(o, socket.socket)]
def f():
    drawn = random.Random({seed})
    for s in wires():
        s.sendall(bytes(drawn.randrange(256) for _ in range(200)))
    return 1
"""


@pytest.mark.parametrize("seed", range(4))
def test_garbage_on_the_wire_fails_that_rank_only(box: Box, seed: int) -> None:
    """The switch reads hostile bytes, says so, and goes on with the next program."""
    failure = outcome_of(box, GARBAGE.replace("{seed}", str(seed)), 2).failure
    assert failure.kind == "protocol"
    assert outcome_of(box, RING, 2).failure is None


@pytest.mark.parametrize(
    "body", ["b''", "b'(' + bytes(8)", "encode((1, ()))", "encode(3)"]
)
def test_a_forged_return_fails_that_rank_only(box: Box, body: str) -> None:
    """One that is no value, or lacks the arguments that every judge will look at."""
    source = (
        "import gc\n"
        "def f(x):\n"
        "    wire = next(o for o in gc.get_objects() if type(o).__name__ == 'Wire')\n"
        "    globals().update(type(wire).send_frame.__globals__)\n"
        "    import sys; main = sys._getframe(2).f_globals; encode = main['encode']\n"
        f"    wire.send_frame(Kind.RETURNED, body={body})\n    time.sleep(9)\n"
    )
    failure = outcome_of(box, source, 1, (torch.ones(2),)).failure
    assert failure.kind == "protocol" and "none of ours" in failure.text, failure


def test_the_program_cannot_load_what_solves(box: Box) -> None:
    """`import collectives_lab` works; what solves says why it does not."""
    for name in ("algorithms", "plans", "parallel"):
        for line in (
            f"from collectives_lab import {name}",
            f"import collectives_lab.{name}.rings",
            f"import collectives_lab as lab; lab.{name}",
        ):
            failure = outcome_of(box, f"{line}\ndef f(): pass\n", 1).failure
            assert (
                failure.type_name == "ImportError"
                and "holds what is asked" in failure.text
            )
    body = (
        "import collectives_lab as lab\n"
        "def f(): return lab.basics.units.format_bytes(2048), hasattr(lab, 'run')\n"
    )
    assert outcome_of(box, body, 1).results == [("2 KiB", False)]


def test_a_cluster_of_ones_own_is_there_as_in_the_notebook(box: Box) -> None:
    """A cell that asks for its constants gets them in the box, and nothing else."""
    source = (
        "import collectives_lab as lab\n"
        "cluster = lab.checking.constants('ann')\n"
        "def f(): return cluster['alpha']\n"
    )
    assert outcome_of(box, source, 1).results == [constants("ann")["alpha"]]
    for line in ("lab.check('f', f)", "lab.checking.grade", "lab.checking.EXERCISES"):
        failure = outcome_of(box, f"{source}{line}\n", 1).failure
        assert failure.type_name == "ImportError", failure


@pytest.mark.skipif(
    torch.__version__ < "2.7", reason="torch 2.6 writes a file when it imports them"
)
def test_functional_collectives_and_optimizers_are_there(box: Box) -> None:
    """What imports torch's compiler finds no folder to write to, and needs none."""
    source = (
        "import torch\nimport torch.distributed._functional_collectives as fc\n"
        "def f(x):\n"
        "    torch.optim.SGD([torch.nn.Parameter(x)], lr=0.1)\n"
        "    return fc.all_reduce(x, 'sum', [0, 1]).wait().tolist()\n"
    )
    assert outcome_of(box, source, 2, (torch.ones(2),)).results == [[2.0, 2.0]] * 2


HEAVY = {
    "optim": "def f(x):\n    from torch.optim import SGD\n"
    "    SGD([torch.nn.Parameter(x)], lr=0.1)\n",
    "functional": "import torch.distributed._functional_collectives as fc\n"
    "def f(x):\n    fc.all_reduce(x, 'sum', dist.group.WORLD).wait()\n",
    "compiler": "@torch.compiler.disable\ndef f(x):\n    pass\n",
}


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="as above")
@pytest.mark.parametrize("how", HEAVY)
def test_what_torch_imports_late_is_imported_once_for_all_ranks(
    box: Box, how: str
) -> None:
    """Before they are forked: eight ranks would spend more than they all may have."""
    loaded = (
        "\ndef loaded():\n    import sys\n    return 'torch._dynamo' in sys.modules\n"
    )
    program = Program.source([("cell 1", HEADER + HEAVY[how] + loaded)])
    with box.ranks(8, program) as ranks:
        assert ranks.call("loaded", [()] * 8).results == [True] * 8
        assert ranks.call("f", [(torch.ones(2),)] * 8).failure is None


def test_only_what_a_program_speaks_of_is_imported(box: Box) -> None:
    """In texts and in pickles; a word within another one, or of its own, is none."""

    def uses_it(x):
        torch.optim.SGD([x])

    def says_it(optimal):
        return optimal

    assert Program.objects({"f": uses_it}).words == ["optim"]
    assert Program.objects({"f": says_it}).words == []
    assert Program.source([("a", "import os.optimize, re; re.compile('')")]).words == []
    assert "antigravity" not in sys.modules
    preload(["antigravity", "os; import antigravity"])
    assert "antigravity" not in sys.modules


# -- the box ---------------------------------------------------------------------------


def test_a_rank_holds_only_its_own_descriptors(box: Box) -> None:
    """Standard input, output and errors, and the wire: nothing of the server's."""
    body = """
def f():
    held = []
    for fd in range(1000):
        try:
            os.fstat(fd)
            held.append(fd)
        except OSError:
            pass
    return held
"""
    one, other = outcome_of(box, body, 2).results
    assert one[:3] == other[:3] == [0, 1, 2] and len(one) == len(other) == 4


def test_nothing_is_left_of_a_box() -> None:
    """Its processes end with it, ranks in a loop too, and no descriptor stays open."""
    before, others = set(os.listdir("/proc/self/fd")), psutil.Process().children()
    with Box("C") as box:
        outcome_of(box, FAILURES["deadlock"][0], 2)
        servers = [p for p in psutil.Process().children() if p not in others]
        assert servers
    assert not any(server.is_running() for server in servers)
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.slow
def test_a_server_that_was_killed_is_replaced() -> None:
    """The next ranks come from a new one."""
    with Box("C") as box:
        assert outcome_of(box, RING, 2).failure is None
        box._started.process.kill()
        box._started.process.wait(10)
        assert outcome_of(box, RING, 2).failure is None


def test_an_unknown_tier_says_which_there_are() -> None:
    """Before anything is started."""
    with pytest.raises(ValueError, match="A, B, C, U, D"):
        Box("E")


def test_a_rank_alone_says_which_statement_it_came_to(box: Box) -> None:
    """It tries a notebook; more ranks run what was tried, and say nothing of it."""
    program = Program.notebook([("cell 1", "x = 1\ny = 2")])
    for world_size, at in (1, ("cell 1", 1)), (2, None):
        with box.ranks(world_size, program) as ranks:
            assert (
                ranks.at == at and ranks.call("y", [None] * world_size).failure is None
            )


def test_ranks_find_numpys_random_numbers_loaded(box: Box) -> None:
    """A notebook's ranks seed them; numpy would load them in each rank anew."""
    program = Program.source(
        [("cell 1", "import sys\nearly = 'numpy.random' in sys.modules")]
    )
    with box.ranks(2, program) as ranks:
        assert ranks.call("early", [None, None]).results == [True, True]

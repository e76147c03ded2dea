"""The trace: counts are the table of conventions, messages match, files come back."""

import json
import pickle
import random
import time
import tracemalloc
import zipfile
from collections import Counter
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from collectives_lab.trace import Event, Message, Trace, bound, table
from collectives_lab.trace.columns import FORMAT
from collectives_lab.trace.rounds import round_of

S = 4 * 3 * 5 * 7 * 8
"""A size that 2, 3, 4, 5, 7 and 8 ranks divide, so that every share is whole."""

SIZES = (2, 3, 4, 5, 7, 8)

TOTAL = {
    "broadcast": lambda p: (p - 1) * S,
    "scatter": lambda p: (p - 1) * S / p,
    "gather": lambda p: (p - 1) * S / p,
    "all_gather": lambda p: (p - 1) * S,
    "reduce": lambda p: (p - 1) * S,
    "reduce_scatter": lambda p: (p - 1) * S,
    "all_reduce": lambda p: 2 * (p - 1) * S,
    "all_to_all": lambda p: (p - 1) * S,
}
"""BOOK.md's table, its column "lower bound on the wire, all ranks"."""

ROOTED = {"broadcast", "scatter", "gather", "reduce"}


def shares(op, p, root=0, count=bound):
    """What each of p ranks sends and receives for one collective."""
    root = root if op in ROOTED else None
    pairs = [count(op, S, rank, root, range(p)) for rank in range(p)]
    return [sent for sent, _ in pairs], [received for _, received in pairs]


def holds_the_table(count):
    """Whether a way of counting agrees with the table for every verb and world size."""
    return all(
        sum(sent) == TOTAL[op](p) == sum(received)
        for op in TOTAL
        for p in SIZES
        for root in range(p)
        for sent, received in [shares(op, p, root, count)]
    )


def chunks_both_ways(op, nbytes, rank, root, ranks):
    """A wrong count: every verb as if each rank sent what it must only receive."""
    sent, received = bound(op, nbytes, rank, root, ranks)
    return sent + received, sent + received


def shard_as_size(op, nbytes, rank, root, ranks):
    """A wrong count: S taken for the bytes of one shard."""
    return bound(op, nbytes * len(ranks), rank, root, ranks)


def test_totals_are_those_of_the_table():
    """All ranks together send, and receive, the lower bound of the book's table."""
    assert holds_the_table(bound)


@pytest.mark.parametrize("wrong", [chunks_both_ways, shard_as_size])
def test_a_wrong_count_does_not_hold_the_table(wrong):
    """The table tells a wrong convention from the right one."""
    assert not holds_the_table(wrong)


@pytest.mark.parametrize("p", SIZES)
def test_the_busiest_rank_is_that_of_the_table(p):
    """No rank needs to send more than the table's last bound, and one does send it."""
    part = (p - 1) * S / p
    most = {op: max(shares(op, p, root=p - 1)[0]) for op in TOTAL}
    assert most["all_reduce"] == 2 * part
    assert most["all_gather"] == most["reduce_scatter"] == most["all_to_all"] == part
    assert shares("broadcast", p, root=1)[0][1] == S
    assert shares("scatter", p, root=1)[0][1] == part
    assert shares("gather", p, root=1)[1][1] == part
    assert shares("reduce", p, root=1)[1][1] == S


def test_the_root_of_a_reduce_sends_nothing_and_of_a_broadcast_gets_nothing():
    """A root is a source or a sink and not both."""
    for root in range(4):
        assert shares("broadcast", 4, root)[1][root] == 0
        assert shares("scatter", 4, root)[1][root] == 0
        assert shares("reduce", 4, root)[0][root] == 0
        assert shares("gather", 4, root)[0][root] == 0


@pytest.mark.parametrize("op", [*TOTAL, "barrier", "no_such_verb"])
def test_a_single_rank_and_a_barrier_move_nothing(op):
    """Nothing is on the wire when nobody else is there, or when nothing is said."""
    assert bound(op, S, 0, 0, [0]) == (0, 0)
    if op not in TOTAL:
        assert bound(op, S, 0, None, range(4)) == (0, 0)


# -- a trace and its columns -------------------------------------------------------


def collective(op, p, nbytes=S, **more):
    return [Event(rank, op, nbytes, **more) for rank in range(p)]


def mixed():
    """Every kind of field: messages, a root, a subgroup, uneven parts, times, text."""
    return [
        *collective("all_reduce", 4, 64, dtype="float32", reduce_op="SUM"),
        Event(0, "send", 12, peer=2, tag=7, variant="isend", where="/a/b.py:3"),
        Event(2, "recv", 12, peer=0, tag=7, issued=0.5, waited=0.75, completed=1.0),
        *(Event(r, "broadcast", 8, root=3, group="1") for r in (1, 3)),
        Event(0, "all_to_all", 40, sent=24, received=8),
        Event(1, "all_to_all", 40, sent=8, received=24, thread=1),
        Event(3, "recv", 4),
    ]


def built(events=None, **more):
    more = {"groups": {"1": (1, 3)}, "meta": {"chapter": 3}} | more
    return Trace.from_events(mixed() if events is None else events, 4, **more)


def test_events_come_back_as_they_were_given():
    """No field is lost: what goes into the columns comes out, None for None."""
    given = sorted(mixed(), key=lambda event: event.rank)
    assert list(built().events) == given
    assert built().of_rank(2) == [e for e in given if e.rank == 2]
    assert len(built()) == len(given)


def test_ranks_may_come_interleaved_in_any_way():
    """A trace holds each rank's events in order, whichever way the ranks were mixed."""
    events = [Event(r, "send", n, peer=(r + 1) % 4) for r in range(4) for n in range(9)]
    queues = [[e for e in events if e.rank == r] for r in range(4)]
    rng, shuffled = random.Random(1), []
    while any(queues):
        shuffled.append(rng.choice([q for q in queues if q]).pop(0))
    assert shuffled != events
    assert list(built(shuffled).events) == events
    assert built(shuffled) == built(events)
    wrong = [events[1], events[0], *events[2:]]
    assert built(wrong) != built(events)


def test_a_missing_column_holds_the_default():
    """Columns may be left out, as a planned trace does."""
    columns = {"rank": np.array([1, 0]), "op": np.array([1, 1])}
    trace = Trace(2, columns, ["", "barrier"])
    assert list(trace.events) == [Event(0, "barrier"), Event(1, "barrier")]


def test_what_ranks_recorded_becomes_one_trace():
    """Texts may have other numbers in each; a time that is not known stays so."""
    given = sorted(mixed(), key=lambda event: event.rank)
    by_rank = [[e for e in given if e.rank == rank] for rank in range(4)]
    tables = [table.of(events) for events in (*by_rank, [])]
    assert len({tuple(t.texts) for t in tables}) > 2
    joined = table.concatenate(tables)
    assert list(Trace(4, *joined).events) == given
    later = table.moved(joined, lambda times: times + 5.0)
    moved = [
        replace(e, issued=5.5, waited=5.75, completed=6.0) for e in by_rank[2][1:2]
    ]
    assert list(Trace(4, *later).events) == [
        moved[0] if event == by_rank[2][1] else event for event in given
    ]
    assert list(Trace(4, *table.concatenate([])).events) == []


def test_a_table_arrives_as_it_was_sent():
    """With the kinds of its columns, whatever they are, and however they lie."""
    recorded = table.of(mixed())
    every_second = {name: c[::2] for name, c in recorded.columns.items()}
    narrow = {name: recorded.columns[name].astype(np.int8) for name in table.TEXT}
    for sent in (
        recorded,
        table.of([]),
        recorded._replace(columns=every_second),
        recorded._replace(columns=recorded.columns | narrow),
    ):
        columns, texts = pickle.loads(pickle.dumps(sent))
        assert texts == sent.texts and list(columns) == list(sent.columns)
        for name, column in columns.items():
            assert column.dtype == sent.columns[name].dtype
            np.testing.assert_array_equal(column, sent.columns[name])


def test_an_empty_trace_counts_nothing():
    """No events are a trace too."""
    trace = Trace.from_events([], 3)
    assert trace.bytes_sent() == trace.bytes_received() == [0, 0, 0]
    assert (len(trace), trace.messages, trace.ops()) == (0, [], {})
    assert repr(trace) == "Trace(world_size=3: no calls)"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Event(4, "barrier"), "rank 4 of 4; need 0 <= rank < world_size"),
        (Event(-1, "barrier"), "rank -1 of 4"),
        (Event(0, "send", 4, peer=4), "peer 4 of 4"),
        (Event(0, "broadcast", 4, root=9), "root 9 of 4"),
    ],
)
def test_ranks_outside_of_the_world_are_refused(event, said):
    """A rank that does not exist is named with the rule it breaks."""
    with pytest.raises(ValueError, match=said):
        built([event])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"rank": [0, 1], "nbytes": [1]}, "'nbytes' has 1 rows, rank has 2"),
        ({"rank": [0], "op": [5]}, "'op' points outside of 2 texts"),
        ({"rank": [0], "where": [-1]}, "'where' points outside"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, said):
    """Columns of different lengths and texts that are not there raise."""
    with pytest.raises(ValueError, match=said):
        Trace(2, {name: np.array(c) for name, c in columns.items()})


# -- counting ----------------------------------------------------------------------


@pytest.mark.parametrize("op", TOTAL)
@pytest.mark.parametrize("p", [1, *SIZES])
def test_bytes_of_a_collective_are_its_bound(op, p):
    """A trace of one collective counts what `bound` says, as whole numbers."""
    root = p - 1 if op in ROOTED else None
    trace = Trace.from_events(collective(op, p, root=root), p)
    assert trace.bytes_sent() == shares(op, p, root)[0]
    assert trace.bytes_received() == shares(op, p, root)[1]
    assert all(isinstance(n, int) for n in trace.bytes_sent())


def test_a_subgroup_counts_its_own_ranks():
    """The bound of a group of three has P = 3, and the fourth rank moves nothing."""
    events = [Event(r, "all_reduce", 12, group="5") for r in (0, 2, 3)]
    trace = Trace.from_events(events, 4, {"5": (0, 2, 3)})
    assert trace.bytes_sent() == [16, 0, 16, 16]
    assert Trace.from_events(events, 4).bytes_sent() != trace.bytes_sent()


def test_the_chain_of_a_broadcast_goes_along_the_group():
    """The rank before the root in its group passes nothing on."""
    events = [Event(r, "broadcast", 12, root=2, group="5") for r in (0, 2, 3)]
    trace = Trace.from_events(events, 4, {"5": (0, 2, 3)})
    assert trace.bytes_sent() == [0, 0, 12, 12]
    assert trace.bytes_received() == [12, 0, 0, 12]


def test_uneven_parts_count_as_they_are():
    """What an event says it sent is taken before the bound of its verb."""
    rows = [[0, 4, 8], [12, 0, 0], [4, 4, 0]]
    events = [
        Event(
            r,
            "all_to_all",
            sum(rows[r]),
            sent=sum(rows[r]),
            received=sum(row[r] for row in rows),
        )
        for r in range(3)
    ]
    trace = Trace.from_events(events, 3)
    assert trace.bytes_sent() == [12, 12, 8]
    assert trace.bytes_received() == [16, 8, 8]
    unsaid = [replace(e, sent=None, received=None) for e in events]
    assert Trace.from_events(unsaid, 3).bytes_sent() != trace.bytes_sent()


def test_fractions_of_a_byte_are_kept():
    """A bound that is no whole number is not rounded away."""
    assert (
        Trace.from_events(collective("all_gather", 3, 4), 3).bytes_sent()
        == [pytest.approx(8 / 3)] * 3
    )


def ring(p, nbytes=S):
    """The ring all-reduce: 2(P-1) steps of a chunk to the right, from the left."""
    events = []
    for rank in range(p):
        for _ in range(2 * (p - 1)):
            events.append(Event(rank, "send", nbytes // p, peer=(rank + 1) % p))
            events.append(Event(rank, "recv", nbytes // p, peer=(rank - 1) % p))
    return events


@pytest.mark.parametrize("p", SIZES)
def test_a_ring_of_messages_reaches_the_bound_of_its_verb(p):
    """Payloads and bounds are the same unit: a ring sends exactly what it must."""
    trace = Trace.from_events(ring(p), p)
    verb = Trace.from_events(collective("all_reduce", p), p)
    assert trace.bytes_sent() == trace.bytes_received() == verb.bytes_sent()
    naive = [replace(e, nbytes=S) for e in ring(p)]
    assert Trace.from_events(naive, p).bytes_sent() != verb.bytes_sent()


def test_bytes_by_pair_says_who_sent_to_whom():
    """The matrix holds the sends, row to column, and no collective."""
    trace = built([*ring(4), *collective("all_reduce", 4)])
    step = 6 * S // 4
    assert trace.bytes_by_pair() == [
        [0, step, 0, 0],
        [0, 0, step, 0],
        [0, 0, 0, step],
        [step, 0, 0, 0],
    ]


def test_wire_bytes_are_the_rows_of_the_wire():
    """What the library sent is kept beside what the calls say, not mixed with it."""
    trace = built(wire=np.array([[0, 1, 2, 3], [0] * 4, [4, 0, 0, 0], [0] * 4]))
    assert trace.wire_bytes() == [6, 0, 4, 0]
    assert trace.bytes_sent() == built().bytes_sent()
    assert built().wire_bytes() is None


def test_verbs_are_counted_over_all_ranks():
    """A trace says how many calls of each verb it holds."""
    verbs = {"all_reduce": 4, "all_to_all": 2, "broadcast": 2, "recv": 2, "send": 1}
    assert built().ops() == verbs
    assert repr(built()).startswith("Trace(world_size=4: 4 all_reduce, 2 all_to_all")


def test_a_large_trace_is_counted_in_its_own_memory():
    """200,000 messages are counted and matched in seconds, some hundred bytes each."""
    n, p = 200_000, 64
    src = np.arange(n) % p
    send = {"rank": src, "peer": (src + 1) % p, "op": np.full(n, 1)}
    recv = {"rank": (src + 1) % p, "peer": src, "op": np.full(n, 2)}
    columns = {k: np.concatenate([send[k], recv[k]]) for k in send}
    columns["nbytes"] = np.full(2 * n, 8)
    begun = time.process_time()
    tracemalloc.start()
    trace = Trace(p, columns, ["", "send", "recv"])
    assert sum(trace.bytes_sent()) == sum(trace.bytes_received()) == 8 * n
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * n * 300
    assert len(trace.pairs()[0]) == n
    assert time.process_time() - begun < 15


# -- messages ----------------------------------------------------------------------


def test_messages_match_in_order_by_tag_and_group():
    """The n-th send meets the n-th recv of its pair, tag and group."""
    events = [
        Event(0, "send", 1, peer=1, tag=5),
        Event(0, "send", 2, peer=1),
        Event(0, "send", 3, peer=1, tag=5),
        Event(0, "send", 4, peer=1, group="1"),
        Event(0, "send", 5, peer=2),
        Event(2, "recv", 5, peer=0),
        Event(1, "recv", 4, peer=0, group="1"),
        Event(1, "recv", 2, peer=0),
        Event(1, "recv", 1, peer=0, tag=5),
        Event(1, "recv", 3, peer=0, tag=5),
    ]
    messages = built(events, groups={"1": (0, 1)}).messages
    assert [m.send.nbytes for m in messages] == [1, 2, 3, 4, 5]
    assert all(m.send.nbytes == m.recv.nbytes for m in messages)
    assert isinstance(messages[0], Message)


def test_what_nobody_took_is_no_message():
    """A send without a recv, a recv without a send or a source are left out."""
    events = [
        Event(0, "send", 1, peer=1),
        Event(0, "send", 2, peer=1),
        Event(1, "recv", 1, peer=0),
        Event(2, "recv", 4, peer=3),
        Event(3, "recv", 4),
    ]
    assert [m.send.nbytes for m in built(events).messages] == [1]


def test_random_traffic_is_matched_completely():
    """Every message of a random program is found again, by a match of its own."""
    rng = random.Random(2)
    programs = {rank: [] for rank in range(4)}
    for number in range(500):
        src, dst = rng.sample(range(4), 2)
        tag = rng.randrange(3)
        programs[src].append(Event(src, "send", number, peer=dst, tag=tag))
        programs[dst].append(Event(dst, "recv", number, peer=src, tag=tag))
    trace = built([e for events in programs.values() for e in events])
    assert sorted(m.send.nbytes for m in trace.messages) == list(range(500))
    assert all(m.send.nbytes == m.recv.nbytes for m in trace.messages)


# -- equality ----------------------------------------------------------------------


def test_times_and_lines_do_not_count_in_equality():
    """Two runs of the same program are equal though no clock reads the same."""
    changed = [
        replace(e, issued=9.0, waited=9.5, completed=10.0, where="x:1", variant="v")
        for e in mixed()
    ]
    assert built(changed) == built()
    assert built(changed, meta={"other": 1}, wire=np.ones((4, 4))) == built()


@pytest.mark.parametrize(
    "change",
    [
        {"nbytes": 13},
        {"peer": 1},
        {"tag": 8},
        {"op": "recv"},
        {"group": "1"},
        {"dtype": "int8"},
        {"sent": 11},
    ],
)
def test_what_moves_counts_in_equality(change):
    """A changed call, or a changed count of bytes, is another trace."""
    events = mixed()
    events[4] = replace(events[4], **change)
    assert built(events) != built()


def test_a_bound_said_and_a_bound_left_to_the_verb_are_the_same():
    """A plan that leaves the count to the verb equals a run that wrote it down."""
    said = [replace(e, sent=9.0, received=9.0) for e in collective("all_to_all", 4, 12)]
    assert built(said) == built(collective("all_to_all", 4, 12))


def test_a_trace_equals_no_other_thing():
    """Comparison with something else is no error, and hashing is refused."""
    assert built() != 1
    assert built() != Trace.from_events(mixed()[4:6], 4)
    with pytest.raises(TypeError):
        hash(built())


# -- files -------------------------------------------------------------------------


def test_a_saved_trace_comes_back(tmp_path):
    """Events, groups, the wire and the meta data survive a file, times to the bit."""
    wire = np.arange(16).reshape(4, 4)
    trace = built(wire=wire)
    path = trace.save(tmp_path / "run.v1")
    assert path == tmp_path / "run.v1.npz"
    back = Trace.load(path)
    assert list(back.events) == list(trace.events)
    assert back == trace
    assert (back.world_size, back.groups, back.meta) == (
        4,
        trace.groups,
        {"chapter": 3},
    )
    assert (back.wire == wire).all()
    assert back.save(tmp_path / "again.npz") == tmp_path / "again.npz"


SCRIPT = "/tmp/some/where/deep/rec/s.py"


@pytest.mark.parametrize(
    "how, told",
    [
        ("KeyboardInterrupt: ", "ended by KeyboardInterrupt"),
        ("SystemExit: 0", "left by sys.exit(0)"),
        ("SystemExit: ", "left by sys.exit(0)"),
        ("SystemExit: 3", "ended by SystemExit: 3"),
        ("ValueError: first\nsecond", "ended by ValueError: first"),
        (
            f"SIGTERM in all_reduce(1000 float32, SUM), {SCRIPT}:12",
            "ended by SIGTERM in all_reduce(1000 float32, SUM), s.py:12",
        ),
        (
            f"RuntimeError: [{SCRIPT}:544] closed by [127.0.0.1]:7",
            "ended by RuntimeError: [s.py:544] closed by [127.0.0.1]:7",
        ),
        (
            f"SIGTERM in {'a' * 200}, {SCRIPT}:12",
            f"ended by SIGTERM in {'a' * 49}...{'a' * 51}, s.py:12",
        ),
    ],
)
def test_how_a_rank_ended_is_told_in_brief(how, told):
    """What it was and its line are there, however long; a good end is none by error."""
    assert f"; rank 1 {told})" in repr(built(meta={"ended": {"1": how}}))


def test_a_saved_trace_without_a_wire_has_none(tmp_path):
    """What was not measured is not zero."""
    assert Trace.load(built().save(tmp_path / "t")).wire is None


def truncated(path, data):
    path.write_bytes(data[: len(data) // 2])


def corrupted(path, data):
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes(200) + data[middle + 200 :])


def other_npz(path, _):
    np.savez(path, a=np.arange(3))


def other_head(path, _):
    np.savez(path, head=np.array(json.dumps(["no", "trace"])))


def plain_zip(path, _):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "no array")


def plain_array(path, _):
    with path.open("wb") as file:
        np.save(file, np.arange(3))


@pytest.mark.parametrize(
    "spoil",
    [
        truncated,
        corrupted,
        other_npz,
        other_head,
        plain_zip,
        plain_array,
        lambda path, _: path.write_bytes(b""),
        lambda path, _: path.write_text("rank,op,nbytes"),
        lambda path, data: path.write_bytes(data[:10]),
    ],
)
def test_a_file_that_is_no_trace_is_refused_by_name(tmp_path, spoil):
    """Any other file raises ValueError with its path, and nothing of pickle or zip."""
    path = built(ring(4)).save(tmp_path / "bad.npz")
    spoil(path, path.read_bytes())
    with pytest.raises(ValueError, match=r"bad\.npz is no "):
        Trace.load(path)


def of_format(path, name):
    """Give a saved trace another format; nothing else of it changes."""
    with np.load(path) as data:
        arrays = dict(data)
    head = json.loads(arrays["head"].item()) | {"format": name}
    np.savez(path, **arrays | {"head": np.array(json.dumps(head))})


def test_a_trace_of_another_version_is_refused_with_both_numbers(tmp_path):
    """The reader learns which format the file has, and which one this version reads."""
    path = built(ring(4)).save(tmp_path / "new.npz")
    of_format(path, FORMAT)
    assert Trace.load(path) == built(ring(4))
    of_format(path, "collectives_lab trace 99")
    found, known = "format is 'collectives_lab trace 99'", f"reads '{FORMAT}'"
    with pytest.raises(ValueError, match=rf"new\.npz .*{found}, .*{known}"):
        Trace.load(path)


# -- version 0.1 -------------------------------------------------------------------

VERSION_0_1 = Path(__file__).parents[1] / "version_0_1"
"""What version 0.1 wrote, and in values.json what it read in it.

A run of four ranks with a group of two, a plan, and the two parts of a recording under
torchrun.
"""


def values(trace):
    """What version 0.1 wrote down of each trace."""
    return {
        "world_size": trace.world_size,
        "groups": {name: list(ranks) for name, ranks in trace.groups.items()},
        "events": [asdict(event) for event in trace.events],
        "bytes_sent": trace.bytes_sent(),
        "bytes_by_pair": trace.bytes_by_pair(),
        "wire_bytes": trace.wire_bytes(),
        "messages": len(trace.messages),
        "meta": trace.meta,
    }


@pytest.mark.parametrize("name", ["run.npz", "plan.npz", "parts"])
def test_a_trace_of_version_0_1_says_what_it_said(name):
    """Every call, with its times and line, every byte and group is as it was."""
    known = json.loads((VERSION_0_1 / "values.json").read_text())
    then, now = known[name.removesuffix(".npz")], values(Trace.load(VERSION_0_1 / name))
    events = zip(now["events"], then["events"], strict=True)
    assert [event | old for event, old in events] == now["events"]
    assert {**now, "events": None} == {**then, "events": None}


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    """No file is not a bad file."""
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "none.npz")


def test_ranks_beyond_the_world_in_a_file_are_refused(tmp_path):
    """A file that contradicts itself does not become a trace."""
    trace = built()
    trace.columns["peer"][:] = 77
    with pytest.raises(ValueError, match="peer 77 of 4"):
        Trace.load(trace.save(tmp_path / "bad.npz"))


# -- Chrome's format ---------------------------------------------------------------


def timed(rank, op, issued, completed, waited=None, **more):
    return Event(rank, op, 8, issued=issued, waited=waited, completed=completed, **more)


def overlapping():
    """An isend and an irecv that overlap in part, on each of two ranks."""
    events = []
    for rank in range(2):
        peer = 1 - rank
        events += [
            timed(rank, "send", 0.0, 5e-6, 4e-6, peer=peer, variant="isend"),
            timed(rank, "recv", 1e-6, 8e-6, 6e-6, peer=peer, variant="irecv"),
            timed(rank, "recv", 2e-6, 3e-6, 2e-6, peer=peer, tag=1),
            timed(rank, "all_reduce", 9e-6, 12e-6, 9e-6),
            timed(rank, "send", 13e-6, None, 13e-6, peer=peer),
        ]
    return built(events)


def slices(rows):
    """By row of the display, the (begin, end) of its slices in order."""
    lanes = {}
    for row in rows:
        if row["ph"] == "X":
            span = (row["ts"], row["ts"] + row["dur"])
            lanes.setdefault((row["pid"], row["tid"]), []).append(span)
    return [sorted(spans, key=lambda s: (s[0], -s[1])) for spans in lanes.values()]


def nest(spans):
    """Whether slices of one row lie inside or beside each other, as Perfetto asks."""
    open_ends = []
    for begin, end in spans:
        while open_ends and open_ends[-1] <= begin + 1e-6:
            open_ends.pop()
        if open_ends and end > open_ends[-1] + 1e-6:
            return False
        open_ends.append(end)
    return True


def test_the_chrome_file_is_json_in_microseconds(tmp_path):
    """Every rank is a named process, and the file says microseconds."""
    path = overlapping().save_chrome(tmp_path / "trace.json")
    rows = json.loads(path.read_text())["traceEvents"]
    named = {r["pid"]: r["args"]["name"] for r in rows if r["name"] == "process_name"}
    assert named == {rank: f"rank {rank}" for rank in range(4)}
    (call,) = [r for r in rows if r["name"] == "all_reduce" and r["pid"] == 1]
    assert (call["ts"], call["dur"]) == (pytest.approx(9), pytest.approx(3))
    assert call["args"]["nbytes"] == 8
    assert all(r["dur"] >= 0 for r in rows if r["ph"] == "X")


def test_arrows_of_the_chrome_file_pair_up():
    """Each message is one arrow: a start on the sender, an end on the receiver."""
    rows = overlapping().chrome()["traceEvents"]
    starts = {r["id"]: r for r in rows if r["ph"] == "s"}
    ends = {r["id"]: r for r in rows if r["ph"] == "f"}
    arrows = [r for r in rows if r["ph"] in "sf"]
    assert starts.keys() == ends.keys() and len(starts) == 2
    assert set(Counter(r["id"] for r in arrows).values()) == {2}
    for number, start in starts.items():
        assert start["pid"] == 1 - ends[number]["pid"]
        assert start["name"] == ends[number]["name"]
        assert ends[number]["bp"] == "e"
    spans = {(r["pid"], r["tid"], r["ts"]) for r in rows if r["ph"] == "X"}
    assert {(r["pid"], r["tid"], r["ts"]) for r in starts.values()} <= spans


def test_slices_of_a_row_nest():
    """Calls that overlap in part have rows of their own; Perfetto drops them else."""
    rows = overlapping().chrome()["traceEvents"]
    assert all(map(nest, slices(rows)))
    one_row = [r | {"tid": 0} for r in rows]
    assert not all(map(nest, slices(one_row)))


def test_random_calls_nest_too():
    """Whatever was under way at once, no slice is lost."""
    rng, events = random.Random(3), []
    for rank in range(4):
        begins = sorted(rng.sample(range(1000), 60))
        for begin in begins:
            waited = begin + rng.randrange(50)
            end = waited + rng.randrange(50)
            times = (t * 1e-6 for t in (begin, end, waited))
            events.append(timed(rank, "send", *times, peer=(rank + 1) % 4))
    trace = built(events)
    rows = trace.chrome()["traceEvents"]
    assert sum(r["ph"] == "X" for r in rows) == 2 * len(trace)
    assert all(map(nest, slices(rows)))
    for spans in slices(rows):
        assert all(a[0] <= b[0] for a, b in pairwise(spans))


def test_a_call_that_had_ended_before_its_wait_has_no_blocked_slice():
    """No slice of a negative length, which Perfetto would refuse."""
    event = Event(0, "all_reduce", 8, issued=1.0, waited=3.0, completed=2.0)
    rows = Trace.from_events([event], 1).chrome()["traceEvents"]
    assert [r["name"] for r in rows if r["ph"] == "X"] == ["all_reduce"]


def test_events_without_times_are_left_out_of_the_chrome_file():
    """A plan has no times, and its file has only the names of the ranks."""
    rows = built(ring(4)).chrome()["traceEvents"]
    assert {row["ph"] for row in rows} == {"M"}


def test_moves_are_what_a_rank_sends_and_receives() -> None:
    """In the order of the calls of each kind, whichever kind came first."""
    ahead = [
        Event(0, "recv", 4, peer=1),
        Event(0, "send", 8, peer=1),
        Event(0, "recv", 2, peer=1),
        Event(1, "all_reduce", 16),
    ]
    trace = Trace.from_events(ahead, 2)
    assert trace.moves() == [([(1, 8)], [(1, 4), (1, 2)]), ([], [])]
    other = Trace.from_events([*ahead[1:3][::-1], *ahead[::3]], 2)
    assert trace.moves() != other.moves()


def test_what_no_trace_can_hold_is_refused() -> None:
    """No ranks, and fewer bytes than none."""
    with pytest.raises(ValueError, match="world_size is 0; need at least 1"):
        Trace.from_events([], 0)
    with pytest.raises(ValueError, match="nbytes is -10; need 0 or more"):
        Trace.from_events([Event(0, "send", -10, peer=1)], 2)


def rounds_of_two_ranks():
    """Return two rounds of a barrier and a send; rank 1 begins the last one later."""
    ends = [(1.0, 5.0), (1.0, 5.5)]
    events = [
        event
        for rank, (one, two) in enumerate(ends)
        for at, nbytes in ((one, 8), (two, 16))
        for event in (
            Event(rank, "barrier", issued=at - 0.5, waited=at - 0.5, completed=at),
            Event(rank, "recv" if rank else "send", nbytes, peer=1 - rank,
                  issued=at + 1, waited=at + 2, completed=at + 3),
        )
    ]  # fmt: skip
    return Trace.from_events(events, 2)


def test_a_round_begins_at_zero():
    """Its calls stay, in pairs, and what ranks computed stands among them."""
    trace = round_of(rounds_of_two_ranks(), 1, [[(0.0, 2.0)], [(0.25, 1.25)]])
    zero, one = trace.of_rank(0), trace.of_rank(1)
    assert [e.op for e in zero] == ["compute", "send"]
    assert [(e.issued, e.completed) for e in zero] == [(0, 2), (1, 3)]
    assert [(e.issued, e.completed) for e in one] == [(0.75, 1.75), (1.5, 3.5)]
    assert zero[1].nbytes == 16 and zero[1].waited == 2 and len(trace.messages) == 1
    earlier = round_of(rounds_of_two_ranks(), 0)
    assert earlier.ops() == {"send": 1, "recv": 1}
    assert [(e.nbytes, e.issued) for e in earlier.of_rank(0)] == [(8, 1)]


def test_a_round_needs_its_barrier_on_every_rank():
    """A trace without one has no such round, and spans are those of all ranks."""
    with pytest.raises(ValueError, match=r"rank 0 has 1 calls with 0 barriers"):
        round_of(Trace.from_events([Event(0, "send", 8, peer=1, issued=0.0)], 2), 0)
    with pytest.raises(ValueError, match="and no barrier 2"):
        round_of(rounds_of_two_ranks(), 2)
    with pytest.raises(ValueError, match="spans of 1 ranks for a trace of 2"):
        round_of(rounds_of_two_ranks(), 1, [[]])

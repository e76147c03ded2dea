"""Chakra traces: a Trace becomes one file a rank and comes back as it was."""

import builtins
import json
from pathlib import Path

import pytest

from collectives_lab import fabrics, formats, plans
from collectives_lab.formats import chakra_schema
from collectives_lab.formats.chakra_files import read_file, write_file
from collectives_lab.trace import Event, Trace

FABRIC = fabrics.uniform(4, 1e-6, 1e-9)


def recorded() -> Trace:
    """Two ranks of four that compute, reduce in a group, send, and overlap."""
    events = []
    for rank in range(4):
        times = {"issued": 0.5 + rank, "waited": 0.5 + rank, "completed": 4.0}
        events.append(Event(rank, "all_reduce", 4096, dtype="float32", **times))
        if rank in (0, 2):
            times = {"issued": 5.0, "waited": 7.0, "completed": 8.0}
            events.append(
                Event(rank, "broadcast", 64, root=2, group="a", where="x.py:3", **times)
            )
        if rank < 2:
            op, peer = ("send", 1) if rank == 0 else ("recv", 0)
            times = {"issued": 9.0, "waited": 9.0, "completed": 9.5}
            events.append(Event(rank, op, 8, peer=peer, tag=7, **times))
        events.append(Event(rank, "compute", seconds=0.25, issued=10.0))
        times = {"issued": 11.0, "waited": 11.0, "completed": 12.0}
        events.append(Event(rank, "all_gather", 400, **times))
    return Trace.from_events(events, 4, {"a": (0, 2)}, meta={"note": "a run"})


@pytest.mark.parametrize(
    "trace",
    [
        recorded(),
        plans.ring_all_reduce(4, 4096),
        plans.double_tree_all_reduce(4, 4096, 4, 256),
        plans.direct_all_to_all(4, 64),
    ],
    ids=["recorded", "ring", "double tree", "all at once"],
)
def test_a_trace_comes_back_as_it_was(trace: Trace, tmp_path: Path) -> None:
    """Calls, times, lines, groups and what is kept with the trace; and its replay."""
    paths = formats.write_chakra(trace, tmp_path, "job")
    assert [path.name for path in paths] == [f"job.{rank}.et" for rank in range(4)]
    read = formats.read_chakra(tmp_path)
    assert read == trace and list(read.events) == list(trace.events)
    assert (read.groups, read.meta) == (trace.groups, trace.meta)
    assert read.replay(FABRIC, 1).elapsed == trace.replay(FABRIC, 1).elapsed
    assert formats.read_chakra(paths[2]) == trace


def nodes(path: Path) -> list:
    return read_file(path)[1]


def values(node) -> dict:
    return {a.name: getattr(a, a.WhichOneof("value")) for a in node.attr}


def test_the_nodes_say_what_astra_sim_reads(tmp_path: Path) -> None:
    """Types, sizes in its convention, ends, groups by number, computing between."""
    path, *_ = formats.write_chakra(recorded(), tmp_path)
    kinds = [(node.name, node.type, node.duration_micros) for node in nodes(path)]
    assert kinds == [
        ("all_reduce", 7, 3_500_000),
        ("between calls", 4, 1_000_000),
        ("broadcast", 7, 3_000_000),
        ("between calls", 4, 2_000_000),
        ("between calls", 4, 1_000_000),
        ("send", 5, 500_000),
        ("between calls", 4, 500_000),
        ("compute", 4, 250_000),
        ("between calls", 4, 750_000),
        ("all_gather", 7, 1_000_000),
    ]
    by_name = {node.name: values(node) for node in nodes(path)}
    assert by_name["all_gather"]["comm_size"] == 100  # what one rank has
    assert by_name["send"]["comm_dst"] == 1 and by_name["send"]["comm_tag"] == 7
    assert by_name["broadcast"]["pg_name"] == "1"
    assert json.loads((tmp_path / "trace.groups.json").read_text()) == {"1": [0, 2]}


def test_a_node_depends_on_what_was_waited_for(tmp_path: Path) -> None:
    """What runs beside an asynchronous call does not depend on it."""
    path, *_ = formats.write_chakra(recorded(), tmp_path)
    reduce, gap, broadcast, beside, later, *_ = nodes(path)
    assert list(gap.data_deps) == [reduce.id]
    assert list(broadcast.data_deps) == list(beside.data_deps) == [gap.id]
    assert set(later.data_deps) == {broadcast.id, beside.id}


def foreign(tmp_path: Path, ranks: int = 2, **change: object) -> Path:
    """Files as others write them: a reduce, computing beside it, then a message."""
    made = chakra_schema.messages()
    for rank in range(ranks):
        head = made.GlobalMetadata(version="0.0.4")
        reduce = made.Node(id=0, name="r", type=7)
        reduce.attr.add(name="comm_type").int64_val = int(change.get("comm_type", 0))
        reduce.attr.add(name="comm_size").int64_val = int(change.get("size", 1000))
        compute = made.Node(id=1, name="c", type=4, duration_micros=3)
        message = made.Node(id=2, name="m", type=6 if rank else 5)
        message.data_deps.extend([0, 1, *change.get("deps", ())])
        message.attr.add(name="comm_size").int64_val = 16
        message.attr.add(name="comm_src").int32_val = 0
        message.attr.add(name="comm_dst").int32_val = 1
        if "group" in change:
            reduce.attr.add(name="pg_name").string_val = str(change["group"])
        if "no_size" in change:
            del message.attr[0]
        if "twice" in change:
            compute.id = 0
        every = [compute, message, reduce]
        write_file(tmp_path / f"job.{rank}.et", head, every)
    return tmp_path


def test_a_foreign_trace_becomes_calls_that_overlap(tmp_path: Path) -> None:
    """The order follows the dependences, a wait comes where it is needed."""
    trace = formats.read_chakra(foreign(tmp_path))
    assert trace.ops() == {"all_reduce": 2, "compute": 2, "recv": 1, "send": 1}
    assert [e.op for e in trace.of_rank(0)] == ["all_reduce", "compute", "send"]
    assert trace.bytes_by_pair() == [[0, 16], [0, 0]]
    fabric = fabrics.uniform(2, 1e-6, 0.0)
    assert trace.replay(fabric).elapsed == pytest.approx(3e-6 + 1e-6)
    formats.write_chakra(trace, tmp_path / "again")
    assert formats.read_chakra(tmp_path / "again") == trace


def test_an_all_gathers_size_is_what_one_rank_has(tmp_path: Path) -> None:
    """ASTRA-sim's comm_size of an all_gather times the ranks is S."""
    trace = formats.read_chakra(foreign(tmp_path, comm_type=2))
    assert next(trace.events).op == "all_gather"
    assert next(trace.events).nbytes == 2000


def test_groups_of_a_foreign_trace_stand_beside_it(tmp_path: Path) -> None:
    """Without their ranks a call in a group is refused."""
    foreign(tmp_path, group=5)
    with pytest.raises(ValueError, match="group '5', whose ranks are not known"):
        formats.read_chakra(tmp_path)
    (tmp_path / "job.groups.json").write_text('{"5": [0, 1]}')
    assert next(formats.read_chakra(tmp_path).events).group == "5"
    (tmp_path / "job.groups.json").write_text('{"5": [0, 9]}')
    with pytest.raises(ValueError, match="need ranks of the trace"):
        formats.read_chakra(tmp_path)


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"deps": [9]}, "node 2 depends on node 9, which is not there"),
        ({"deps": [2]}, "nodes .2. depend on each other in a circle"),
        ({"comm_type": 77}, "node 0 has comm_type 77; need 0 to 9"),
        ({"size": -1}, "node 0 .'r'. has comm_size -1; need a whole number"),
        ({"no_size": True}, "node 2 .'m'. has comm_size None"),
        ({"twice": True}, "two nodes have one id"),
    ],
)
def test_nodes_that_make_no_trace_are_refused(
    change: dict, complaint: str, tmp_path: Path
) -> None:
    """The error names the file and the node."""
    with pytest.raises(ValueError, match=complaint):
        formats.read_chakra(foreign(tmp_path, **change))


@pytest.mark.parametrize(
    "data, complaint",
    [
        (b"", "is empty; need GlobalMetadata"),
        (b"\x0a", "byte 0: a message of 10 bytes, of which 0"),
        (b"\xff" * 20, "byte 0: no length of a message"),
        (b"\x80", "byte 0: the file is cut off in a length"),
        (b"\xff\xff\xff\xff\x7f", "bytes, of which 0 are there"),
        (b"\x02\xff\xff", "byte 0: no GlobalMetadata"),
        (b"\x00", "does not begin with Chakra's metadata"),
    ],
)
def test_a_broken_file_is_refused(data: bytes, complaint: str, tmp_path: Path) -> None:
    """Empty, cut off, foreign, or with a length that no memory holds."""
    (tmp_path / "job.0.et").write_bytes(data)
    with pytest.raises(ValueError, match=complaint):
        formats.read_chakra(tmp_path)


def test_a_cut_off_file_names_the_byte(tmp_path: Path) -> None:
    """Every prefix of a file is refused or has whole messages only."""
    path, *_ = formats.write_chakra(recorded(), tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(ValueError, match=r"trace.0.et, byte \d+: a message of"):
        formats.read_chakra(tmp_path)


def test_ranks_and_traces_are_told_apart(tmp_path: Path) -> None:
    """A rank that is missing, two traces in a folder, and no trace at all."""
    with pytest.raises(ValueError, match=r"holds no file NAME\.RANK\.et"):
        formats.read_chakra(tmp_path)
    with pytest.raises(ValueError, match=r"is no file NAME\.RANK\.et"):
        formats.read_chakra(tmp_path / "job.0.et")
    paths = formats.write_chakra(recorded(), tmp_path, "job")
    formats.write_chakra(recorded(), tmp_path, "two")
    with pytest.raises(ValueError, match="traces job, two; need those of one"):
        formats.read_chakra(tmp_path)
    paths[1].unlink()
    with pytest.raises(ValueError, match="lacks the file of rank 1"):
        formats.read_chakra(paths[0])


def test_without_protobuf_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library is an extra, and no other format asks for it."""
    real = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("google"):
            raise ImportError("No module named 'google'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    chakra_schema.messages.cache_clear()
    with pytest.raises(ImportError, match=r"`pip install protobuf`.*\[chakra\]"):
        formats.write_chakra(recorded(), tmp_path)
    assert formats.msccl_of("ring_all_reduce", 2).chunks == 2

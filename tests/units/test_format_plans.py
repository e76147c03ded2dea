"""Plans of MSCCL and MSCCL++: read, proved or refuted, counted, replayed, written."""

import json
import re
from pathlib import Path

import pytest

from collectives_lab import fabrics, formats, plans
from collectives_lab.basics.verbs import verb_of

MAKERS = {"xml": formats.msccl_of, "json": formats.mscclpp_of}
PLANS = [
    *("ring_all_reduce", "tree_all_reduce", "double_tree_all_reduce"),
    *("halving_doubling_all_reduce", "hierarchical_all_reduce", "bruck_all_gather"),
    *("recursive_doubling_all_gather", "recursive_halving_reduce_scatter"),
    *("ring_reduce_scatter", "scatter_all_gather_broadcast", "binomial_reduce"),
]


def read(tmp_path: Path, text: str, name: str = "plan") -> formats.Program:
    path = tmp_path / name
    path.write_text(text)
    return formats.read_plan(path)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_of_ours_is_proved_and_moves_the_same_bytes(
    name: str, kind: str, tmp_path: Path
) -> None:
    """Written, read and written again it is the same, right, and counts the same."""
    program = MAKERS[kind](name, 4)
    again = formats.read_plan(program.save(tmp_path / f"plan.{kind}"))
    assert again == program and again.blocks == program.blocks
    assert formats.prove(again).holds
    plan = getattr(plans, name)(4, 4096, 4)
    assert formats.trace_of(again, 4096, 4).bytes_by_pair() == plan.bytes_by_pair()


@pytest.mark.parametrize("kind", MAKERS)
def test_a_ring_is_the_planned_trace_and_takes_its_time(kind: str) -> None:
    """Not only the bytes: the calls, their order and the replayed seconds."""
    program = MAKERS[kind]("ring_all_reduce", 8)
    trace, plan = formats.trace_of(program, 2**20), plans.ring_all_reduce(8, 2**20)
    assert trace == plan
    fabric = fabrics.dgx_h100()
    assert trace.replay(fabric).elapsed == plan.replay(fabric).elapsed


RING = formats.msccl_of("ring_all_reduce", 4).text


def ring(step: str, to: str) -> str:
    """The ring of 4 ranks with a change to the first line with that step."""
    assert step in RING
    return RING.replace(step, to, 1)


FIRST = '<step s="1" type="rrc" srcbuf="i" srcoff="2" dstbuf="i" dstoff="2" cnt="1"'


@pytest.mark.parametrize(
    "text, sentences",
    [
        (
            ring(FIRST, FIRST.replace("rrc", "r")),
            ["rank 3: output chunk 2 (input chunk 2) lacks chunk 2 of rank 0"],
        ),
        (
            ring(FIRST, FIRST.replace('srcoff="2"', 'srcoff="1"')),
            ["lacks chunk 2 of rank 0 and has chunk 1 of rank 0, which is of no use"],
        ),
        (
            ring('type="s" srcbuf="i" srcoff="3"', 'type="s" srcbuf="i" srcoff="0"'),
            ["has chunk 0 of rank 0, which is of no use there"],
        ),
        (
            ring('type="s"', 'type="nop"'),
            [
                "can never go on",
                "waits in recv from rank 0",
                "Every send needs one recv",
            ],
        ),
        (
            ring('cnt="1"', 'cnt="2"').replace('srcoff="3"', 'srcoff="2"', 1),
            ["receives 2 chunks from rank 0 and has room for 1"],
        ),
    ],
    ids=["adds nothing", "adds another chunk", "sends another", "sends none", "two"],
)
def test_a_wrong_plan_is_refuted_with_what_is_missing_where(
    text: str, sentences: list[str], tmp_path: Path
) -> None:
    """A dropped or changed step is named by rank, buffer, chunk, and what it lacks."""
    proof = formats.prove(read(tmp_path, text))
    assert not proof
    for sentence in sentences:
        assert sentence in str(proof)


def test_what_is_added_twice_is_counted(tmp_path: Path) -> None:
    """A sum that has one rank twice is no sum."""
    text = """<algo name="twice" ngpus="2" coll="allreduce" inplace="1" nchannels="1"
      nchunksperloop="1">
    <gpu id="0" i_chunks="1" o_chunks="0" s_chunks="0"><tb id="0" send="1" recv="1"
      chan="0"><step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0"
      cnt="1"/>
      <step s="1" type="rrc" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1"/></tb>
      </gpu>
    <gpu id="1" i_chunks="1" o_chunks="0" s_chunks="0"><tb id="0" send="0" recv="0"
      chan="0"><step s="0" type="rrc" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0"
      cnt="1"/><step s="1" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0"
      cnt="1"/></tb></gpu></algo>"""
    (problem,) = formats.prove(read(tmp_path, text)).problems
    assert problem == (
        "rank 0: output chunk 0 (input chunk 0) has chunk 0 of rank 0 2 times"
    )
    assert formats.prove(read(tmp_path, text.replace("rrc", "r", 1)))


def test_a_missing_dependence_is_a_race_though_one_run_is_right(tmp_path: Path) -> None:
    """Two thread blocks that nothing orders make luck of the result."""
    text = formats.msccl_of("tree_all_reduce", 4).text
    assert "nop" in text or 'depid="0"' in text
    bare = re.sub(r'depid="\d+" deps="\d+"', 'depid="-1" deps="-1"', text)
    proof = formats.prove(read(tmp_path, bare))
    assert not proof
    assert "nothing puts that before or after" in proof.problems[0]
    assert "a race" in proof.problems[0]


def test_a_dependence_on_a_step_that_tells_nobody_waits_for_ever(
    tmp_path: Path,
) -> None:
    """MSCCL sets its flag at steps with hasdep="1" only."""
    text = formats.msccl_of("tree_all_reduce", 4).text
    mute = text.replace('hasdep="1"', 'hasdep="0"')
    proof = formats.prove(read(tmp_path, mute))
    assert "waits for a step of thread block" in str(proof)
    assert "never comes" in str(proof)
    with pytest.raises(ValueError, match="the plan waits for ever"):
        formats.trace_of(read(tmp_path, mute), 64)


def test_every_one_who_receives_first_is_a_circle(tmp_path: Path) -> None:
    """The words are those of a deadlock between ranks, with the file and the block."""
    text = RING.replace('type="s"', 'type="S"').replace('type="rrc"', 'type="s"')
    program = read(tmp_path, text.replace('type="S"', 'type="rrc"'))
    proof = str(formats.prove(program))
    assert "ranks 0-3 can never go on: 0 -> 3 -> 2 -> 1 -> 0 wait in a circle" in proof
    assert "Every one receives first: let one side send before it receives." in proof
    assert "plan: thread block 0" in proof


# -- MSCCL++ ---------------------------------------------------------------------------

JSON = formats.mscclpp_of("ring_all_reduce", 4).text


def changed(name: str, change: dict | None) -> str:
    """The ring with rank 0's first operation of that name changed or left out."""
    document = json.loads(JSON)
    ops = document["gpus"][0]["threadblocks"][0]["ops"]
    number = next(n for n, op in enumerate(ops) if op["name"] == name)
    ops[number : number + 1] = [ops[number] | change] if change else []
    return json.dumps(document)


@pytest.mark.parametrize(
    "name, change, sentence",
    [
        ("signal", None, "rank 1 waits in recv from rank 0"),
        ("wait", None, "a race"),
        ("signal", {"name": "rlxsignal"}, "a race"),
        ("put", None, "reads scratch chunk 0 of rank 1, into which nothing has been"),
        ("re", {"name": "nop"}, "lacks chunk 2 of rank 3"),
    ],
)
def test_a_wrong_plan_of_mscclpp_is_refuted(
    name: str, change: dict | None, sentence: str, tmp_path: Path
) -> None:
    """A signal, wait, put or sum that is missing, and a signal that orders nothing."""
    proof = formats.prove(read(tmp_path, changed(name, change)))
    assert not proof
    assert sentence in str(proof)


def packets(ops: list[dict], verb: str = "allreduce", scratch: int = 2) -> str:
    """Two ranks that each have one thread block with these operations."""
    gpus = [
        {
            "id": rank,
            "input_chunks": 2,
            "output_chunks": 2,
            "scratch_chunks": scratch,
            "threadblocks": [
                {
                    "id": 0,
                    "ops": ops,
                    "channels": [{"channel_type": "switch", "channel_ids": [0]}],
                    "remote_buffer_refs": [
                        {"access_channel_type": "memory", "remote_buffer_ids": [0]}
                    ],
                }
            ],
            "channels": [
                {
                    "channel_type": "switch",
                    "buffer_type": "i",
                    "rank_groups": [{"size": 2, "ranks": [0, 1]}],
                }
            ],
            "remote_buffers": [
                {"rank": 1 - rank, "type": "s", "access_channel_types": ["memory"]}
            ],
        }
        for rank in range(2)
    ]
    head = {"name": "p", "collective": verb, "inplace": True, "protocol": "LL"}
    return json.dumps(head | {"gpus": gpus})


def chunk(**place: object) -> dict:
    return {"index": 0, "size": 2, **place}


PUT = {
    "name": "ppkt",
    "channel_type": "memory",
    "src_buff": [chunk(type="i")],
    "dst_buff": [chunk(buffer_id=0)],
}
ADD = {
    "name": "repkt",
    "src_buff": [chunk(type="i"), chunk(type="s")],
    "dst_buff": [chunk(type="i")],
}


def test_packets_need_no_signal_and_one_that_never_comes_is_named(
    tmp_path: Path,
) -> None:
    """Who reads a packet waits for its flag."""
    assert formats.prove(read(tmp_path, packets([PUT, ADD])))
    proof = str(formats.prove(read(tmp_path, packets([ADD]))))
    assert "waits for a packet in scratch chunk 0 of rank 0, which nobody" in proof
    parts = [{"tb_id": n, "tbg_size": 2} for n in range(2)]
    halves = [op | {"tbg_info": part} for op in (PUT, ADD) for part in parts]
    assert formats.prove(read(tmp_path, packets(halves)))
    assert not formats.prove(read(tmp_path, packets(halves[:3])))


def test_a_switch_adds_and_copies_but_is_no_message(tmp_path: Path) -> None:
    """A proof plays it, and a Trace, which has messages between two ranks, refuses."""
    copy = {
        "name": "gstore",
        "channel_type": "switch",
        "src_buff": [chunk(type="i")],
        "dst_buff": [chunk(switch_channel_id=0)],
    }
    program = read(tmp_path, packets([copy]))
    assert "lacks" in str(formats.prove(program)) or "race" in str(
        formats.prove(program)
    )
    with pytest.raises(ValueError, match="a switch adds and copies in p"):
        formats.trace_of(program, 64)


# -- files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "is empty; need 1 to"),
        ("<algo", "line 1: .*; need whole XML"),
        (RING[:900], "need whole XML"),
        ("<system/>", "begins with <system>; need <algo>"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><algo/>', "line 1: a document type .DTD."),
        ("<algo>" * 300, "elements 200 deep"),
        (RING.replace('ngpus="4"', 'ngpus="5"'), "ngpus is 5"),
        (RING.replace('cnt="1"', 'cnt="9999999999"', 1), "of the input, which has 4"),
        (RING.replace('i_chunks="4"', 'i_chunks="9999999"', 1), "need 1 to 65536"),
        (RING.replace('type="s"', 'type="x"', 1), "line 4 <step>: type is 'x'; need"),
        (RING.replace('send="1"', 'send="7"', 1), "send=7; need 0 <= send < ngpus"),
        (RING.replace('srcbuf="i"', 'srcbuf="q"', 1), "srcbuf is 'q'; need i, o or s"),
        (RING.replace(' s="0"', "", 1), "line 4 <step> has no s; need one"),
        ("{", "is no whole JSON"),
        ("[" * 100_000, "lists too deep|no whole JSON"),
        ("[]", "the file is .*; need an object"),
        ("{}", "the file has no 'gpus'; need one"),
        (JSON.replace('"put"', '"pot"', 1), r"ops\[0\].name is 'pot'; need one of"),
        (JSON.replace('"index": 3', '"index": 9', 1), "chunks 9 to 9 of the input"),
        (JSON.replace('"id": 0', '"id": 3', 1), "id is 3; need 0"),
        (changed("put", {"dst_buff": [chunk(buffer_id=7)]}), "buffer_id is 7; the"),
        (changed("signal", {"channel_ids": [9]}), "channel_ids.0. is 9; the thread"),
    ],
)
def test_a_broken_or_hostile_file_is_refused(
    text: str, complaint: str, tmp_path: Path
) -> None:
    """The error names the file, the line or place, and the rule."""
    with pytest.raises(ValueError, match=complaint) as error:
        read(tmp_path, text)
    assert "plan" in str(error.value)


@pytest.mark.parametrize(
    "call, complaint",
    [
        (lambda: formats.msccl_of("spiral_all_reduce", 4), "is no plan to write; need"),
        (lambda: formats.msccl_of("pairwise_all_to_all", 4), "is no plan to write"),
        (lambda: formats.msccl_of("ring_all_reduce", 1), "need at least 2 ranks"),
        (lambda: formats.msccl_of("whole_ring_all_reduce", 4), "not right in place"),
        (
            lambda: formats.trace_of(formats.msccl_of("ring_all_reduce", 4), 6),
            "6 bytes are 6 elements for 4 chunks",
        ),
    ],
)
def test_what_cannot_be_written_or_counted_is_refused(call, complaint: str) -> None:
    """A name, a verb, a number of ranks or bytes that these formats do not have."""
    with pytest.raises(ValueError, match=complaint):
        call()


def test_a_verb_of_its_own_has_no_rule_but_can_be_counted(tmp_path: Path) -> None:
    """The program of a custom collective is read and counted, and not proved."""
    program = read(tmp_path, RING.replace("allreduce", "custom"))
    with pytest.raises(ValueError, match="a verb of its own, for which there is no"):
        formats.prove(program)
    trace = formats.trace_of(program, 4096)
    plan = plans.ring_all_reduce(4, 4096)
    assert trace.bytes_by_pair() == plan.bytes_by_pair()


def test_the_plans_here_have_every_verb_that_can_be_written() -> None:
    """The battery above leaves no verb out."""
    written = {verb_of(name) for name in PLANS}
    assert written == {
        *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
    }

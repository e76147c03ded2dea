"""What NCCL, Gloo and MPI do: plans that move what they must, in the time that is said.

A plan of a library is held to what test_plans.py holds the book's to, with its waits:
what a rank sends on it has received before.
"""

import json
from dataclasses import replace as changed

import numpy as np
import pytest
from test_plans import EVEN, LINKS, ROOTED, faults, least

from collectives_lab import fabrics, libraries
from collectives_lab.data import shipped
from collectives_lab.fabrics import Fabric, Link
from collectives_lab.libraries import (
    channel_trees,
    channels,
    gloo,
    nccl_plans,
    openmpi,
)
from collectives_lab.libraries.calls import Call, in_flight
from collectives_lab.other_libraries.verbs import RECORDS
from collectives_lab.replay import replay, until_stuck
from collectives_lab.trace import Event, Trace

MODULES = {"nccl": nccl_plans, "gloo": gloo, "mpi": openmpi}
WAYS = [
    (library, verb, name)
    for library, module in MODULES.items()
    for verb, algorithms in module.ALGORITHMS.items()
    for name in algorithms
]
INSIDE, ACROSS = Link(1e-6, 1e-11), Link(1e-5, 2e-10)
SIZES = (1, 2, 3, 5, 8, 12)


def nodes_of(nodes: int, ranks: int, cards: int = 1) -> Fabric:
    """A textbook's cluster: a link inside of nodes, and another across."""
    return fabrics.hierarchical(nodes, ranks, INSIDE, ACROSS, cards)


def machines(world_size: int, library: str) -> list[Fabric]:
    """Fabrics of so many ranks: one node, nodes of one rank, several of several.

    Gloo's and MPI's plans do not depend on them.
    """
    found = [fabrics.uniform(world_size, 3e-6, 2e-10)]
    if library == "nccl":
        found.append(fabrics.ethernet(10, world_size))
    if library == "nccl" and world_size % 4 == 0:
        found += [nodes_of(world_size // 4, 4, cards) for cards in (1, 2, 4)]
    return found


def sizes_of(verb: str, world_size: int) -> list[int]:
    """Bytes to try, of elements of 4: none, one, uneven ones, and many segments."""
    counts = [0, 7] if verb in EVEN else [0, 1, 37]
    counts += [3 * 2**20 + 5] * (world_size in (2, 3, 4))
    return [4 * n * (world_size if verb in EVEN else 1) for n in counts]


def is_refused(name: str, fabric: Fabric) -> bool:
    """PAT takes one GPU a node, on several."""
    across = len(np.unique(fabric.node)) == fabric.world_size > 1
    return name == "pat" and not across


def heard(trace: Trace) -> list[set[int]]:
    """By rank, the ranks of which it has what it sent, as far as it waited for it."""
    columns = trace.columns
    send, recv = trace.pairs()
    pairs = list(zip(send, recv, strict=True))
    points = [(columns["issued"][s], 0, s, r) for s, r in pairs]
    points += [(columns["waited"][r], 1, s, r) for s, r in pairs]
    known = [{rank} for rank in range(trace.world_size)]
    under_way: dict[int, set[int]] = {}
    for _, is_wait, s, r in sorted(points):
        if is_wait:
            known[columns["rank"][r]] |= under_way[s]
        else:
            under_way[s] = set(known[columns["rank"][s]])
    return known


def shortcomings(trace: Trace, verb: str, nbytes: int, root: int) -> list[str]:
    """What is wrong with a plan, in words; waits count."""
    found = faults(trace, verb, nbytes, root)
    known, everyone = heard(trace), set(range(trace.world_size))
    if nbytes and verb in ("broadcast", "scatter"):
        found += ["waits too late"] * any(root not in ranks for ranks in known)
    elif nbytes and verb in ("gather", "reduce"):
        found += ["waits too late"] * (known[root] != everyone)
    elif nbytes and nbytes >= 4 * trace.world_size:
        found += ["waits too late"] * any(ranks != everyone for ranks in known)
    return found


@pytest.mark.parametrize("library, verb, name", WAYS)
def test_a_plan_of_a_library_reaches_everyone_it_must(library, verb, name) -> None:
    """Sends meet receives, nobody is left out, and nothing is sent before it is had."""
    for world_size in SIZES:
        for fabric in machines(world_size, library):
            if is_refused(name, fabric):
                continue
            for nbytes in sizes_of(verb, world_size):
                root = world_size // 2 if verb in ROOTED else 0
                arguments = (library, verb, fabric, nbytes, 4, root, name)
                trace = libraries.plan(*arguments)
                assert not shortcomings(trace, verb, nbytes, root), (fabric, nbytes)


def lent(trace: Trace, own: list[int]) -> int:
    """The most bytes that a rank sends on before it has waited for them.

    own: the bytes by rank with which it begins; it sends on all others in turn.
    """
    columns, most = trace.columns, 0
    for rank in range(trace.world_size):
        sends = (columns["rank"] == rank) & trace.is_op("send")
        recvs = (columns["rank"] == rank) & trace.is_op("recv")
        order = np.argsort(columns["issued"][sends], kind="stable")
        sent = np.cumsum(columns["nbytes"][sends][order])
        when = columns["issued"][sends][order]
        got = columns["waited"][recvs][None] < when[:, None]
        received = (got * columns["nbytes"][recvs]).sum(axis=1)
        most = max(most, int(np.max(sent - own[rank] - received, initial=0)))
    return most


FLOWS = [
    ("gloo", "all_reduce", "ring", [2**21] * 4),
    ("gloo", "all_gather", "ring", [2**21] * 4),
    ("nccl", "all_reduce", "ring", [2**21] * 4),
    ("nccl", "broadcast", "ring", [2**23, 0, 0, 0]),
    ("nccl", "reduce", "ring", [0, 2**23, 0, 0]),
]


@pytest.mark.parametrize("library, verb, name, own", FLOWS)
def test_a_rank_passes_on_what_it_has_received(library, verb, name, own) -> None:
    """Chunk by chunk and segment by segment, though several are under way."""
    fabric = fabrics.uniform(4, 1, 1)
    trace = libraries.plan(library, verb, fabric, 2**23, 4, 0, name)
    assert lent(trace, own) == 0
    assert lent(trace, [max(n - 4, 0) for n in own]) == 4


def test_a_plan_that_sends_on_too_early_is_found() -> None:
    """Of Gloo's ring two steps are under way; with more a rank sends what it lacks."""
    trace = libraries.plan("gloo", "all_reduce", fabrics.uniform(4, 1, 1), 2**23, 4)
    assert lent(in_flight(trace, 1), [2**21] * 4) == 0
    assert lent(in_flight(trace, 2), [2**21] * 4) > 0


@pytest.mark.parametrize("nodes, gpus", [(2, 8), (3, 4), (4, 1), (5, 2)])
def test_a_tree_sends_a_segment_on_when_it_is_whole(nodes: int, gpus: int) -> None:
    """Up when all children have sent it, down when the root has the sum of all."""
    fabric = fabrics.dgx_h100(nodes, gpus)
    world_size = nodes * gpus
    call = Call("all_reduce", 2**22, 4, 0, fabric, tuple(range(world_size)))
    src, dst, start, tree = channel_trees._edges(call)
    trees = 2 * channels.count(call)
    assert len(src) == trees * 2 * (world_size - 1)
    for number in range(trees):
        edges = list(zip(*(x[tree == number] for x in (src, dst, start)), strict=True))
        by_pair = {(a, b): step for a, b, step in edges}
        up = {
            pair: step for pair, step in by_pair.items() if step < by_pair[pair[::-1]]
        }
        assert len({a for a, _ in up}) == world_size - 1
        for (child, parent), step in up.items():
            below = [s for (_, b), s in up.items() if b == child]
            assert step >= max(below, default=-2) + channel_trees.UNDER_WAY
            above = [by_pair[a, parent] for a, b in by_pair if b == parent]
            down = by_pair[parent, child]
            before = [s for s in above if s < down]
            assert len(before) == len(above)
            assert down >= max(before) + channel_trees.UNDER_WAY


# -- closed forms ----------------------------------------------------------------------

BOUNDS = {"tree", "butterfly"}
"""Algorithms whose closed form is a bound where ranks are no power of two."""


def gap(fabric: Fabric, *call, trace: Trace | None = None) -> float:
    """By how much the plan replayed is longer than its closed form, over the form."""
    took = replay(trace or libraries.plan(*call), fabric).elapsed
    said = libraries.seconds(*call)
    return (took - said) / said if said else took


@pytest.mark.parametrize("library, verb, name", WAYS)
def test_a_librarys_plan_takes_what_its_closed_form_says(library, verb, name) -> None:
    """To 1e-9 on links that are alike, with chunks that are even."""
    for world_size in (1, 2, 3, 5, 6, 8):
        for alpha, beta in LINKS:
            link = Link(alpha, beta)
            nodes = fabrics.hierarchical(world_size, 1, link, link)
            same = [nodes] * (library == "nccl")  # others' plans do not look at nodes
            for fabric in (fabrics.uniform(world_size, alpha, beta), *same):
                if is_refused(name, fabric):
                    continue
                for nbytes in (0, 2**10 * world_size, 3 * 2**18 * world_size):
                    call = library, verb, fabric, nbytes, 4, 0, name
                    found = gap(fabric, *call)
                    power = world_size & (world_size - 1) == 0 and world_size != 2
                    assert found < 1e-9, (fabric, nbytes)
                    assert found > -1e-9 or (name in BOUNDS and not power), nbytes


@pytest.mark.parametrize("verb", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("nodes, ranks, cards", [(2, 4, 4), (4, 4, 1), (3, 4, 2)])
def test_a_ring_over_nodes_takes_what_its_slowest_link_does(
    verb, nodes, ranks, cards
) -> None:
    """P-1 steps of a chunk over a card, or between two GPUs where that is slower."""
    fabric = nodes_of(nodes, ranks, cards)
    world_size = nodes * ranks
    for network in (ACROSS, Link(1e-7, 1e-12)):
        cluster = changed(fabric, across=network)
        for nbytes in (4 * world_size, 4 * world_size * 3 * 2**16):
            call = "nccl", verb, cluster, nbytes, 4, None, "ring"
            assert abs(gap(cluster, *call)) < 1e-9


def test_a_closed_form_notices_another_plan() -> None:
    """A ring in one channel is no ring in four."""
    fabric = nodes_of(2, 4, 4)
    call = "nccl", "all_reduce", fabric, 2**24, 4, None, "ring"
    alone = libraries.plan("nccl", "all_reduce", nodes_of(2, 4, 1), 2**24, 4)
    assert abs(gap(fabric, *call)) < 1e-9
    assert gap(fabric, *call, trace=alone) > 2


# -- NCCL ------------------------------------------------------------------------------

V100 = Link.of(3.4e-6, 120e9)
CARD = Link.of(14e-6, 12.5e9)


def issue_569(nodes: int, gpus: int, cards: int) -> float:
    """Seconds of an all_reduce of 1.6 GB on 8 V100, by NCCL's ring."""
    fabric = fabrics.hierarchical(nodes, gpus, V100, CARD, cards)
    trace = libraries.plan("nccl", "all_reduce", fabric, 1_600_000_000, 4)
    return replay(trace, fabric).elapsed


def test_more_cards_a_node_make_a_ring_faster() -> None:
    """Issue 569 of NCCL: 363 ms as 8 nodes of 1, 173 as 4 of 2, 132 as 2 of 4.

    A card for each GPU: of twice as many cards a node each carries half.
    """
    took = [issue_569(8, 1, 1), issue_569(4, 2, 2), issue_569(2, 4, 4)]
    assert took[0] / took[1] == pytest.approx(2, rel=0.01)
    assert took[0] / took[2] == pytest.approx(4, rel=0.01)
    assert took[0] == pytest.approx(1.6e9 * 14 / 8 / 12.5e9, rel=0.01)
    shared = [issue_569(8, 1, 1), issue_569(4, 2, 1), issue_569(2, 4, 1)]
    assert shared == pytest.approx([took[0]] * 3, rel=0.01)


def test_all_cards_carry_the_same() -> None:
    """A ring crosses to the next server at another GPU in each channel."""
    fabric = fabrics.dgx_h100(nodes=3)
    trace = libraries.plan("nccl", "all_reduce", fabric, 24 * 2**20, 4, None, "ring")
    sends = trace.is_op("send")
    src, dst = (trace.columns[name][sends] for name in ("rank", "peer"))
    outside = src // 8 != dst // 8
    carried = np.bincount(src[outside], trace.columns["nbytes"][sends][outside])
    assert carried.tolist() == [2 * 23 * 2**20 // 8] * 24
    assert set(dst[outside] // 8 - src[outside] // 8) == {1, -2}
    assert trace.bytes_sent() == [2 * 23 * 2**20] * 24


@pytest.mark.parametrize("nbytes", [2**10, 2**18])
def test_a_byte_waits_only_for_the_hops_on_its_way(nbytes: int) -> None:
    """A ring's latency has a crossing for each server and not for each step.

    So in one channel, and in eight that do not wait for each other.
    """
    fabric = fabrics.dgx_h100(nodes=4)
    hops = 28 * fabric.inside.alpha + 4 * fabric.across.alpha
    trace = libraries.plan("nccl", "all_gather", fabric, nbytes, 4, None, "ring")
    took = replay(trace, fabric).elapsed
    assert len(trace.messages) == 31 * 32 * (1 if nbytes < 2**15 else 8)
    assert 0.95 * hops < took < 1.3 * hops < 31 * fabric.across.alpha / 2


def test_the_order_of_ranks_in_a_server_is_nothing_to_nccl() -> None:
    """It is to Gloo, whose ring follows the ranks wherever they are."""
    fabric = nodes_of(2, 4, 4)
    mixed = fabric.permuted([0, 4, 1, 5, 2, 6, 3, 7])

    def seconds(library: str, on: Fabric) -> float:
        return replay(libraries.plan(library, "all_reduce", on, 2**24, 4), on).elapsed

    assert seconds("nccl", mixed) == pytest.approx(seconds("nccl", fabric))
    one_card = nodes_of(2, 4, 1)
    bad = one_card.permuted([0, 4, 1, 5, 2, 6, 3, 7])
    assert seconds("gloo", bad) > 3 * seconds("gloo", one_card)


@pytest.mark.parametrize("nodes, gpus, rate", [(2, 8, 225e9), (2, 2, 1e11)])
@pytest.mark.parametrize("more", [False, True])
def test_a_tree_moves_what_cards_and_links_allow(nodes, gpus, rate, more) -> None:
    """A byte passes a GPU's links up and down, and each card twice over 3 servers.

    Of two servers each card sends it once.
    """
    if more:
        nodes, rate = 5, gpus * 50e9 / 2
    fabric = fabrics.dgx_h100(nodes, gpus)
    nbytes = 2**27 * gpus
    trace = libraries.plan("nccl", "all_reduce", fabric, nbytes, 4, None, "tree")
    assert sum(trace.bytes_sent()) == 2 * (gpus * nodes - 1) * nbytes
    bound = nbytes / rate * (7 / 8 if rate > 2e11 else 1)
    assert bound < replay(trace, fabric).elapsed < 1.1 * bound


def test_pat_sends_least_the_farthest() -> None:
    """The first step goes half of the ring, the last to the neighbour."""
    fabric = fabrics.dgx_h100(8, gpus_per_node=1)
    trace = libraries.plan("nccl", "all_gather", fabric, 64, 1, None, "pat")
    sends = [(e.peer, e.nbytes) for e in trace.events if e.rank == 0 and e.op == "send"]
    assert sends == [(4, 8), (6, 16), (7, 32)]


def test_nccl_picks_by_size_and_machine() -> None:
    """A tree for little across servers, a ring for much; what adds in a switch not."""
    far, near = fabrics.dgx_a100(4), fabrics.dgx_h100()
    assert libraries.pick("nccl", "all_reduce", far, 2**16) == "tree"
    assert libraries.pick("nccl", "all_reduce", far, 2**32) == "ring"
    assert libraries.pick("nccl", "all_reduce", near, 2**30) == "ring"
    assert libraries.pick("nccl", "all_gather", near, 2**30) == "ring"
    assert libraries.pick("nccl", "all_to_all", near, 2**20) == "p2p"
    assert libraries.pick("nccl", "all_reduce", nodes_of(2, 4), 2**10) == "ring"


@pytest.mark.parametrize("name", nccl_plans.SWITCHED)
def test_what_adds_in_a_switch_is_no_plan(name: str) -> None:
    """It is refused with the reason, and with what has its time."""
    with pytest.raises(ValueError, match=f"{name} adds in a switch.*lab.predict has"):
        libraries.plan("nccl", "all_reduce", fabrics.dgx_h100(), 64, algorithm=name)


def test_servers_of_unequal_size_have_rings_too() -> None:
    """A group of three GPUs on one server and two on another."""
    fabric = fabrics.dgx_h100(2)
    for name in ("ring", "tree"):
        trace = libraries.plan(
            *("nccl", "all_reduce", fabric, 4 * 10**6, 4, None, name),
            ranks=(6, 7, 5, 8, 15),
        )
        assert trace.world_size == 5
        assert not shortcomings(trace, "all_reduce", 4 * 10**6, 0)


# -- Gloo and MPI ----------------------------------------------------------------------

ON_THE_WIRE = {
    "all_reduce": [1.5] * 4,
    "reduce_scatter": [1.5] * 4,
    "reduce": [0.875, 1.125, 1.125, 1.125],
    "broadcast": [2.0, 1.0, 0.0, 0.0],
    "all_gather": [0.75] * 4,
    "all_to_all": [0.75] * 4,
    "gather": [0.0, 0.25, 0.25, 0.25],
    "scatter": [0.75, 0.0, 0.0, 0.0],
}
"""What each of 4 ranks sent of 16 MiB by torch 2.13's Gloo (TCP_INFO), over 16 MiB."""


@pytest.mark.parametrize("verb", list(ON_THE_WIRE))
def test_gloo_sends_what_was_seen_on_the_wire(verb: str) -> None:
    """reduce: two segments a rank that nobody needs; reduce_scatter: all of a sum."""
    trace = libraries.plan("gloo", verb, fabrics.loopback(4), 2**24, 4)
    assert [sent / 2**24 for sent in trace.bytes_sent()] == ON_THE_WIRE[verb]


def test_gloo_broadcasts_to_the_near_first() -> None:
    """So of two nodes all four messages of the last round cross, and not one."""
    fabric = nodes_of(2, 4)
    ours = replay(libraries.plan("mpi", "broadcast", fabric, 2**20), fabric).elapsed
    trace = libraries.plan("gloo", "broadcast", fabric, 2**20)
    crossing = [
        e for e in trace.events if e.op == "send" and (e.rank < 4) != (e.peer < 4)
    ]
    assert len(crossing) == 4
    assert replay(trace, fabric).elapsed != ours


@pytest.mark.parametrize(
    "verb, world_size, nbytes, name",
    [
        ("all_reduce", 4, 8, "ring"),
        ("all_reduce", 4, 16, "recursive_doubling"),
        ("all_reduce", 4, 2**20, "rabenseifner"),
        ("all_reduce", 200, 2**10, "nonoverlapping"),
        ("all_gather", 8, 2**20, "recursive_doubling"),
        ("all_gather", 64, 64 * 2**10, "neighbor"),
        ("all_to_all", 4, 2**10, "linear_sync"),
        ("broadcast", 8, 2**10, "knomial"),
        ("reduce", 16, 2**20, "binomial"),
        ("reduce_scatter", 8, 2**20, "recursive_halving"),
        ("gather", 8, 2**20, "binomial"),
        ("scatter", 2, 2, "linear_nb"),
    ],
)
def test_open_mpi_decides_by_its_table(verb, world_size, nbytes, name) -> None:
    """Rows read in coll_tuned_decision_fixed.c."""
    fabric = fabrics.uniform(world_size, 1, 1)
    assert libraries.pick("mpi", verb, fabric, nbytes) == name


def recorded() -> list[tuple[str, int, str, np.ndarray]]:
    """What Open MPI 5.0.11 sent on 4 ranks: verb, bytes, algorithm, wire by pair."""
    found = []
    for name, record in json.loads(shipped(RECORDS).read_text()).items():
        if name.startswith("mpi ") and "calls" in record:  # no program of a chapter
            algorithm = name.split()[3]
            for verb, by_size in record["calls"].items():
                for size, call in by_size.items():
                    wire = np.array(call["wire"])
                    found.append((verb, int(size), algorithm, wire))
    return found


def test_open_mpi_sends_what_was_seen_on_the_wire() -> None:
    """From each rank to each other what the plan says, and some bytes of headers."""
    fabric = fabrics.loopback(4)
    assert len(recorded()) == 18
    for verb, nbytes, name, wire in recorded():
        forced = None if name == "decides" else name
        trace = libraries.plan("mpi", verb, fabric, nbytes, 8, 0, forced)
        headers = wire - trace.bytes_by_pair()
        assert headers.min() >= 0 and headers.max() < 1000, (verb, nbytes, name)


def test_another_plan_is_not_what_was_seen_on_the_wire() -> None:
    """Not a ring's for what recursive doubling sent, nor at the table's next size."""
    wires = {row[:3]: row[3] for row in recorded()}
    for nbytes, other in ((4096, "rabenseifner"), (8192, "recursive_doubling")):
        call = "mpi", "all_reduce", fabrics.loopback(4), nbytes, 8, 0
        seen = wires["all_reduce", nbytes, "decides"]
        assert abs(seen - libraries.plan(*call).bytes_by_pair()).max() < 500
        assert abs(seen - libraries.plan(*call, other).bytes_by_pair()).max() > 1500


def test_the_table_knows_only_algorithms_that_are_plans() -> None:
    """Every row has a plan, and every verb a row for any size."""
    for verb, rows in openmpi._rules().items():
        assert {name for *_, name in rows} <= set(openmpi.ALGORITHMS[verb])
        assert rows[-1][:2] == (np.inf, np.inf)


# -- replay ----------------------------------------------------------------------------


def calls(verb: str, ranks, nbytes: int, root=None, **options) -> Trace:
    """A recorded trace in which each of the ranks calls a verb once."""
    world_size = max(ranks) + 1
    events = [
        Event(r, verb, nbytes, root=root, dtype="float32", group="g") for r in ranks
    ]
    return Trace.from_events(events, world_size, groups={"g": tuple(ranks)}, **options)


@pytest.mark.parametrize("library", ["nccl", "nccl 2.27", "gloo", "mpi"])
@pytest.mark.parametrize("verb", ["all_reduce", "broadcast", "all_gather"])
def test_a_replay_opens_collectives_as_the_library_does(library, verb) -> None:
    """By what it picks for verb, size and fabric, and the root of the group.

    All times are binary fractions: none is rounded, so what is at once stays at once.
    """
    fabric = fabrics.hierarchical(2, 8, Link(1.0, 2.0**-20), Link(16.0, 2.0**-18), 8)
    root = 3 if verb in ROOTED else None
    trace = calls(verb, range(16), 2**20, root)
    planned = libraries.plan(library, verb, fabric, 2**20, 4, root)
    took = trace.replay(fabric, library=library).elapsed
    assert took == pytest.approx(replay(planned, fabric).elapsed, rel=1e-12)


def test_a_replay_takes_the_librarys_own_names() -> None:
    """Forced, as `predict` does; a plan of the reader's stays possible."""
    fabric = fabrics.dgx_h100(4)
    trace = calls("all_reduce", range(32), 2**20)
    took = {
        name: trace.replay(fabric, 0, {"all_reduce": name}, "nccl").elapsed
        for name in ("ring", "tree")
    }
    assert took["tree"] < took["ring"]
    assert took["tree"] != trace.replay(fabric, 0, {"all_reduce": "tree"}).elapsed
    own = replay(trace, fabric, 0, {"all_reduce": lambda p, n, i: Trace(p, {})}, "nccl")
    assert own.elapsed == 0


def test_a_group_is_where_its_ranks_are() -> None:
    """Two GPUs of each server have rings over the cards of these."""
    fabric = fabrics.dgx_h100(2)
    inside, across = (calls("all_reduce", r, 2**26) for r in ((0, 1), (0, 8)))
    took = [trace.replay(fabric, library="nccl").elapsed for trace in (inside, across)]
    assert took[1] / took[0] == pytest.approx(450 / 50, rel=0.1)


def test_without_a_library_nothing_is_new() -> None:
    """The default is still a plain ring."""
    fabric = fabrics.dgx_h100(2)
    trace = calls("all_reduce", range(16), 2**26)
    plain = trace.replay(fabric, 0, {"all_reduce": "ring"}).elapsed
    assert trace.replay(fabric).elapsed == plain
    assert trace.replay(fabric, library="nccl").elapsed < plain / 2


def test_a_recording_of_stuck_ranks_is_of_the_library() -> None:
    """`until_stuck` takes the same."""
    fabric = fabrics.dgx_h100(2)
    trace = calls("all_reduce", range(16), 2**26)
    recorded = until_stuck(trace, fabric, library="nccl")
    took = trace.replay(fabric, library="nccl").elapsed
    assert recorded.columns["completed"].max() == pytest.approx(took)


# -- names and arguments ---------------------------------------------------------------


@pytest.mark.parametrize(
    "library, verb, options, words",
    [
        ("nickel", "all_reduce", {}, "library is 'nickel'; need nccl, or with its"),
        ("nccl 2", "all_reduce", {}, "library is 'nccl 2'; need nccl, or with its"),
        ("nccl 2.1", "all_reduce", {}, "nccl 2.1 is older than 2.4"),
        ("nccl", "allreduce", {}, "verb is 'allreduce'; need one of broadcast"),
        ("nccl", "all_reduce", {"algorithm": "bruck"}, "nccl has no 'bruck' for all_"),
        ("nccl", "all_reduce", {"algorithm": "p2p"}, "'p2p' for all_reduce; it has ri"),
        ("gloo", "all_reduce", {"algorithm": "tree"}, "gloo has no 'tree' for all_red"),
        ("mpi", "reduce", {"algorithm": "ring"}, "mpi has no 'ring' for reduce; it ha"),
        ("nccl", "all_gather", {"algorithm": "pat"}, "pat from version 2.23 on"),
        ("nccl", "broadcast", {"root": 9}, "root is rank 9 of 8"),
        ("gloo", "all_gather", {"itemsize": 16}, "nbytes is 64, 4 elements for 8"),
    ],
)
def test_what_no_library_has_is_refused(library, verb, options, words) -> None:
    """In words, with what there is."""
    with pytest.raises(ValueError, match=words):
        libraries.plan(library, verb, fabrics.dgx_h100(), 64, **options)


def test_a_version_without_pat_is_refused() -> None:
    """NCCL has it since 2.23."""
    fabric = fabrics.dgx_h100(4, gpus_per_node=1)
    libraries.plan("nccl 2.23", "all_gather", fabric, 64, algorithm="pat")
    with pytest.raises(ValueError, match=r"from version 2.23 on.*here are version 2.2"):
        libraries.plan("nccl 2.22", "all_gather", fabric, 64, algorithm="pat")


def test_a_fabric_without_a_closed_form_is_refused() -> None:
    """A machine's links have gaps; those of two kinds have one for rings only."""
    with pytest.raises(ValueError, match="has gaps, a spine or slow links"):
        libraries.seconds("nccl", "all_reduce", fabrics.dgx_h100(), 64)
    with pytest.raises(ValueError, match="has one link inside of nodes and another"):
        libraries.seconds("gloo", "all_reduce", nodes_of(2, 4), 64)


def test_a_server_may_be_several_nodes_of_a_fabric() -> None:
    """The two sockets of a PCIe box are one server, with one channel."""
    fabric = fabrics.pcie_box()
    call = Call("all_reduce", 2**24, 4, 0, fabric, tuple(range(8)))
    assert len(call.servers) == 1 and channels.count(call) == 1
    assert least("all_reduce", 8, 64, 0, 0) == (64, 64)

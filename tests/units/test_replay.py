"""The replay: its model by small cases, its engine by definition, what it refuses."""

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from typing import NamedTuple

import numpy as np
import pytest

import collectives_lab as lab
from collectives_lab import fabrics
from collectives_lab.fabrics import Fabric, Link
from collectives_lab.plans.steps import Steps, share
from collectives_lab.replay import engine, replay, until_stuck
from collectives_lab.replay import lane_program as replay_program
from collectives_lab.replay.calls import calls_of
from collectives_lab.replay.expand import open_collectives
from collectives_lab.replay.lane_program import Program, compile_program
from collectives_lab.replay.phases import phases_of
from collectives_lab.trace import Event, Trace

ALPHA, BETA = 2.0, 0.5


def steps(world_size: int, *messages: list[tuple[int, int, int]]) -> Trace:
    """A plan: in each step messages (src, dst, nbytes)."""
    plan = Steps(world_size)
    for step in messages:
        plan.step(*zip(*step, strict=True))
    return plan.trace()


def elapsed(trace: Trace, fabric: Fabric | None = None) -> float:
    return replay(
        trace, fabric or fabrics.uniform(trace.world_size, ALPHA, BETA)
    ).elapsed


def one(nbytes: int) -> float:
    return ALPHA + nbytes * BETA


def blocking(*events: Event) -> Trace:
    return Trace.from_events(events, 1 + max(e.rank for e in events))


# -- the model ---------------------------------------------------------------------


def test_a_message_takes_alpha_and_beta() -> None:
    """One message of n bytes takes alpha + n beta."""
    assert elapsed(steps(2, [(0, 1, 10)])) == one(10)


def test_a_rank_sends_and_receives_at_once() -> None:
    """Ports are full-duplex: an exchange takes as long as one message."""
    assert elapsed(steps(2, [(0, 1, 10), (1, 0, 10)])) == one(10)


def test_a_rank_sends_one_message_at_a_time() -> None:
    """Two messages from one rank, or to one rank, come one after the other."""
    assert elapsed(steps(3, [(0, 1, 10), (0, 2, 10)])) == 2 * one(10)
    assert elapsed(steps(3, [(0, 2, 10), (1, 2, 10)])) == 2 * one(10)


def test_steps_come_one_after_the_other() -> None:
    """A rank begins a step when its messages of the step before are through."""
    assert elapsed(steps(3, [(0, 1, 4)], [(1, 2, 8)])) == one(4) + one(8)
    assert elapsed(steps(4, [(0, 1, 4)], [(2, 3, 8)])) == max(one(4), one(8))


def test_a_message_waits_for_both_its_ends() -> None:
    """A send goes nowhere before its recv is posted."""
    late = blocking(
        Event(0, "send", 10, peer=1),
        Event(1, "compute", seconds=7.0),
        Event(1, "recv", 10, peer=0),
    )
    assert elapsed(late) == 7.0 + one(10)


def test_what_is_not_waited_for_still_ends() -> None:
    """The whole ends with the last message, though its sender is long through."""
    trace = Trace.from_events(
        [
            Event(0, "send", 10, peer=1, issued=0.0),
            Event(1, "recv", 10, peer=0, issued=0.0),
        ],
        2,
    )
    timeline = replay(trace, fabrics.uniform(2, ALPHA, BETA))
    assert timeline.elapsed == one(10)
    assert timeline.exposed() == [0.0, 0.0]


def test_computing_hides_what_is_asynchronous() -> None:
    """Exposed is what a rank is blocked for, the rest was hidden by computing."""
    trace = Trace.from_events(
        [
            Event(0, "send", 10, peer=1, issued=0.0, waited=2.0),
            Event(0, "compute", issued=1.0, seconds=4.0),
            Event(1, "recv", 10, peer=0, issued=0.0, waited=0.0),
        ],
        2,
        meta={"clock": "steps"},
    )
    timeline = replay(trace, fabrics.uniform(2, ALPHA, BETA))
    assert timeline.elapsed == one(10) == 7.0
    assert timeline.exposed() == [3.0, 7.0]


def test_computing_that_begins_with_a_collective_overlaps_it() -> None:
    """The collective is issued first, and none of the computing counts twice."""
    events = []
    for rank in range(2):
        for at in (0.0, 9.0):
            events.append(Event(rank, "all_reduce", 2, dtype="int8", issued=at))
            events.append(Event(rank, "compute", issued=at, seconds=9.0))
    trace = Trace.from_events(events, 2)
    fabric = fabrics.uniform(2, ALPHA, BETA)
    assert replay(trace, fabric, compute=1).elapsed == 18.0


def test_recorded_computing_counts_as_often_as_asked() -> None:
    """compute=0 leaves the calls alone; 2 makes the time between them twice as long."""
    events = [
        Event(0, "send", 2, peer=1, issued=1.0, waited=1.0, completed=5.0),
        Event(0, "send", 2, peer=1, issued=8.0, waited=8.0, completed=9.0),
        Event(1, "recv", 2, peer=0, issued=1.0, waited=1.0, completed=5.0),
        Event(1, "recv", 2, peer=0, issued=5.0, waited=5.0, completed=9.0),
    ]
    trace = Trace.from_events(events, 2)
    fabric = fabrics.uniform(2, ALPHA, BETA)
    for compute in (0, 1, 2):
        assert replay(trace, fabric, compute).elapsed == 2 * one(2) + 3 * compute
    for wrong in (-1, math.nan, None, "twice"):
        with pytest.raises(ValueError, match=f"compute is {wrong!r}; need"):
            replay(trace, fabric, wrong)


def test_a_slow_rank_computes_and_sends_slowly() -> None:
    """What if: a rank of half the speed takes twice as long for all it does."""
    trace = blocking(
        Event(0, "compute", seconds=3.0),
        Event(0, "send", 10, peer=1),
        Event(1, "recv", 10, peer=0),
    )
    fabric = fabrics.uniform(2, ALPHA, BETA)
    assert elapsed(trace, fabric) == 3 + one(10)
    assert elapsed(trace, fabric.with_slow_rank(0, 2)) == 2 * (3 + one(10))
    assert elapsed(trace, fabric.with_slow_link(0, 1, 3)) == 3 + 3 * one(10)
    assert elapsed(trace, fabric.with_slow_link(1, 0, 3)) == 3 + one(10)


# -- contention --------------------------------------------------------------------


def all_to_all(world_size: int, each: int) -> Trace:
    plan = Steps(world_size)
    ranks = np.arange(world_size)
    for k in range(1, world_size):
        plan.step(ranks, (ranks + k) % world_size, each)
    return plan.trace()


def all_at_once(world_size: int, each: int) -> Trace:
    src = np.tile(np.arange(world_size), world_size - 1)
    plan = Steps(world_size)
    plan.step(src, (src + np.arange(len(src)) // world_size + 1) % world_size, each)
    return plan.trace()


def nic_bound(fabric: Fabric, each: int) -> float:
    """Seconds for which the busiest NIC must be at it in an all-to-all."""
    sharing = fabric.world_size // len(np.unique(fabric.nic))
    outside = fabric.world_size - (fabric.node == 0).sum()
    return sharing * outside * each * fabric.across.beta


@pytest.mark.parametrize("make", [all_to_all, all_at_once])
@pytest.mark.parametrize("nics", [1, 2, 4])
def test_an_all_to_all_over_shared_nics_meets_its_bound(make, nics: int) -> None:
    """The busiest NIC is never idle for long and never faster than it can be."""
    fabric = fabrics.hierarchical(4, 4, Link(1e-6, 1e-12), Link(1e-5, 1e-9), nics)
    each = 10**6
    bound = nic_bound(fabric, each)
    assert bound <= elapsed(make(16, each), fabric) <= 1.3 * bound


def test_a_fabric_without_its_nics_would_pass_for_too_fast() -> None:
    """The bound above is one that a wrong model of contention breaks."""
    fabric = fabrics.hierarchical(4, 4, Link(1e-6, 1e-12), Link(1e-5, 1e-9), 1)
    wrong = changed(fabric, nic=np.arange(16))
    assert elapsed(all_to_all(16, 10**6), wrong) < nic_bound(fabric, 10**6)


def test_a_spine_serves_all_nodes() -> None:
    """Oversubscribed four times, it lets through a quarter of what the NICs send."""
    fabric = fabrics.hierarchical(8, 2, Link(0, 0), Link(0, 1e-9), 2, 4.0)
    bound = 16 * 14 * 10**6 * 1e-9 / 16 * 4
    assert bound <= elapsed(all_to_all(16, 10**6), fabric) <= 1.1 * bound


def test_a_bad_order_costs_where_ranks_share_a_nic() -> None:
    """A ring that leaves the node at every step shares its NIC with seven others."""
    fabric = fabrics.hierarchical(2, 4, Link(1e-6, 1e-12), Link(1e-5, 1e-9), 1)
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    good, bad = (
        elapsed(ring(8, 8 * 10**6), f) for f in (fabric, fabric.permuted(order))
    )
    assert 3.5 < bad / good < 4.5
    alone = changed(fabric, nic=np.arange(8))
    assert elapsed(ring(8, 8 * 10**6), alone.permuted(order)) < 1.1 * good


# -- exactness ---------------------------------------------------------------------


def ring(world_size: int, nbytes: int) -> Trace:
    plan, ranks = Steps(world_size), np.arange(world_size)
    chunk = share(nbytes, world_size)
    for first in (1, 0):
        for k in range(world_size - 1):
            plan.step(ranks, (ranks + 1) % world_size, chunk[ranks - k - first])
    return plan.trace()


@pytest.mark.parametrize("world_size", [2, 3, 8, 64, 200])
def test_a_ring_takes_what_its_formula_says(world_size: int) -> None:
    """2 (P-1) alpha + 2 (P-1)/P S beta, to a part in 10^12, though tenths add up."""
    alpha, beta, nbytes = 3.4e-6, 1 / 450e9, 1000 * world_size
    said = 2 * (world_size - 1) * (alpha + 1000 * beta)
    fabric = fabrics.uniform(world_size, alpha, beta)
    assert elapsed(ring(world_size, nbytes), fabric) == pytest.approx(said, rel=1e-12)


def random_trace(seed: int, world_size: int = 6, messages: int = 60) -> Trace:
    """Messages in some order, waited for now or later or never, with computing."""
    chance = random.Random(seed)
    events: list[Event] = []
    for number in range(messages):
        src, dst = chance.sample(range(world_size), 2)
        nbytes = chance.choice([1, 8, 8, 64, 1000])
        for rank, op, peer in ((src, "send", dst), (dst, "recv", src)):
            late = chance.choice([0, 0, 1, 3, None])
            waited = None if late is None else number + late + 0.5
            ended = None if waited is None else waited + 0.25 * chance.random()
            times = {"issued": float(number), "waited": waited, "completed": ended}
            events.append(Event(rank, op, nbytes, peer=peer, **times))
        if chance.random() < 0.3:
            rank, at = chance.randrange(world_size), number + 0.125
            took = chance.random()
            events.append(Event(rank, "compute", issued=at, seconds=took))
        if chance.random() < 0.2:
            late = chance.choice([0.0, 2.5])
            for rank in range(world_size):
                at = number + 0.25
                times = {"issued": at, "waited": at + late, "completed": at + late}
                events.append(Event(rank, "all_reduce", 64, **times))
    events.sort(key=lambda e: (e.rank, e.issued))
    return Trace.from_events(events, world_size)


FABRICS = {
    "uniform": fabrics.uniform(6, 2e-6, 1e-9),
    "shared": fabrics.hierarchical(2, 3, Link(1e-6, 1e-10), Link(5e-6, 1e-8), 1),
    "spine": fabrics.hierarchical(
        3, 2, Link(1e-6, 1e-10), Link(5e-6, 1e-8), 2, 3.0
    ).with_slow_rank(1, 1.5),
}


class Played(NamedTuple):
    """When phases began and ended, messages ended, and they entered their links."""

    begun: np.ndarray
    ended: np.ndarray
    end: np.ndarray
    entered: np.ndarray


def by_the_engine(program: Program) -> Played:
    times = engine.run(program, True)
    phases = phases_of(program, times.end)
    return Played(phases.begun, phases.ended, times.end, times.entered)


def by_definition(program: Program, first_served: Callable = min) -> Played:
    """Play a program with nothing but searches: slow, and easy to believe."""
    ends = np.stack([program.calls.send, program.calls.recv], axis=1).tolist()
    link, busy, through = (
        array[program.route].tolist()
        for array in (program.link, program.busy, program.through)
    )
    phases = phases_of(program, np.zeros(len(ends), np.int64))
    phase_of, delay, length = (
        array.tolist() for array in (phases.phase, phases.delay, phases.length)
    )
    awaited: list[list[int]] = [[] for _ in length]
    for call in np.flatnonzero(phases.closes >= 0).tolist():
        awaited[phases.closes[call]].append(int(phases.message[call]))
    starts = [0, *(np.flatnonzero(~phases.has_next[:-1]) + 1).tolist()]
    begun = dict.fromkeys(starts, 0)
    ended: dict[int, int] = {}
    end = [-1] * len(ends)
    entered = [[-1] * len(program.names) for _ in ends]
    free: dict[tuple[int, int], int] = {}
    waiting, moving, done = set(range(len(ends))), set(), set()
    while True:
        for phase, time in [*begun.items()]:
            if phase not in ended and done.issuperset(awaited[phase]):
                waits = time + length[phase]
                ended[phase] = max([waits, *(end[n] for n in awaited[phase])])
                if phases.has_next[phase]:
                    begun[phase + 1] = ended[phase]
        for n in sorted(waiting):
            if all(phase_of[call] in begun for call in ends[n]):
                end[n] = max(begun[phase_of[c]] + delay[c] for c in ends[n])
                moving.add((end[n], n, 0))
                waiting.remove(n)
        if not moving and len(begun) == len(ended):
            break
        if moving:
            arrived = first_served(moving)
            moving.remove(arrived)
            time, n, stage = arrived
            if stage == len(program.names):
                done.add(n)
                continue
            if link[n][stage] >= 0:
                time = max(time, free.get((stage, link[n][stage]), 0))
                free[stage, link[n][stage]] = time + busy[n][stage]
                entered[n][stage] = time
                end[n] = max(end[n], time + through[n][stage])
            moving.add((time, n, stage + 1))
    times = ([side[p] for p in range(len(length))] for side in (begun, ended))
    return Played(*map(np.array, (*times, end, entered)))


def _by_number(arrival: tuple[int, int, int]) -> int:
    return arrival[1]


def programs(fabric: Fabric, compute: float) -> Iterator[Program]:
    for seed in range(10):
        trace = random_trace(seed, messages=8)
        calls = open_collectives(trace, calls_of(trace), {})
        yield compile_program(calls, fabric, compute)


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
@pytest.mark.parametrize("compute", [0.0, 1e-5])
def test_the_engine_says_what_the_definition_does(
    fabric: Fabric, compute: float
) -> None:
    """To the quantum, for every phase and message of traces of any shape."""
    for program in programs(fabric, compute):
        expected, found = by_definition(program), by_the_engine(program)
        for name, a, b in zip(expected._fields, expected, found, strict=True):
            assert np.array_equal(a, b), name
        assert (found.end >= 0).all()


@pytest.mark.slow
def test_the_engine_says_the_same_when_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    fabric = FABRICS["spine"]
    traces = [random_trace(seed) for seed in range(5)]
    plain = [replay(trace, fabric, compute=1e-5) for trace in traces]
    paths = [timeline.critical_path() for timeline in plain]
    monkeypatch.setattr(engine, "WORTH_COMPILING", 0)
    assert engine._compiled() is not None
    compiled = [replay(trace, fabric, compute=1e-5) for trace in traces]
    assert [timeline.critical_path() for timeline in compiled] == paths
    for a, b in zip(plain, compiled, strict=True):
        assert list(a.events) == list(b.events)


@pytest.mark.parametrize("first_served", [max, lambda ways: min(ways, key=_by_number)])
def test_another_order_of_service_is_told_from_the_engine(
    first_served: Callable,
) -> None:
    """Where links are shared, it matters that who arrives first is served first."""
    assert not all(
        np.array_equal(by_definition(p, first_served).end, engine.run(p).end)
        for p in programs(FABRICS["shared"], 0.0)
    )


def test_a_replay_is_the_same_each_time() -> None:
    """Virtual time has no noise."""
    trace = random_trace(1)
    assert len({elapsed(trace, FABRICS["spine"]) for _ in range(3)}) == 1


def test_the_critical_path_is_without_gaps() -> None:
    """From 0 to the end every step begins where the one before it let it."""
    for seed in range(12):
        trace = random_trace(seed)
        for fabric in FABRICS.values():
            timeline = replay(trace, fabric, compute=1e-6)
            path = timeline.critical_path()
            assert path[0].begin == 0
            assert path[-1].end == timeline.elapsed
            for before, after in itertools.pairwise(path):
                assert before.end == after.begin, (before, after)


def test_the_critical_path_names_what_held_it() -> None:
    """A message that waited for a port says so, after the one that had it."""
    timeline = replay(
        steps(3, [(0, 2, 10), (1, 2, 10)]), fabrics.uniform(3, ALPHA, BETA)
    )
    first, second = timeline.critical_path()
    assert (first.rank, first.peer, first.held_by) == (0, 2, "")
    assert (second.rank, second.peer, second.held_by) == (1, 2, "rank 2 in")


def test_a_message_of_no_bytes_holds_nobody_up() -> None:
    """It keeps a shared NIC for no time, so it is never what another waited for."""
    fabric = fabrics.hierarchical(3, 3, Link(1e-6, 1e-9), Link(1e-5, 1e-9))
    trace = Trace.from_events(
        [
            Event(0, "send", 10**6, peer=6),
            Event(1, "compute", seconds=1e-6),
            Event(1, "send", 1, peer=7),
            Event(2, "send", 0, peer=5),
            Event(5, "recv", 0, peer=2),
            Event(5, "compute", seconds=1.0),
            Event(6, "recv", 10**6, peer=0),
            Event(7, "recv", 1, peer=1),
        ],
        9,
    )
    timeline = replay(trace, fabric)
    path = timeline.critical_path()
    assert (path[0].begin, path[-1].end) == (0, timeline.elapsed)
    assert path[0].nbytes == 10**6 and path[-1].kind == "compute"


def test_nobody_is_blocked_for_longer_than_the_whole() -> None:
    """Sums are exact, so nothing is more than it can be."""
    fabric = fabrics.hierarchical(4, 4, Link(1e-6, 1e-11), Link(5e-6, 1e-9), 1)
    timeline = replay(lab.plans.pairwise_all_to_all(16, 1_600_000), fabric)
    assert max(timeline.exposed()) <= timeline.elapsed


# -- collectives -------------------------------------------------------------------


def collective(op: str, world_size: int = 4, **fields) -> Trace:
    return blocking(*(Event(r, op, 64, **fields) for r in range(world_size)))


def test_a_collective_is_the_plan_of_its_algorithm() -> None:
    """A black box takes as long as the plan that stands for it."""
    fabric = fabrics.uniform(4, ALPHA, BETA)
    trace = collective("all_reduce")
    assert replay(trace, fabric).elapsed == elapsed(ring(4, 64))
    plan = lab.plans.tree_all_reduce(4, 64)
    tree = replay(trace, fabric, algorithms={"all_reduce": "tree"})
    assert tree.elapsed == elapsed(plan)
    own = replay(trace, fabric, algorithms={"all_reduce": lambda p, n, i: plan})
    assert own.elapsed == tree.elapsed


@pytest.mark.parametrize(
    "op", ["broadcast", "reduce", "scatter", "gather", "all_gather", "reduce_scatter"]
)
def test_every_verb_has_a_usual_algorithm(op: str) -> None:
    """Each verb of the library can be replayed, with the root that it had."""
    rooted = op in ("broadcast", "reduce", "scatter", "gather")
    trace = collective(op, root=2 if rooted else None)
    assert elapsed(trace) >= one(16)


def test_collectives_of_a_group_come_one_by_one_and_groups_do_not_wait() -> None:
    """Two all_reduces of one group take twice as long, of two groups as long as one."""
    groups = {"a": (0, 1), "b": (2, 3)}
    events = [Event(r, "all_reduce", 64, group="a" if r < 2 else "b") for r in range(4)]
    apart = Trace.from_events(events, 4, groups)
    twice = Trace.from_events(sorted(events * 2, key=lambda e: e.rank), 4, groups)
    assert elapsed(twice) == 2 * elapsed(apart) == 2 * elapsed(ring(2, 64))


def test_an_asynchronous_collective_goes_on_while_the_rank_computes() -> None:
    """Its wait ends at once when it has had the time."""
    events = []
    for rank in range(2):
        events += [
            Event(rank, "all_reduce", 64, issued=0.0, waited=2.0),
            Event(rank, "compute", issued=1.0, seconds=1000.0),
        ]
    trace = Trace.from_events(events, 2, meta={"clock": "steps"})
    timeline = replay(trace, fabrics.uniform(2, ALPHA, BETA))
    assert timeline.elapsed == 1000.0
    assert timeline.exposed() == [0.0, 0.0]
    first = timeline.trace.event(0)
    assert (first.issued, first.completed) == (0.0, 1000.0)


def test_computing_alone_has_its_events() -> None:
    """A trace without any message can be drawn too."""
    computes = blocking(
        Event(0, "compute", seconds=1.0), Event(1, "compute", seconds=2.0)
    )
    timeline = replay(computes, fabrics.uniform(2, ALPHA, BETA))
    assert [e.completed for e in timeline.events] == [1.0, 2.0]


def test_an_isend_without_times_is_not_waited_for() -> None:
    """So a transfer that computing hides can be written down by hand."""
    trace = blocking(
        Event(0, "send", 10, peer=1, variant="isend"),
        Event(0, "compute", seconds=100.0),
        Event(1, "recv", 10, peer=0),
    )
    assert elapsed(trace) == 100.0


# -- ranks that get stuck ----------------------------------------------------------


def recorded(*events: Event, compute: float = 0.0) -> list[Event]:
    """What two ranks leave behind that make these calls until they are stuck."""
    trace = Trace.from_events(events, 2)
    fabric = fabrics.uniform(2, ALPHA, BETA)
    return list(until_stuck(trace, fabric, compute).events)


def test_a_trace_that_ends_is_recorded_as_its_replay() -> None:
    """Each call with the times that `replay` has for it."""
    trace, fabric = collective("all_reduce"), fabrics.uniform(4, ALPHA, BETA)
    events = list(until_stuck(trace, fabric).events)
    assert events == list(replay(trace, fabric).events)


def test_calls_end_when_the_last_has_come() -> None:
    """A collective ends for all alike; who computes longer waits less."""
    events = recorded(
        *(Event(r, "compute", seconds=s) for r, s in enumerate((1.0, 3.0))),
        *(Event(r, "all_reduce", 4) for r in range(2)),
    )
    calls = [event for event in events if event.op == "all_reduce"]
    assert [event.waited for event in calls] == [1.0, 3.0]
    assert {event.completed for event in calls} == {3.0 + 2 * one(2)}


@pytest.mark.parametrize(
    "one, other",
    [
        (Event(0, "all_reduce", 8), Event(1, "broadcast", 8, root=0)),
        (Event(0, "all_reduce", 8), Event(1, "all_reduce", 4)),
        (Event(0, "broadcast", 8, root=0), Event(1, "broadcast", 8, root=1)),
        (Event(0, "recv", 8, peer=1, tag=1), Event(1, "send", 8, peer=0, tag=2)),
    ],
)
def test_calls_that_do_not_fit_never_end(one: Event, other: Event) -> None:
    """Nor is a call made behind them, although it would fit."""
    behind = [Event(rank, "barrier") for rank in range(2)]
    events = recorded(one, other, *behind)
    assert [event.op for event in events] == [one.op, other.op]
    assert all(event.waited == 0 and event.completed is None for event in events)


@pytest.mark.parametrize("waited", [None, 9.0])
def test_collectives_behind_one_that_does_not_fit_never_end(
    waited: float | None,
) -> None:
    """Whoever waits for them, or never does."""
    events = recorded(
        *(
            Event(rank, "all_reduce", nbytes, issued=at, waited=waited, completed=at)
            for rank in range(2)
            for at, nbytes in enumerate((8 + rank, 8))
        ),
        compute=1.0,
    )
    assert len(events) == 4
    assert all(event.completed is None for event in events)


def test_a_rank_that_is_stuck_begins_no_later_wait() -> None:
    """It waits for the first of two receives; the second came in the meantime."""
    events = recorded(
        Event(0, "recv", 8, peer=1, tag=1, issued=0.0, waited=2.0),
        Event(0, "recv", 8, peer=1, tag=2, issued=1.0, waited=3.0),
        Event(1, "send", 8, peer=0, tag=2, issued=0.0, waited=1.0),
        compute=1.0,
    )
    assert [(e.waited, e.completed) for e in events] == [
        (2.0, None),
        (None, 1.0 + one(8)),
        (1.0, 1.0 + one(8)),
    ]


# -- what it refuses ---------------------------------------------------------------


@pytest.mark.parametrize(
    "events, complaint",
    [
        (
            [Event(0, "recv", 8, peer=1, where="train.py:7")],
            "rank 0: its recv of 8 bytes from rank 1, tag 0 at train.py:7, meets no",
        ),
        ([Event(1, "send", 8, peer=0)], "rank 1: its send of 8 bytes to rank 0"),
        ([Event(0, "recv", 8)], "from any rank"),
        (
            [
                Event(0, "recv", 8, peer=1),
                Event(0, "send", 8, peer=1),
                Event(1, "recv", 8, peer=0),
                Event(1, "send", 8, peer=0),
            ],
            "rank 0 waits in recv from 1; rank 1 waits in recv from 0: these wait",
        ),
        ([Event(0, "all_reduce", 8)], "rank 1 never comes to it"),
        (
            [Event(0, "all_reduce", 8), Event(1, "all_gather", 8)],
            "rank 0 calls all_reduce, number 0 of group '0', and rank 1 calls all_g",
        ),
        (
            [Event(0, "send", 8, peer=1), Event(1, "recv", 4, peer=0)],
            "rank 0 sends 8 bytes to rank 1, which receives 4",
        ),
        ([Event(0, "compute", seconds=-1.0)], "rank 0: a compute of -1.0 seconds"),
        ([Event(1, "compute")], "rank 1: a compute of None seconds"),
        (
            [Event(0, "all_reduce", 8), Event(1, "all_reduce", 16)],
            "rank 1 calls it with 16 bytes, not 8",
        ),
        (
            [Event(0, "broadcast", 8), Event(1, "broadcast", 8)],
            "rank 0 says that its root is None",
        ),
        (
            [Event(r, "all_reduce", 8, group="g") for r in range(2)],
            "no ranks are known of group 'g'",
        ),
        (
            [Event(0, "juggle", 8), Event(1, "juggle", 8)],
            "juggle by None: no such algorithm",
        ),
    ],
)
def test_a_trace_that_cannot_end_is_refused(
    events: list[Event], complaint: str
) -> None:
    """With the rank, the call, and the reader's line."""
    with pytest.raises(ValueError, match=complaint):
        elapsed(Trace.from_events(events, 2))


def test_wrong_arguments_are_refused() -> None:
    """A fabric that is too small, and an algorithm that is not there."""
    with pytest.raises(ValueError, match="the trace has 3 ranks and Fabric"):
        replay(ring(3, 9), fabrics.uniform(2, 0, 0))
    with pytest.raises(ValueError, match="all_reduce by 'rng': no such algorithm"):
        replay(
            collective("all_reduce"),
            fabrics.uniform(4, 0, 0),
            algorithms={"all_reduce": "rng"},
        )
    for verb, name in (("all_reduce", "ring_all_gather"), ("reduce", "ring_all")):
        with pytest.raises(ValueError, match=f"{verb} by '{name}': no such algorithm"):
            replay(
                collective(verb, root=0),
                fabrics.uniform(4, 0, 0),
                algorithms={verb: name},
            )
    with pytest.raises(ValueError, match="'allreduce' is no verb; need one of broad"):
        replay(ring(3, 9), fabrics.uniform(3, 0, 0), algorithms={"allreduce": "tree"})


@pytest.mark.parametrize(
    "algorithm, complaint",
    [
        (3, "all_reduce by 3: no such algorithm"),
        (lambda p, n, i: None, "the plan <lambda> gives None; need a Trace of 4 ranks"),
        (lambda p, n, i: ring(8, 64), "gives Trace.world_size=8.*of 4 ranks"),
    ],
)
def test_an_algorithm_that_is_no_plan_of_it_is_refused(algorithm, complaint) -> None:
    """One of the reader's, without a return, or for as many ranks as it likes."""
    with pytest.raises(ValueError, match=complaint):
        replay(
            collective("all_reduce"),
            fabrics.uniform(4, 0, 0),
            algorithms={"all_reduce": algorithm},
        )


def test_what_is_no_fabric_is_refused() -> None:
    """A name, or a preset that was not called, is none."""
    for wrong in ("dgx_h100", fabrics.dgx_h100, None):
        with pytest.raises(TypeError, match="need a Fabric"):
            replay(ring(4, 64), wrong)
    with pytest.raises(TypeError, match="need them by verb"):
        replay(ring(4, 64), fabrics.dgx_h100(), algorithms="ring")


def test_a_larger_fabric_is_used_in_part() -> None:
    """Ranks of the trace stand at the first places."""
    assert elapsed(ring(4, 64), fabrics.uniform(9, ALPHA, BETA)) == elapsed(ring(4, 64))


def test_a_trace_of_nothing_takes_no_time() -> None:
    """No calls, no time, no path."""
    timeline = replay(Trace(3, {}), fabrics.uniform(3, ALPHA, BETA))
    assert timeline.elapsed == 0
    assert timeline.exposed() == [0.0] * 3
    assert timeline.critical_path() == []


def test_times_are_exact_from_nanoseconds_to_hours() -> None:
    """The quantum follows the length of the whole, so nothing overflows or is lost."""
    trace = ring(4, 4 * 10**12)
    hours = elapsed(trace, fabrics.uniform(4, 1.0, 1e-9))
    assert hours == pytest.approx(6 * (1.0 + 1000.0), rel=1e-12)
    tiny = elapsed(ring(4, 4), fabrics.uniform(4, 1e-12, 1e-15))
    assert tiny == pytest.approx(6 * (1e-12 + 1e-15), rel=1e-9)


def sends_of(rank: int, *peers: int, nbytes: int) -> list[Event]:
    """Sends of a rank one after another, and the recvs of the peers."""
    sends = [
        Event(rank, "send", nbytes, peer, issued=k, waited=100.0)
        for k, peer in enumerate(peers)
    ]
    recvs = [
        Event(peer, "recv", nbytes, rank, issued=0.0, waited=1.0) for peer in peers
    ]
    return sends + recvs


def test_a_rank_sends_inside_and_to_other_nodes_at_once() -> None:
    """It has a port for each, so two messages take as long as the slower one."""
    fabric = fabrics.hierarchical(2, 2, Link(1.0, 1.0), Link(3.0, 2.0), 2)
    to_both = Trace.from_events(sends_of(0, 1, 2, nbytes=8), 4, {})
    assert to_both.replay(fabric).elapsed == 3 + 2 * 8
    uniform = fabrics.uniform(4, 3.0, 2.0)
    assert to_both.replay(uniform).elapsed == 2 * (3 + 2 * 8)


@pytest.mark.parametrize("overhead, gap, apart", [(0.0, 1.0, 9), (12.0, 1.0, 12)])
def test_messages_follow_each_other_after_the_gap(overhead, gap, apart) -> None:
    """Not after alpha: k messages take k - 1 gaps and their bytes, and one alpha."""
    link = Link(20.0, 1.0, overhead, gap)
    fabric = fabrics.hierarchical(1, 4, link, link)
    trace = Trace.from_events(sends_of(0, 1, 2, 3, nbytes=8), 4, {})
    assert trace.replay(fabric).elapsed == 2 * apart + 20 + 8


def test_a_replay_that_has_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its number of messages, before it takes the memory."""
    monkeypatch.setattr(replay_program, "MANY", 1000)
    monkeypatch.setattr(replay_program, "free_memory", lambda: 10**5)
    with pytest.raises(ValueError, match="has 1,984 messages"):
        replay(ring(32, 3200), fabrics.uniform(32, ALPHA, BETA))
    assert replay(ring(8, 3200), fabrics.uniform(8, ALPHA, BETA)).elapsed > 0

"""What if: other jobs made of a recorded one cost what they would cost."""

from dataclasses import replace

import pytest

from collectives_lab import Event, Trace, fabrics, what_if
from collectives_lab.replay import changed_jobs
from collectives_lab.trace.waiting import exposed, own_time, recorded_seconds, straggler

MIB = 2**20
BUCKETS, COMPUTING, FORWARD = 6, 1.0, 6.0
"""Of a step of data parallelism: its buckets of 1 MiB, and seconds of computing."""

PER_MIB = 0.25
"""Seconds that an all_reduce of 1 MiB takes on 2 ranks, on the fabric it ran on."""

FABRIC = fabrics.uniform(2, 0, PER_MIB / MIB)


def step(slow=1.0, slow_from=0, slow_until=99, world_size=2):
    """The calls of DDP steps without times; the last rank is slow in some of them."""
    events = []
    for rank in range(world_size):
        time = 0.0
        for number in range(3):
            is_slow = rank == world_size - 1 and slow_from <= number < slow_until
            factor = slow if is_slow else 1.0
            time, events = _add_step(events, rank, time, factor)
    return Trace.from_events(events, world_size)


def _add_step(events, rank, time, factor):
    seconds = FORWARD * factor
    # A moment after the wait of the step before, which else would come after it.
    forward = Event(rank, "compute", issued=time + 1e-9, seconds=seconds - 1e-9)
    time, sent = time + seconds, []
    for _ in range(BUCKETS):
        time += COMPUTING * factor
        sent.append(Event(rank, "all_reduce", MIB, dtype="float32", issued=time))
    ended = [replace(e, waited=time, completed=time) for e in sent]
    return time, [*events, forward, *ended]


def recorded(**kwargs):
    """A recording of such steps: their times on FABRIC."""
    trace = step(**kwargs)
    fabric = fabrics.uniform(trace.world_size, 0, PER_MIB / MIB)
    return trace.replay(fabric, compute=1).trace, fabric


def test_the_error_of_the_replay_comes_first() -> None:
    """A recording that the model explains has none; another one says how far it is."""
    trace, fabric = recorded()
    job = what_if(trace, fabric)
    assert job.error == pytest.approx(0, abs=1e-9)
    assert job.elapsed == pytest.approx(recorded_seconds(trace))
    off = what_if(trace, fabrics.uniform(2, 0, 20 * PER_MIB / MIB))
    assert off.error > 0.5
    off.on(fabric)
    first, *_, last = repr(off).splitlines()
    assert "off the recorded" in first and last.startswith("on Fabric")


def test_another_fabric_is_what_the_calls_cost_there() -> None:
    """Computing stays, communication changes: as the same job, recorded there."""
    trace, fabric = recorded()
    slow = fabrics.uniform(2, 0, 10 * PER_MIB / MIB)
    there = step().replay(slow, compute=1)
    assert what_if(trace, fabric).on(slow).elapsed == pytest.approx(there.elapsed)


def test_a_trace_without_times_is_no_recording() -> None:
    """A plan has nothing to compare with."""
    with pytest.raises(ValueError, match="no times"):
        what_if(Trace.from_events([Event(0, "barrier")], 1), fabrics.loopback(1))


def test_waiting_is_taken_out() -> None:
    """Own time has no waits, and its replay is that of the recording."""
    trace, fabric = recorded(slow=2.0)
    own = own_time(trace)
    assert exposed(own) == pytest.approx([0, 0], abs=1e-9)
    assert own.replay(fabric, compute=1).elapsed == pytest.approx(
        trace.replay(fabric, compute=1).elapsed
    )
    assert recorded_seconds(own) < recorded_seconds(trace)


def test_exposed_is_what_the_replay_says() -> None:
    """What the recording shows as blocked is what its replay shows."""
    trace, fabric = recorded()
    shown = trace.replay(fabric, compute=1).exposed()
    assert exposed(trace) == pytest.approx(shown) and shown[0] > 0


# -- buckets ---------------------------------------------------------------------------


def buckets_of(trace, rank=0):
    """When buckets of a rank are sent, and how large they are."""
    sent = [e for e in trace.of_rank(rank) if e.op == "all_reduce"]
    return [(e.issued, e.nbytes) for e in sent]


def holds_for_buckets(rebucketed):
    """Whether a way to change buckets sends each when its last gradient is ready."""
    trace, _ = recorded()
    larger = buckets_of(rebucketed(trace, 3 * MIB))[:2]
    smaller = buckets_of(rebucketed(trace, MIB // 2))[:4]
    start = FORWARD
    same = buckets_of(own_time(trace)) == buckets_of(rebucketed(trace, MIB))
    total = sum(n for _, n in buckets_of(rebucketed(trace, MIB // 3)))
    return (
        same
        and total == 3 * BUCKETS * MIB
        and [(round(at - start, 6), n) for at, n in larger]
        == [(3.0, 3 * MIB), (6.0, 3 * MIB)]
        and [round(at - start, 6) for at, _ in smaller] == [0.5, 1.0, 1.5, 2.0]
    )


def test_a_bucket_is_sent_when_its_last_gradient_is_ready() -> None:
    """Larger ones later, smaller ones between; of the recorded size all stays."""
    assert holds_for_buckets(changed_jobs.rebucketed)


def test_buckets_that_are_sent_too_early_are_found() -> None:
    """The battery fails for one that sends a bucket with its first gradient."""

    def eager(trace, nbytes):
        changed = changed_jobs.rebucketed(trace, nbytes)
        events = [replace(e, issued=e.issued - 1e-3) for e in changed.events]
        return Trace.from_events(events, trace.world_size)

    assert not holds_for_buckets(eager)


def test_one_bucket_hides_nothing_and_takes_longer() -> None:
    """With all gradients in one bucket its communication is exposed as a whole."""
    trace, fabric = recorded()
    job = what_if(trace, fabric)
    one = job.with_buckets("64MiB")
    exposed_more = 3 * (BUCKETS - 1) * PER_MIB
    assert one.elapsed - job.replayed.elapsed == pytest.approx(exposed_more)
    assert "buckets of 64 MiB" in repr(job)


def test_a_job_without_buckets_is_refused() -> None:
    """Blocking calls are not the buckets of DDP."""
    event = Event(0, "all_reduce", 8, issued=1.0, waited=1.0, completed=2.0)
    trace = Trace.from_events([event, replace(event, rank=1)], 2)
    with pytest.raises(ValueError, match="no buckets"):
        what_if(trace, FABRIC).with_buckets(8)
    with pytest.raises(ValueError, match="need 1 byte"):
        what_if(recorded()[0], FABRIC).with_buckets(0)


# -- the straggler ---------------------------------------------------------------------


def test_the_straggler_is_the_rank_that_computes_longer() -> None:
    """From its first call on; though it is the others that are blocked."""
    found = straggler(recorded(slow=1.5, world_size=4)[0])
    assert (found.rank, found.number) == (3, 0)
    assert found.factor == pytest.approx(1.5, rel=0.05)
    assert found.late >= 3 and found.calls == 3 * BUCKETS
    assert "rank 3 takes" in str(found) and "all_reduce of 1 MiB" in str(found)


def test_a_rank_that_is_late_once_is_late_from_there() -> None:
    """Slow in the second step only: that is the first call named, and the last."""
    trace, _ = recorded(slow=3.0, slow_from=1, slow_until=2, world_size=4)
    found = straggler(trace)
    assert (found.rank, found.number) == (3, BUCKETS)
    assert found.late <= BUCKETS and found.seconds == pytest.approx(24)


def test_equal_ranks_have_no_straggler() -> None:
    """Nobody is named who is not late."""
    trace, fabric = recorded(world_size=4)
    assert straggler(trace) is None
    assert "straggler: none" in repr(what_if(trace, fabric))
    with pytest.raises(ValueError, match="no rank is a straggler"):
        what_if(trace, fabric).without()


def test_a_judge_who_takes_the_blocked_rank_is_wrong() -> None:
    """Who waits longest is not the straggler, but one of those who wait for it."""
    trace, _ = recorded(slow=1.5, world_size=4)
    waits = exposed(trace)
    assert waits.index(max(waits)) != straggler(trace).rank


def test_without_the_slow_rank_the_job_is_that_of_equal_ranks() -> None:
    """The straggler computes as the median of the others does."""
    trace, fabric = recorded(slow=2.0, world_size=4)
    equal = step(world_size=4).replay(fabric, compute=1)
    assert what_if(trace, fabric).without().elapsed == pytest.approx(equal.elapsed)


def test_a_rank_that_does_other_things_has_no_substitute() -> None:
    """Its computing cannot be compared with that of any other rank."""
    times = {"issued": 1.0, "waited": 1.0, "completed": 2.0}
    events = [Event(0, "send", 8, 1, **times), Event(1, "recv", 8, 0, **times)]
    with pytest.raises(ValueError, match="no other rank makes the calls"):
        what_if(Trace.from_events(events, 2), FABRIC).without(0)


# -- more nodes ------------------------------------------------------------------------


def test_twice_the_nodes_is_twice_the_ranks_with_the_same_work() -> None:
    """Each computes as before, and the all_reduces are those of all ranks."""
    trace, fabric = recorded()
    larger = fabrics.uniform(4, 0, PER_MIB / MIB)
    wanted = step(world_size=4).replay(larger, compute=1)
    answer = what_if(trace, fabric).on_more_nodes(larger)
    assert answer.elapsed == pytest.approx(wanted.elapsed)
    assert answer.trace.world_size == 4


def test_groups_that_do_not_grow_are_copied() -> None:
    """Each replica has its own tensor parallelism; roots and peers move with it."""
    events = [
        Event(0, "broadcast", 8, root=1, group="tensor", issued=0.0),
        Event(1, "broadcast", 8, root=1, group="tensor", issued=0.0),
        Event(0, "send", 8, peer=1, issued=1.0),
        Event(1, "recv", 8, peer=0, issued=1.0),
    ]
    trace = Trace.from_events(events, 2, {"tensor": (0, 1)})
    twice = changed_jobs.on_more_nodes(trace, 2)
    assert twice.groups["0"] == (0, 1, 2, 3)
    copied = [e for e in twice.of_rank(2) if e.op == "broadcast"]
    assert [(twice.groups[e.group], e.root) for e in copied] == [((2, 3), 3)]
    assert [(m.send.rank, m.recv.rank) for m in twice.messages] == [(0, 1), (2, 3)]
    with pytest.raises(ValueError, match="no group 'data'"):
        changed_jobs.on_more_nodes(trace, 2, ["data"])

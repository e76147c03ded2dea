"""The parameter server: its row of the battery, and never staler than its bound."""

import random
import sys
import time
from functools import partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from parallel_battery import BATCH, STEPS, Curves, S, System, Trained, flat, new_model

import collectives_lab as lab
from collectives_lab import fabrics
from collectives_lab.algorithms import ring_all_reduce
from collectives_lab.parallel import problem, server
from collectives_lab.replay.staleness import Clocks

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SHAPE = (3, 2)
NBYTES = 6 * 8
CLOCKS = 8


def sgd(weights: torch.Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD([weights], lr=1.0)


def start() -> torch.Tensor:
    return torch.arange(6, dtype=torch.float64).view(SHAPE)


def rising(weights: torch.Tensor, worker: int, clock: int, workers: int = 0):
    """A gradient that depends on everything; all numbers stay whole.

    workers: of one process that stands for them.
    """
    workers = workers or dist.get_world_size() - 1
    return float(weights.sum()), workers * (weights % 5 - worker + clock)


def drifting(weights: torch.Tensor, worker: int, clock: int):
    """A gradient that does not look at the weights, so that order does not matter."""
    return 0.0, torch.full_like(weights, float(12 * (worker + 1) * (clock + 1)))


def late(gradient, lead: int, weights: torch.Tensor, worker: int, clock: int):
    """A gradient whose worker 0 is late once: it waits for the others to be ahead."""
    begun = dist.distributed_c10d._get_default_store()
    if worker and clock == lead:
        begun.set(f"{worker} has a lead", "")
    others = [f"{w} has a lead" for w in range(1, dist.get_world_size() - 1)]
    deadline = time.monotonic() + (20 if worker == clock == 0 else 0)
    while time.monotonic() < deadline and not begun.check(others):
        time.sleep(0.01)
    return gradient(weights, worker, clock)


def drifted(workers: int) -> torch.Tensor:
    """Where all of the drifting gradients take the weights."""
    steps = sum(clock + 1 for clock in range(CLOCKS))
    return start() - 12 / workers * sum(w + 1 for w in range(workers)) * steps


# -- in step ---------------------------------------------------------------------------


def in_step(gradient=rising) -> server.Log:
    return server.synchronous(start(), gradient, CLOCKS, sgd)


def alone(workers: int) -> tuple[torch.Tensor, list[list[float]]]:
    """One process that does what the server and its workers do."""
    weights, losses = start(), [[] for _ in range(workers)]
    for clock in range(CLOCKS):
        clocks = [rising(weights, worker, clock, workers) for worker in range(workers)]
        weights = weights - sum(grad for _, grad in clocks) / workers
        for of_worker, (loss, _) in zip(losses, clocks, strict=True):
            of_worker.append(loss)
    return weights, losses


def check_in_step(results: list[server.Log]) -> None:
    weights, losses = alone(len(results) - 1)
    assert torch.equal(results[0].weights, weights)
    assert [log.losses for log in results[1:]] == losses


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_in_step_it_equals_one_process(world_size) -> None:
    """Weights and losses to the last bit, with one worker and with several."""
    results = lab.run(in_step, world_size).results
    check_in_step(results)
    updates = results[0].updates
    assert [(u.clock, u.worker) for u in updates] == [
        (clock, worker) for clock in range(CLOCKS) for worker in range(world_size - 1)
    ]
    assert {(u.ahead, u.missed) for u in updates} == {(0, 0)}


def test_bound_zero_is_in_step_too() -> None:
    """With SGD, weights given only when all have come are those of one process."""
    fn = partial(server.stale, start(), rising, CLOCKS, sgd, 0)
    check_in_step(lab.run(fn, 4).results)


def test_out_of_step_is_found() -> None:
    """The test above fails a server that lets workers run ahead."""

    fn = partial(server.stale, start(), partial(late, rising, 1), CLOCKS, sgd, None)
    results = lab.run(fn, 4).results
    with pytest.raises(AssertionError):
        check_in_step(results)


def train() -> server.Log:
    model = new_model()
    adam = partial(torch.optim.Adam, lr=problem.RATE)
    gradient = server.gradient_of(model, BATCH)
    return server.synchronous(flat(model), gradient, STEPS, lambda w: adam([w]))


def trained() -> Trained:
    """Workers have losses; the weights at the end are the server's."""
    log = train()
    return log.losses, None if log.losses else log.weights


def mean_of_workers(losses: Curves) -> Curves:
    return [[sum(of_step) / len(of_step) for of_step in zip(*losses[1:], strict=True)]]


SYSTEMS = {
    "server": System(
        trained,
        (2, 4),
        lambda p: [STEPS * (p - 1) * S, *[STEPS * S] * (p - 1)],
        curves=mean_of_workers,
    )
}


def test_the_curve_of_a_run_has_each_update() -> None:
    """Its time and the loss that its worker saw, in the order of the server."""
    results = lab.run(train, 4).results
    seconds, losses = zip(*server.curve(results), strict=True)
    assert list(seconds) == sorted(seconds) and len(losses) == 3 * STEPS
    assert losses[:3] == tuple(log.losses[0] for log in results[1:])


# -- what is sent ----------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["in step", 0, 2, None])
def test_the_bytes_on_the_servers_link(bound) -> None:
    """It sends (P-1) S a step and receives as much; a worker S each way."""
    if bound == "in step":
        fn = in_step
    else:
        fn = partial(server.stale, start(), rising, CLOCKS, sgd, bound)
    trace = lab.run(fn, 4).trace
    each = CLOCKS * NBYTES
    assert trace.bytes_sent() == trace.bytes_received() == [3 * each, *[each] * 3]
    assert trace.ops() == {"recv": 6 * CLOCKS, "send": 6 * CLOCKS}


def summed() -> None:
    ring_all_reduce(torch.ones(1024, dtype=torch.float64))


def served() -> server.Log:
    weights = torch.zeros(1024, dtype=torch.float64)
    return server.synchronous(weights, drifting, 1, sgd)


def test_the_server_is_the_bottleneck_and_the_ring_has_none() -> None:
    """A step takes it S for each worker and one more; a ring never takes 2 S."""
    nbytes = 8 * 1024
    times = {}
    for fn in (served, summed):
        for workers in (4, 8):
            world_size = workers + (fn is served)
            trace = lab.run(fn, world_size).trace
            replayed = trace.replay(fabrics.uniform(world_size, 0, 1 / nbytes))
            times[fn, workers] = replayed.elapsed
            share = workers if fn is served else 2 * (workers - 1) / workers
            assert max(trace.bytes_sent()) == share * nbytes
    assert times[served, 4] == pytest.approx(5)
    assert times[served, 8] == pytest.approx(9)
    assert times[summed, 4] == pytest.approx(1.5)
    assert times[summed, 8] == pytest.approx(1.75)


# -- the bound -------------------------------------------------------------------------


def play(rule, workers: int, bound: int | None, seed: int) -> int:
    """Let gradients come in any order, and look at each worker that goes on.

    Returns the longest lead. Fails if a lead exceeds the bound or workers stay behind.
    """
    rng = random.Random(seed)
    clocks = rule(workers, CLOCKS, bound)
    brought, longest = [0] * workers, 0
    computing = list(range(workers))
    while computing:
        weights = [1 if worker == 0 else 20 for worker in computing]  # 0 is slow
        (worker,) = rng.choices(computing, weights)
        computing.remove(worker)
        brought[worker] += 1
        for free in clocks.arrived(worker):
            lead = brought[free] - min(brought)
            assert bound is None or lead <= bound, f"{lead} clocks ahead of {bound}"
            assert free not in computing and brought[free] < CLOCKS
            longest = max(longest, lead)
            computing.append(free)
    assert brought == [CLOCKS] * workers
    return longest


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("bound", [0, 1, 3, None])
def test_no_worker_begins_further_ahead_than_the_bound(workers, bound) -> None:
    """Whoever is slow and in whatever order: all end, and the bound is used."""
    longest = max(play(Clocks, workers, bound, seed) for seed in range(50))
    most = CLOCKS - 1 if bound is None else bound
    assert longest == (0 if workers == 1 else most)


class OffByOne(Clocks):
    """Wrong: looks before the clock of who asks is counted."""

    def ahead(self, worker):
        return max(0, super().ahead(worker) - 1)


class Fastest(Clocks):
    """Wrong: compares with the fastest worker, not the slowest one."""

    def ahead(self, worker):
        return max(self.clock) - self.clock[worker]


class OnlyWhoAsks(Clocks):
    """Wrong: forgets the workers that wait, when the slow one comes."""

    def arrived(self, worker):
        free = super().arrived(worker)
        return [w for w in free if w == worker]


@pytest.mark.parametrize("wrong", [OffByOne, Fastest, OnlyWhoAsks])
def test_a_wrong_rule_is_found(wrong) -> None:
    """The test above fails rules that let workers go too early, or never."""
    with pytest.raises(AssertionError):
        for seed in range(50):
            play(wrong, 3, 1, seed)


def out_of_step(bound: int | None, rule=Clocks, lead: int = 0) -> server.Log:
    """On a rank: a run in which worker 0 is late until the others have a lead."""
    server.Clocks = rule
    return server.stale(start(), partial(late, drifting, lead), CLOCKS, sgd, bound)


def leads(trace: lab.Trace) -> list[int]:
    """By weights that the server gave, how far ahead their worker was: as recorded."""
    brought = [0] * trace.world_size
    lead = []
    for event in trace.of_rank(0):
        if event.op == "recv":
            brought[event.peer] += 1
        else:
            lead.append(brought[event.peer] - min(brought[1:]))
    return lead


@pytest.mark.parametrize("bound", [0, 2, None])
def test_a_late_worker_holds_up_nobody_beyond_the_bound(bound) -> None:
    """On real ranks the fast ones use all of the bound, and no more than it."""
    most = CLOCKS - 1 if bound is None else bound
    run = lab.run(out_of_step, 4, args=(bound, Clocks, most))
    lead, log = leads(run.trace), run.results[0]
    assert max(lead) == most
    assert sorted(lead) == sorted(update.ahead for update in log.updates)
    assert torch.equal(log.weights, drifted(3))
    count = [[u.clock for u in log.updates if u.worker == w] for w in range(3)]
    assert count == [list(range(CLOCKS))] * 3
    if bound is not None:  # each of two others may pass from bound behind to ahead
        assert max(u.missed for u in log.updates) <= 2 * (2 * bound + 1)


def test_a_server_that_breaks_the_bound_is_found() -> None:
    """The recorded run shows it, whatever the server says."""
    run = lab.run(out_of_step, 4, args=(1, OffByOne, 2))
    assert max(leads(run.trace)) == 2


def test_missed_updates_are_counted() -> None:
    """Those that came between a worker's weights and its gradient, as recorded."""
    run = lab.run(out_of_step, 3, args=(None, Clocks, 1))
    applied, seen, missed = 0, {}, []
    for event in run.trace.of_rank(0):
        if event.op == "recv":
            missed.append(applied - seen[event.peer])
            applied += 1
        else:
            seen[event.peer] = applied
    assert missed == [update.missed for update in run.results[0].updates]
    assert max(missed) > 0


# -- what does not fit -----------------------------------------------------------------


@pytest.mark.parametrize(
    "fn, world_size, complaint",
    [
        (in_step, 1, "8 steps on 1 ranks; need 1 step or more and 2 ranks"),
        (partial(out_of_step, -1), 2, "bound is -1; need 0 or more clocks, or None"),
        (
            partial(in_step, lambda w, *_: (0.0, w.flatten())),
            2,
            r"rank 1: a gradient of shape \(6,\) for weights of shape \(3, 2\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(fn, world_size, complaint) -> None:
    """The error says what was found and what is needed."""
    with pytest.raises(lab.LabError, match=complaint):
        lab.run(fn, world_size)

"""Pipeline parallelism: its schedules, and a step on real ranks like one process."""

import sys
from functools import partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from parallel_battery import BATCH, STEPS, System, Trained, new_model
from torch import nn

import collectives_lab as lab
from collectives_lab import fabrics
from collectives_lab.parallel import pipeline, problem, schedules
from collectives_lab.parallel.problem import Batch

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCHEDULES = [schedules.gpipe, schedules.one_f_one_b]
GPIPE = """
F0 F1 F2 F3 .  .  .  .  B3 B2 B1 B0
.  F0 F1 F2 F3 .  .  B3 B2 B1 B0 .
.  .  F0 F1 F2 F3 B3 B2 B1 B0 .  .
"""
ONE_F_ONE_B = """
F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
.  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .
.  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .
"""
WIDTH, ROWS = 3, 7
LETTER_WIDTH = 32


# -- schedules -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, table", [(schedules.gpipe, GPIPE), (schedules.one_f_one_b, ONE_F_ONE_B)]
)
def test_a_schedule_plays_as_its_table(make, table) -> None:
    """Where sending takes nothing, each action is in the square of the figure."""
    timeline = schedules.planned(make(3, 4), 1).replay(fabrics.uniform(3, 0, 0))
    squares = [["."] * 12 for _ in range(3)]
    for event in timeline.events:
        if event.op == "compute":
            squares[event.rank][round(event.issued)] = event.variant
    assert squares == [line.split() for line in table.split("\n") if line]
    for line in table.strip().split("\n"):
        assert line.strip() in schedules.__doc__


@pytest.mark.parametrize("make", SCHEDULES)
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("micro", [1, 3, 8, 13])
def test_the_bubble_is_that_of_the_formula(make, stages, micro) -> None:
    """Each rank is idle for (P-1)/(m+P-1) of a step whose sends take nothing."""
    plan = schedules.planned(make(stages, micro), 1, forward=1, backward=2)
    elapsed = plan.replay(fabrics.uniform(stages, 0, 0)).elapsed
    assert elapsed == 3 * (micro + stages - 1)
    bubble = 1 - 3 * micro / elapsed
    assert bubble == pytest.approx((stages - 1) / (micro + stages - 1))


def test_a_schedule_without_overlap_has_a_larger_bubble() -> None:
    """The formula does not hold for just any schedule: one micro-batch at a time."""
    alone = [[(k, m) for m in range(4) for k in "FB"] for _ in range(3)]
    plan = schedules.planned(alone, 1)
    assert plan.replay(fabrics.uniform(3, 0, 0)).elapsed == 2 * 4 * 3


@pytest.mark.parametrize("stages, micro", [(1, 1), (2, 5), (4, 2), (5, 8)])
def test_the_peak_of_activations(stages, micro) -> None:
    """GPipe keeps all micro-batches, 1F1B no more than there are stages behind."""
    peaks = [[schedules.peak(a) for a in make(stages, micro)] for make in SCHEDULES]
    assert peaks == [
        [micro] * stages,
        [min(stages - stage, micro) for stage in range(stages)],
    ]


@pytest.mark.parametrize(
    "schedule, complaint",
    [
        ([], "no stage"),
        ([[("F", 0)]], "stage 0 .* need an F and a B"),
        ([[("B", 0), ("F", 0)]], "B 0 before F 0; need the forward pass first"),
        ([[("F", 0), ("B", 0)], [("F", 0), ("B", 1)]], "stage 1 has the actions"),
        ([[("F", 0), ("B", 0)], [("F", 1), ("F", 0), ("B", 0), ("B", 1)]], "stage 1"),
    ],
)
def test_a_schedule_that_is_none_is_refused(schedule, complaint) -> None:
    """Each stage needs the F and then the B of each micro-batch once."""
    with pytest.raises(ValueError, match=complaint):
        schedules.micro_batches(schedule)


@pytest.mark.parametrize("stages, micro", [(0, 1), (2, 0), (2.0, 3), (True, 1)])
@pytest.mark.parametrize("make", SCHEDULES)
def test_counts_must_be_counts(make, stages, micro) -> None:
    """No schedule is made for half a stage or for no micro-batch."""
    with pytest.raises(ValueError, match="need a whole number, 1 or more"):
        make(stages, micro)


# -- a step on real ranks --------------------------------------------------------------


def integers(*shape: int, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=random).double()


def linear_model(layers: int = 5) -> nn.Sequential:
    """Linear layers of small integers, so that every sum is exact."""
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH).double() for _ in range(layers)))
    for i, parameter in enumerate(model.parameters()):
        parameter.data = integers(*parameter.shape, seed=i)
    return model


def examples() -> Batch:
    return Batch(integers(ROWS, WIDTH, seed=50), integers(ROWS, WIDTH, seed=51))


def square_loss(model, part: Batch, rows: int) -> torch.Tensor:
    return ((model(part.inputs) - part.targets) ** 2).sum()


def mean_of_means(model, part: Batch, rows: int) -> torch.Tensor:
    """Wrong: each micro-batch counts alike, however many examples it has."""
    micro = 3
    return square_loss(model, part, rows) / len(part.inputs) * ROWS / micro


def last_only(step, stage, batch, schedule, *rest, **named):
    """Wrong: gradients of a micro-batch replace those before it."""
    for parameter in stage.parameters():
        parameter.register_hook(lambda grad, p=parameter: setattr(p, "grad", None))
    return step(stage, batch, schedule, *rest, **named)


CASES = [
    (make, micro, ahead)
    for make in SCHEDULES
    for micro in (1, 3, 7)
    for ahead in (False, True)
]


def steps_of(cases, loss=square_loss, around=None):
    """On a rank: its gradients and what its step told, for every case."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    step = pipeline.step if around is None else partial(around, pipeline.step)
    collected = []
    for make, micro, ahead in cases:
        stage = pipeline.cut(linear_model(), world_size, rank)
        schedule = make(world_size, micro)
        done = step(stage, examples(), schedule, (WIDTH,), loss, ahead=ahead)
        collected.append(([p.grad for p in stage.parameters()], done))
    return collected


def check(results, cases) -> None:
    """Losses, gradients and peaks are those of one process; all of it exactly."""
    model = linear_model()
    loss = square_loss(model, examples(), ROWS)
    loss.backward()
    truth = [p.grad for p in model.parameters()]
    for number, (make, micro, _) in enumerate(cases):
        grads = [g for of_rank in results for g in of_rank[number][0]]
        assert len(grads) == len(truth)
        assert all(torch.equal(a, b) for a, b in zip(grads, truth, strict=True))
        steps = [of_rank[number][1] for of_rank in results]
        assert [s.loss for s in steps] == [None] * (len(steps) - 1) + [loss.item()]
        schedule = make(len(results), micro)
        assert [s.peak for s in steps] == [schedules.peak(a) for a in schedule]
        assert [[a for a, *_ in s.computed] for s in steps] == schedule


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_a_step_equals_one_process(world_size) -> None:
    """For any schedule and any micro-batches, even or not, to the last bit."""
    results = lab.run(steps_of, world_size, args=(CASES,)).results
    check(results, CASES)


@pytest.mark.parametrize(
    "wrong", [{"loss": mean_of_means}, {"around": last_only}], ids=["means", "last"]
)
def test_a_wrong_step_is_found(wrong) -> None:
    """The test above fails what forgets gradients or weighs them wrongly."""
    cases = [(schedules.one_f_one_b, 3, False)]
    fn = partial(steps_of, cases, **wrong)
    results = lab.run(fn, 2).results
    with pytest.raises(AssertionError):
        check(results, cases)


def train() -> Trained:
    """Train the letters' model in micro-batches of 4, 3 and 3: an Adam a stage."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    stage = pipeline.cut(new_model(), world_size, rank)
    optimizer = torch.optim.Adam(stage.parameters(), lr=problem.RATE)
    schedule = schedules.one_f_one_b(world_size, 3)
    losses = []
    for number in range(STEPS):
        optimizer.zero_grad()
        batch = problem.batch(number, BATCH)
        done = pipeline.step(stage, batch, schedule, (problem.LENGTH, LETTER_WIDTH))
        losses.append(done.loss)
        optimizer.step()
    return losses, None


def sent(world_size: int) -> list[int]:
    """A rank sends each of its neighbours the activations of a batch, or their
    gradients."""
    each = STEPS * BATCH * problem.LENGTH * LETTER_WIDTH * 8
    return [each, *[2 * each] * (world_size - 2), each]


SYSTEMS = {
    "pipeline": System(train, (2, 4), sent, curves=lambda losses: [losses[-1]]),
}


def test_pipelines_stand_side_by_side() -> None:
    """In groups of their own, two pipelines of 2 share out a batch: DP x PP."""

    def both() -> list[torch.Tensor]:
        groups = [dist.new_group(ranks) for ranks in ([0, 2], [3, 1])]
        own = dist.get_rank() % 2
        place = dist.get_rank(groups[own])
        stage = pipeline.cut(linear_model(), 2, place)
        part, schedule = examples().share(own, 2), schedules.gpipe(2, 2)
        pipeline.step(stage, part, schedule, (WIDTH,), square_loss, groups[own])
        return place, [p.grad for p in stage.parameters()]

    results = lab.run(both, 4).results
    model = linear_model()
    square_loss(model, examples(), ROWS).backward()
    truth = [p.grad for p in model.parameters()]
    for place, own in enumerate((truth[:6], truth[6:])):
        shares = [grads for at, grads in results if at == place]
        for grad, *parts in zip(own, *shares, strict=True):
            assert torch.equal(grad, sum(parts))


# -- what is sent, and when ------------------------------------------------------------


@pytest.mark.parametrize("make, micro, ahead", CASES)
def test_the_bytes_and_messages_are_those_of_the_plan(make, micro, ahead) -> None:
    """A rank sends A to each neighbour, in a message for each micro-batch."""
    run = lab.run(steps_of, 3, args=([(make, micro, ahead)],))
    each = WIDTH * 8
    assert run.trace.bytes_sent() == [ROWS * each, 2 * ROWS * each, ROWS * each]
    sizes = [len(t) * each for t in torch.arange(ROWS).tensor_split(micro)]
    plan = schedules.planned(make(3, micro), sizes, ahead=ahead)
    assert run.trace.moves() == plan.moves()
    assert run.trace.ops() == {"recv": 4 * micro, "send": 4 * micro}


def test_one_stage_sends_nothing() -> None:
    """A pipeline of one rank has no border."""
    trace = lab.run(steps_of, 1, args=(CASES,)).trace
    assert len(trace) == 0 and trace.bytes_sent() == [0]


@pytest.mark.parametrize("make, micro, ahead", CASES)
@pytest.mark.slow
def test_a_recorded_step_replays_like_its_plan(make, micro, ahead) -> None:
    """With the computing that it declares: the bubble on a free fabric, and alpha."""
    run = lab.run(steps_of, 4, args=([(make, micro, ahead)],))
    steps = [[step for _, step in of_rank] for of_rank in run.results]
    trace = pipeline.with_computing(run.trace, steps, {"F": 1, "B": 2})
    free, slow = fabrics.uniform(4, 0, 0), fabrics.uniform(4, 0.25, 0)
    assert trace.replay(free).elapsed == 3 * (micro + 3)
    sizes = [len(t) * WIDTH * 8 for t in torch.arange(ROWS).tensor_split(micro)]
    plan = schedules.planned(make(4, micro), sizes, 1, 2, ahead)
    assert trace.replay(slow).elapsed == plan.replay(slow).elapsed


def test_receiving_ahead_hides_latency() -> None:
    """A receive that is posted before computing lets the message come meanwhile."""
    slow = fabrics.uniform(4, 0.25, 0)
    plans = [
        schedules.planned(schedules.gpipe(4, 8), 1, ahead=ahead)
        for ahead in (False, True)
    ]
    waits, goes_on = (plan.replay(slow).elapsed for plan in plans)
    assert goes_on < waits


def test_what_a_rank_computes_is_between_its_calls() -> None:
    """The trace with computing can be drawn: nothing is computed while waiting."""
    run = lab.run(steps_of, 3, args=([(schedules.one_f_one_b, 3, True)],))
    steps = [[step for _, step in of_rank] for of_rank in run.results]
    trace = pipeline.with_computing(run.trace, steps)
    for rank, schedule in enumerate(schedules.one_f_one_b(3, 3)):
        events = trace.of_rank(rank)
        computed = [e for e in events if e.op == "compute"]
        assert [e.variant for e in computed] == [f"{k}{m}" for k, m in schedule]
        assert all(e.seconds > 0 for e in computed)
        waits = [(e.waited, e.completed) for e in events if e.op == "recv"]
        sends = [e.issued for e in events if e.op == "send"]
        for event in computed:
            begin, end = event.issued, event.completed
            assert all(end <= w or done <= begin for w, done in waits)
            assert not any(begin < issued < end for issued in sends)
    bars = lab.plots.lanes.scene(trace).bars
    assert sum(bar.is_compute for bar in bars) == 3 * 6


def test_computing_needs_the_steps_of_all_ranks() -> None:
    """Half of the ranks' notes are no trace."""
    with pytest.raises(ValueError, match="steps of 1 ranks for a trace of 2"):
        pipeline.with_computing(schedules.planned(schedules.gpipe(2, 1), 1), [[]])


# -- what does not fit -----------------------------------------------------------------


def test_stages_that_wait_for_each_other_are_a_deadlock() -> None:
    """A schedule of one's own that cannot go on is proved to be stuck."""
    circle = [
        [("F", 0), ("B", 0), ("F", 1), ("B", 1)],
        [("F", 0), ("F", 1), ("B", 0), ("B", 1)],
    ]
    with pytest.raises(lab.Deadlock, match="0 -> 1 -> 0"):
        lab.run(steps_of, 2, args=([(lambda *_: circle, 2, False)],))


@pytest.mark.parametrize(
    "stages, micro, shape, complaint",
    [
        (
            3,
            2,
            (WIDTH,),
            "the schedule is for 3 stages and 2 micro-batches, with 2 ranks",
        ),
        (2, 8, (WIDTH,), "8 micro-batches, with 2 ranks and 7 examples"),
        (2, 2, (WIDTH + 1,), r"rank 0: its stage gives \(3,\) .* need \(4,\)"),
    ],
)
def test_what_does_not_fit_is_refused(stages, micro, shape, complaint) -> None:
    """The error says what was found and what is needed."""

    def misfit() -> None:
        stage = pipeline.cut(linear_model(), 2, dist.get_rank())
        schedule = schedules.gpipe(stages, micro)
        pipeline.step(stage, examples(), schedule, shape, square_loss)

    with pytest.raises(lab.LabError, match=complaint):
        lab.run(misfit, 2)


@pytest.mark.parametrize("stages, stage", [(6, 0), (2, 2), (2, -1), (0, 0)])
def test_a_model_is_cut_between_its_layers(stages, stage) -> None:
    """Each stage needs a layer, and a stage must be one of them."""
    with pytest.raises(ValueError, match="a model with 5 layers"):
        pipeline.cut(linear_model(), stages, stage)


def test_a_cut_shares_all_layers() -> None:
    """Stages are neighbours, the first ones a layer longer, and own what they hold."""
    model = linear_model()
    stages = [list(pipeline.cut(model, 3, stage)) for stage in range(3)]
    assert [len(stage) for stage in stages] == [2, 2, 1]
    assert [layer for stage in stages for layer in stage] == list(model)

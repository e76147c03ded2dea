"""Strategies on paper take what a replay takes; published speeds; scaling."""

from functools import partial

import pytest

from collectives_lab import fabrics, plans, truth
from collectives_lab.fabrics import Fabric, Link
from collectives_lab.parallel import schedules
from collectives_lab.replay import replay
from collectives_lab.strategies import (
    PUBLISHED,
    Cluster,
    Sentence,
    Strategy,
    call_seconds,
    clusters,
    fastest,
    memory,
    models,
    published,
    scaling,
    sentences,
    step_time,
)
from collectives_lab.strategies.clusters import levels
from collectives_lab.strategies.models import gpt
from collectives_lab.strategies.timing import hardware_flops
from collectives_lab.trace import Event, Trace

# -- calls -----------------------------------------------------------------------------

NODES = {
    "own NICs": fabrics.hierarchical(4, 4, Link(2e-6, 1e-11), Link(9e-6, 4e-11), 4),
    "two NICs": fabrics.hierarchical(4, 4, Link(2e-6, 1e-11), Link(9e-6, 4e-11), 2),
    "one level": fabrics.uniform(16, 5e-6, 1e-10),
}
MESHES = [
    {"tensor": 4, "data": 4},
    {"tensor": 2, "data": 8, "expert": 2},
    {"tensor": 2, "data": 4, "expert": 4, "pipeline": 2},
    {"data": 16, "expert": 8},
    {"tensor": 16},
]
SIZE = 2**24
MODEL = models.Model("", 14, 256, 16, 256, 256, experts=16, top_k=2)


def groups_calling(strategy: Strategy, group: str, verb: str) -> Trace:
    """All groups along a dimension, each rank with one call of the verb."""
    ranks = range(strategy.world_size)
    groups = {
        str(strategy.members(group, rank)): strategy.members(group, rank)
        for rank in ranks
    }
    events = [
        Event(rank, verb, SIZE, group=str(strategy.members(group, rank)), issued=0.0)
        for rank in ranks
    ]
    return Trace.from_events(events, strategy.world_size, groups)


def replayed(strategy: Strategy, group: str, verb: str, fabric: Fabric) -> float:
    """Seconds on the fabric, by the algorithms that the formula stands for."""
    each = levels(strategy, group, fabric).each
    plan = partial(plans.hierarchical_all_reduce, ranks_per_node=each)
    algorithms = {"all_reduce": lambda p, n, size: plan(p, n, size)}
    trace = groups_calling(strategy, group, verb)
    return replay(trace, fabric, algorithms=algorithms).elapsed


def cases() -> list:
    return [
        pytest.param(mesh, group, id=f"{mesh} {group}")
        for mesh in MESHES
        for group in ("tensor", "data", "expert", "replica")
        if Strategy(model=MODEL, batch=16, sequence=1, **mesh).ranks(group) > 1
    ]


def both(mesh: dict, group: str, verb: str, name: str) -> tuple[float, float]:
    """Seconds of the formula, with the latencies of rings, and of the replay."""
    strategy = Strategy(model=MODEL, batch=16, sequence=1, **mesh)
    said = Sentence("", verb, "", group, strategy.ranks(group), SIZE, 1, "")
    found = call_seconds(said, strategy, NODES[name], rings=True)
    assert call_seconds(said, strategy, NODES[name]) <= found
    return found, replayed(strategy, group, verb, NODES[name])


@pytest.mark.parametrize("mesh, group", cases())
def test_calls_of_one_level_take_what_they_take_in_a_replay(mesh, group) -> None:
    """All groups at once; with both levels no call takes less than its bound."""
    strategy = Strategy(model=MODEL, batch=16, sequence=1, **mesh)
    for name in NODES:
        at = levels(strategy, group, NODES[name])
        found, right = both(mesh, group, "all_reduce", name)
        assert found <= right * (1 + 1e-9) or name == "two NICs"
        assert found <= 1.1 * right, "shared NICs overlap latencies"
        if name != "two NICs" and 1 in (at.each, at.nodes):
            assert found == pytest.approx(right, rel=1e-9)
        found, right = both(mesh, group, "all_to_all", name)
        assert found <= 1.1 * right
    assert found == pytest.approx(right, rel=1e-9), "one level"


@pytest.mark.parametrize("verb", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize("mesh, group", cases())
def test_two_halves_take_what_the_whole_takes(mesh: dict, group: str, verb) -> None:
    """An all_gather and a reduce_scatter take half an all_reduce."""
    strategy = Strategy(model=MODEL, batch=16, sequence=1, **mesh)
    for name, fabric in NODES.items():
        half, whole = (
            Sentence("", v, "", group, strategy.ranks(group), SIZE, 1, "")
            for v in (verb, "all_reduce")
        )
        found, twice = (
            call_seconds(one, strategy, fabric, rings=True) for one in (half, whole)
        )
        assert 2 * found == pytest.approx(twice)
        if name == "one level":
            right = replayed(strategy, group, verb, fabric)
            assert found == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("nodes", [2, 3, 4, 64])
def test_levels_work_side_by_side(nodes: int) -> None:
    """The longer of node and rank by hand, less than one level after the other."""
    fabric = fabrics.hierarchical(nodes, 4, Link(0, 1.0), Link(0, 4.0), 4)
    strategy = Strategy(model=MODEL, batch=4 * nodes, sequence=1, data=4 * nodes)
    said = Sentence("", "all_gather", "", "data", 4 * nodes, SIZE, 1, "")
    found = call_seconds(said, strategy, fabric) / SIZE
    into_node = (nodes - 1) / nodes  # over 4 cards, each a fourth as fast as NVLink
    into_rank = (4 * nodes - 1) / (4 * nodes) / (1 + 1 / 4)
    assert found == pytest.approx(max(into_node, into_rank))
    inside = 3 / 4
    assert found < 0.75 * (inside + into_node)


def test_a_bound_counts_one_latency_and_rings_count_all() -> None:
    """On 4 nodes of 4 ranks a ring goes across three times."""
    strategy = Strategy(model=MODEL, batch=16, sequence=1, data=16)
    said = Sentence("", "all_gather", "", "data", 16, SIZE, 1, "")
    fabric = NODES["own NICs"]
    one, all_of_them = (
        call_seconds(said, strategy, fabric, rings=rings) for rings in (False, True)
    )
    assert all_of_them - one == pytest.approx(2 * fabric.across.alpha)


def test_sends_go_where_the_order_has_put_the_stages() -> None:
    """Across nodes if the pipeline is outermost, inside if it is innermost."""
    strategy = Strategy(model=MODEL, batch=16, sequence=1, data=4, pipeline=2)
    said = sentences(strategy)[0]
    assert (said.verb, said.nbytes) == ("send", 4 * 256 * 2)
    fabric = NODES["own NICs"]
    assert call_seconds(said, strategy, fabric) == fabric.across.time(2048)
    inner = strategy.but(order=("pipeline", "tensor", "data"))
    assert call_seconds(said, inner, fabric) == fabric.inside.time(2048)


def test_a_spine_is_shared_by_all() -> None:
    """With 4 NICs a node and 4 times too little above them, across takes 4 times."""
    links = Link(2e-6, 1e-11), Link(0, 4e-11)
    strategy = Strategy(model=MODEL, batch=16, sequence=1, tensor=4, data=4)
    said = Sentence("", "all_reduce", "", "data", 4, SIZE, 1, "")
    free, thin = (
        call_seconds(said, strategy, fabrics.hierarchical(4, 4, *links, 4, times))
        for times in (None, 4)
    )
    assert thin == pytest.approx(4 * free)


def test_too_small_a_fabric_is_named() -> None:
    """With the ranks of both."""
    strategy = Strategy(model=MODEL, batch=32, sequence=1, data=32)
    with pytest.raises(ValueError, match="room for 16 ranks; the strategy has 32"):
        levels(strategy, "data", NODES["own NICs"])


# -- steps -----------------------------------------------------------------------------

PIPE = models.Model("", 16, 256, 16, 1024, 16)
PLANS = {"1f1b": schedules.one_f_one_b, "gpipe": schedules.gpipe}


@pytest.mark.parametrize("slow", [0, 0.1, 0.5])
@pytest.mark.parametrize("schedule", PLANS)
@pytest.mark.parametrize("p, micro", [(2, 2), (4, 1), (4, 4), (4, 16), (8, 32)])
def test_a_pipeline_takes_what_its_schedule_takes(p, micro, schedule, slow) -> None:
    """Exactly with free sends or one micro-batch, and GPipe with receives posted ahead.

    Else at most two sends each more. slow: what a send takes of a forward pass.
    """
    strategy = Strategy(
        model=PIPE,
        batch=micro,
        sequence=64,
        pipeline=p,
        micro_batches=micro,
        schedule=schedule,
    )
    forward, backward = (n / 1e12 for n in hardware_flops(strategy, p - 1))
    send = slow * forward
    fabric = partial(fabrics.uniform, alpha=0, beta=send / strategy.x_bytes)
    step = step_time(strategy, Cluster("", lambda n: fabric(8 * n), 1e12, 1e9))
    plan = PLANS[schedule](p, micro)
    trace = schedules.planned(plan, strategy.x_bytes, forward, backward)
    right = replay(trace, fabric(p)).elapsed
    if slow == 0 or micro == 1:
        assert step.seconds == pytest.approx(right, rel=1e-9)
    assert step.seconds * (1 - 1e-9) <= right
    if schedule == "gpipe":
        trace = schedules.planned(plan, strategy.x_bytes, forward, backward, ahead=True)
        ahead = replay(trace, fabric(p)).elapsed
        assert step.seconds == pytest.approx(ahead, rel=1e-9)
    assert right <= step.seconds * (1 + 1e-9) + 2 * micro * send


def test_a_rank_alone_only_computes() -> None:
    """At its peak it reaches an MFU of 1, with scores that are not computed again."""
    alone = Strategy(model=gpt(2, 256, 4), batch=4, sequence=64, recompute="none")
    step = step_time(alone, clusters.dgx_a100)
    assert step.seconds == step.computing
    assert step.mfu == pytest.approx(1)
    assert step_time(alone, clusters.dgx_a100, 0.5).mfu == pytest.approx(0.5)
    again = step_time(alone.but(recompute="full"), clusters.dgx_a100)
    blocks = 2 * (alone.model.block_flops + alone.model.attention_flops(64))
    assert 1 / again.mfu - 1 == pytest.approx(blocks / alone.model.flops(64))


def test_what_is_hidden_takes_no_time() -> None:
    """Gradients beside the backward pass, but for one call of them."""
    strategy = Strategy(model=models.llama2_7b, batch=256, sequence=4096, data=64)
    step = step_time(strategy, clusters.dgx_h100)
    total = sum(timed.seconds for timed in step.timed)
    calls = sum(timed.sentence.times for timed in step.timed)
    assert calls == 34
    assert step.data == pytest.approx(total / calls)
    waiting = step_time(strategy, clusters.dgx_h100, overlap=False)
    assert waiting.data == pytest.approx(total)
    together = step_time(strategy.but(unit="model"), clusters.dgx_h100)
    assert together.data == pytest.approx(together.timed[0].seconds)


def test_no_more_is_hidden_than_there_is_computing() -> None:
    """With few tokens the gradients take longer than the backward pass."""
    strategy = Strategy(model=models.llama2_7b, batch=64, sequence=64, data=64)
    step = step_time(strategy, clusters.dgx_h100)
    total = sum(timed.seconds for timed in step.timed)
    _, backward = hardware_flops(strategy, 0)
    assert step.data == pytest.approx(total - backward / clusters.dgx_h100.peak)


def test_zero3_takes_more_than_zero1() -> None:
    """Where it cannot be hidden, 3 for 2; gathered for each micro-batch."""
    shape = Strategy(model=models.llama2_7b, batch=64, sequence=64, data=64)
    one, three = (
        step_time(shape.but(zero=zero), clusters.dgx_h100, overlap=False).data
        for zero in (1, 3)
    )
    assert three == pytest.approx(1.5 * one)
    more = shape.but(zero=3, batch=256, micro_batches=4)
    four = step_time(more, clusters.dgx_h100, overlap=False).data
    assert four == pytest.approx(4 * three)


@pytest.mark.parametrize("efficiency", [0, -1, 1.5])
def test_an_efficiency_that_cannot_be_is_named(efficiency: float) -> None:
    """It is a share of the peak."""
    strategy = Strategy(model=models.tiny(), batch=8, sequence=32)
    with pytest.raises(ValueError, match="need a share of the peak"):
        step_time(strategy, clusters.dgx_a100, efficiency)


# -- published -------------------------------------------------------------------------


def test_published_runs_are_slower_than_our_floor() -> None:
    """But one, which so proves that its assumption, a piece a stage, is wrong."""
    faster = [run for run in PUBLISHED if run.gap < 1]
    assert [run.assumed[:7] for run in faster] == ["1 piece"]
    assert all(1 < run.gap < 2.3 for run in PUBLISHED if run.gap > 1 and not far(run))
    assert len(published().rows) == len(PUBLISHED)


def far(run) -> bool:
    """ZeRO-3 with one example a rank, three times as far from its floor as others."""
    return run.strategy.zero == 3 and run.strategy.data == 1536


def test_published_runs_are_those_of_the_truth() -> None:
    """Steps are held against forecasts with the same settings, here and there."""
    known = [vars(one.strategy) | {"model": ""} for one in truth.settings()]
    runs = [run.strategy for run in PUBLISHED if not run.assumed.startswith("1 piece")]
    assert len(runs) == 10
    assert all(vars(strategy) | {"model": ""} in known for strategy in runs)


def test_utilisation_is_that_of_the_papers() -> None:
    """Megatron's 52 % count what is computed again, 39 % do not; Llama's 43 and 41."""
    runs = {(run.strategy.model.name, run.strategy.data): run for run in PUBLISHED}
    trillion = runs["GPT 128 x 25600", 6]
    assert round(trillion.flop_rate / trillion.cluster.peak, 2) == 0.52
    assert round(trillion.mfu, 2) == 0.39
    assert round(runs["Llama 3 405B", 64].mfu, 2) == 0.43
    assert round(runs["Llama 3 405B", 128].mfu, 2) == 0.40


def test_days_are_those_of_the_paper() -> None:
    """300e9 tokens of GPT-3 take 84 days on 384 GPUs, 90 by ZeRO-3.

    Narayanan et al., SC 2021, table 2.
    """
    steps = 300e9 / (1536 * 2048)
    runs = {r.strategy.says(): r for r in PUBLISHED}
    for says, days in (("DP 4, TP 8, PP 12 x 4", 84), ("DP 384, ZeRO-3", 90)):
        assert runs[says].seconds * steps / 86_400 == pytest.approx(days, rel=0.03)


# -- scaling ---------------------------------------------------------------------------

SHARDED = Strategy(
    model=models.llama2_7b,
    batch=512,
    sequence=4096,
    data=8,
    zero=3,
    micro_batches=64,
    recompute="full",
)


def test_strong_scaling_holds_the_batch() -> None:
    """The same tokens a step, fewer a rank, in fewer micro-batches of the same size."""
    found = scaling(SHARDED, clusters.dgx_h100, [8, 64, 512], "batch")
    there = [step.strategy for step in found.steps]
    assert [s.world_size for s in there] == [8, 64, 512]
    assert {s.batch for s in there} == {512}
    assert [s.micro_batches for s in there] == [64, 8, 1]
    assert {s.tokens for s in there} == {4096}
    efficiency = found.efficiency()
    assert efficiency[0] == 1 and efficiency[2] < 1
    times = found.steps[1].seconds / found.steps[2].seconds
    assert times == pytest.approx(8 * efficiency[2] / efficiency[1])


def test_weak_scaling_holds_the_batch_of_a_rank() -> None:
    """The batch grows with the ranks; a step takes about as long."""
    found = scaling(SHARDED, clusters.dgx_h100, [8, 64, 512], "batch a rank")
    there = [step.strategy for step in found.steps]
    assert [s.batch // s.data for s in there] == [64] * 3
    assert {s.micro_batches for s in there} == {64}
    assert found.efficiency()[-1] == pytest.approx(
        found.steps[0].seconds / found.steps[-1].seconds
    )


def test_strong_scaling_loses_more_than_weak() -> None:
    """With a fixed batch a rank computes less, and sends as much."""
    plain = SHARDED.but(zero=1, micro_batches=1, batch=64, data=8)
    strong, weak = (
        scaling(plain, clusters.dgx_h100, [8, 64], hold).efficiency()[-1]
        for hold in ("batch", "batch a rank")
    )
    assert strong < weak <= 1


def test_what_is_held_must_be_known() -> None:
    """And the degree must divide the batch."""
    with pytest.raises(ValueError, match="hold is 'model'; need 'batch'"):
        scaling(SHARDED, clusters.dgx_h100, [8], "model")
    with pytest.raises(ValueError, match="batch=512 is no multiple"):
        scaling(SHARDED, clusters.dgx_h100, [1024], "batch")


def test_the_fastest_fits_and_is_the_fastest() -> None:
    """All fit into memory; none that fits is missing that a reader may think of."""
    found = fastest(models.llama2_7b, clusters.dgx_h100, 64, 256, 4096)
    times = [step.seconds for step in found]
    assert times == sorted(times) and len(found) > 20
    for step in found:
        s = step.strategy
        assert s.world_size == 64
        assert all(memory(s, stage).total <= 80e9 for stage in range(s.pipeline))
    assert not any(s.strategy.zero == 0 and s.strategy.data == 64 for s in found)
    given = fastest(
        models.llama2_7b, clusters.dgx_h100, 64, 256, 4096, tensor=1, pipeline=1, zero=3
    )
    assert given and all(step.strategy.data == 64 for step in given)
    assert given[0].seconds >= found[0].seconds


@pytest.mark.slow
def test_no_strategy_that_is_left_out_is_quicker() -> None:
    """What is looked for part by part is no quicker than what is found at once."""
    search = partial(fastest, models.llama2_7b, clusters.dgx_h100, 32, 32, 4096)
    found = search()
    parts = [
        search(zero=zero, recompute=again, tensor=tensor)
        for zero in range(4)
        for again in ("selective", "full")
        for tensor in (1, 2, 4, 8)
    ]
    assert min(part[0].seconds for part in parts if part) == found[0].seconds
    assert sum(map(len, parts)) > 2 * len(found), "some are left out"


def test_the_search_shortens_rings_and_bubbles() -> None:
    """On many ranks, copies of the shards are quicker, and so are pieces of stages."""
    search = partial(fastest, models.llama2_7b, clusters.dgx_h100, rings=True)
    on_1024 = search(1024, 1024, 4096, tensor=1, pipeline=1, zero=3)
    assert on_1024[0].strategy.copies > 1
    whole = search(1024, 1024, 4096, tensor=1, pipeline=1, zero=3, copies=1)
    assert on_1024[0].seconds < 0.95 * whole[0].seconds
    staged = search(1024, 256, 4096, tensor=8, pipeline=8, zero=1)
    assert staged[0].strategy.interleave > 1


def test_all_of_it_is_shown_as_a_table() -> None:
    """In a notebook and in a terminal, with units, and no row for what is not there."""
    step = step_time(SHARDED, clusters.dgx_h100)
    strong = scaling(SHARDED, clusters.dgx_h100, [8, 64], "batch")
    shown = {
        "reduce_scatter": sentences(SHARDED),
        "activations": memory(SHARDED),
        "computing": step,
        "held fixed: batch": strong,
    }
    for word, thing in shown.items():
        assert word in repr(thing) and word in thing._repr_html_()
        assert "<table" in thing._repr_html_()
    assert "pipeline" not in repr(step)
    assert "the owner of a part" in repr(sentences(SHARDED).table(why=True))

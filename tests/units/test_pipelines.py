"""Pipeline schedules in virtual time: their bubble, and what a stage keeps."""

import pytest

from collectives_lab.parallel import schedules
from collectives_lab.replay import pipelines
from collectives_lab.replay.pipelines import Work

WHOLE = {"F": 1.0, "B": 2.0}
HALVES = {"F": 1.0, "B": 1.0, "W": 1.0}
COUNTS = [(1, 1), (2, 4), (3, 4), (4, 2), (4, 8), (8, 16)]
"""Stages and micro-batches."""


def idle(orders: pipelines.Orders, seconds: dict[str, float], pieces: int = 1) -> float:
    """How long each stage waits, in units of its whole forward pass."""
    last = max(bars[-1].end for bars in pipelines.play(orders, seconds))
    busy = sum(seconds[work.kind] for work in orders[0])
    return (last - busy) / pieces


@pytest.mark.parametrize("stages, micro", COUNTS)
@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b"])
def test_orders_of_one_piece_are_those_that_ranks_run(
    name: str, stages: int, micro: int
) -> None:
    """With one piece a stage, both are the schedules of `parallel.schedules`."""
    orders = getattr(pipelines, name)(stages, micro)
    run = getattr(schedules, name)(stages, micro)
    assert [[(work.kind, work.micro) for work in order] for order in orders] == run
    assert [*map(pipelines.kept, orders)] == [*map(schedules.peak, run)]


@pytest.mark.parametrize("pieces", [1, 2, 4, 8])
@pytest.mark.parametrize("stages, micro", [(2, 2), (2, 8), (4, 4), (4, 16), (8, 16)])
def test_pieces_divide_the_bubble(stages: int, micro: int, pieces: int) -> None:
    """The idle time is (P - 1)/v of a forward and a backward pass."""
    orders = pipelines.one_f_one_b(stages, micro, pieces)
    assert idle(orders, WHOLE, pieces) == 3 * (stages - 1) / pieces


def test_pieces_need_as_many_micro_batches_as_stages() -> None:
    """With fewer, a stage waits between its pieces, and the bubble is larger."""
    orders = pipelines.one_f_one_b(8, 4, 2)
    assert idle(orders, WHOLE, 2) > 3 * (8 - 1) / 2


@pytest.mark.parametrize("stages, micro", [(2, 2), (3, 5), (4, 8), (8, 8), (16, 32)])
def test_postponed_weights_leave_a_third_of_the_bubble(stages: int, micro: int) -> None:
    """The idle time is (P - 1)(F + B - 2W), and no stage keeps more than 1F1B's first.

    Source: Qi et al. 2024, table 1, with B for both halves.
    """
    orders = pipelines.zero_bubble(stages, micro)
    assert idle(orders, HALVES) == stages - 1
    assert idle(pipelines.one_f_one_b(stages, micro), WHOLE) == 3 * (stages - 1)
    assert {pipelines.kept(order) for order in orders} == {stages}


@pytest.mark.parametrize("stages, micro", COUNTS)
def test_no_work_is_lost_or_too_early(stages: int, micro: int) -> None:
    """Every stage has each kind once for each micro-batch, its own parts in order."""
    everything = {Work(kind, m) for kind in "FBW" for m in range(micro)}
    orders = pipelines.zero_bubble(stages, micro)
    for order, bars in zip(orders, pipelines.play(orders, HALVES), strict=True):
        assert len(order) == 3 * micro and {*order} == everything
        begin = {bar.work: bar.begin for bar in bars}
        for m in range(micro):
            F, B, W = (begin[Work(kind, m)] for kind in "FBW")
            assert F < B < W


def test_a_stage_waits_for_its_neighbours() -> None:
    """Forward passes go down the pipeline, backward passes up."""
    first, last = pipelines.play(pipelines.one_f_one_b(2, 1), WHOLE)
    assert first == [(Work("F", 0), 0, 1), (Work("B", 0), 4, 6)]
    assert last == [(Work("F", 0), 1, 2), (Work("B", 0), 2, 4)]


def test_a_circle_is_found() -> None:
    """A stage that wants its backward pass first names what it waits for."""
    orders = [[Work("B", 0), Work("F", 0)], [Work("F", 0), Work("B", 0)]]
    with pytest.raises(ValueError, match=r"stage 0 never begins .*'B'.*circle"):
        pipelines.play(orders, WHOLE)

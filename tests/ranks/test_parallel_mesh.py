"""Products of strategies on a grid of ranks: equal to one process; bytes by level."""

import sys
from functools import cache, partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from torch import nn

import collectives_lab as lab
from collectives_lab.parallel import data, mesh, problem, tensor, vocabulary
from collectives_lab.trace import Event, Trace

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])

STEPS, BATCH = 3, 6


def new_model() -> nn.Sequential:
    return problem.new_model(dtype=torch.float64)


def losses(data_ranks: int, tensor_ranks: int, by_sequence: bool) -> list[float]:
    return mesh.train(data_ranks, tensor_ranks, by_sequence, STEPS, BATCH, new_model())


@cache
def trained(data_ranks: int, tensor_ranks: int, by_sequence: bool) -> lab.Run:
    sizes = (data_ranks, tensor_ranks, by_sequence)
    return lab.run(losses, data_ranks * tensor_ranks, args=sizes, timeout=60)


def agrees(results: list[list[float]], tensor_ranks: int) -> bool:
    alone = problem.train(STEPS, BATCH, new_model())
    return all(
        problem.added_up(results[at::tensor_ranks]) == pytest.approx(alone, rel=1e-12)
        for at in range(tensor_ranks)
    )


GRIDS = [(1, 1), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)]


@pytest.mark.parametrize("by_sequence", [False, True])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_grid_trains_as_one_process(grid: tuple[int, int], by_sequence: bool):
    """4 and 8 ranks, data x tensor; 6 examples are uneven over 4."""
    run = trained(*grid, by_sequence)
    assert agrees(run.results, grid[1])


def three(pipe: int, data_ranks: int, tensor_ranks: int) -> list[float]:
    sizes = pipe, data_ranks, tensor_ranks
    return mesh.train_3d(*sizes, 2, STEPS, BATCH, new_model())


@pytest.mark.parametrize("p, d, t", [(1, 1, 1), (4, 1, 1), (2, 1, 3), (2, 2, 2)])
def test_three_levels_train_as_one_process(p: int, d: int, t: int) -> None:
    """Stages of parts of replicas; x and its gradient go along the pipe."""
    run = lab.run(three, p * d * t, args=(p, d, t), timeout=60)
    assert agrees(run.results, t)
    sent = mesh.bytes_by_level(run.trace, pipe=p, data=d, tensor=t)
    x = 8 * BATCH // d * problem.LENGTH * 32
    inner, ends = [2 * STEPS * x] * (d * t), [STEPS * x] * (d * t)
    pipe = [*ends, *inner * (p - 2), *ends] if p > 1 else [0] * (d * t)
    assert sent["pipe"] == pipe
    assert set(sent) == {"pipe", "data", "tensor"}
    assert (min(sent["data"]) > 0) == (d > 1) and (min(sent["tensor"]) > 0) == (t > 1)


def wrong_group(levels: dict[str, int], level: str) -> list[float]:
    """Adds up gradients along another level than the data's."""
    grid = mesh.grid(**levels)
    parts = grid.get_group("tensor")
    mine = tensor.tensor_parallel(new_model(), parts)
    optimizer = torch.optim.Adam(mine.parameters(), lr=problem.RATE)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        share = problem.batch(step, BATCH).share(grid.get_local_rank("data"), 2)
        loss = vocabulary.loss(mine, share, whole=BATCH, group=parts)
        loss.backward()
        data.all_reduce_each(mine, None if level == "all" else grid.get_group(level))
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("level, right", [("data", 1), ("tensor", 0), ("all", 0)])
def test_a_sum_along_the_wrong_level_is_found(level: str, right: bool) -> None:
    """The test above fails where it should."""
    run = lab.run(wrong_group, 4, args=({"data": 2, "tensor": 2}, level))
    assert agrees(run.results, 2) == right


@pytest.mark.parametrize("by_sequence", [False, True])
@pytest.mark.parametrize("d, t", [(2, 2), (2, 4), (1, 4)])
def test_bytes_by_level(d: int, t: int, by_sequence: bool) -> None:
    """Along tensor x for a share of the batch, along data gradients of a part."""
    run = trained(d, t, by_sequence)
    sent = mesh.bytes_by_level(run.trace, data=d, tensor=t)
    parameters = list(new_model().parameters())
    norms = sum(p.nbytes for p in parameters if p.dim() == 1)
    rest = sum(p.nbytes for p in parameters) - norms
    letters = 8 * BATCH // d * problem.LENGTH
    along_tensor = letters * (10 * 32 + 3) + (norms if by_sequence else 0)
    along_data = norms + rest / t
    assert sent == {
        "data": [STEPS * 2 * along_data * (d - 1) / d] * (d * t),
        "tensor": [STEPS * 2 * along_tensor * (t - 1) / t] * (d * t),
    }
    assert sum(map(sum, sent.values())) == sum(run.trace.bytes_sent())


def test_a_call_belongs_to_the_levels_along_which_its_ranks_differ() -> None:
    """Groups, messages, and calls of all ranks; of one rank alone, none."""
    groups = {"row": (4, 5), "column": (1, 3, 5), "one": (2,)}
    events = [
        Event(4, "all_gather", 10, group="row"),
        Event(5, "all_reduce", 9, group="column"),
        Event(0, "send", 3, peer=1),
        Event(0, "send", 5, peer=2),
        Event(0, "all_gather", 6),
        Event(2, "all_reduce", 7, group="one"),
    ]
    trace = Trace.from_events(events, 6, groups)
    assert mesh.bytes_by_level(trace, node=3, local=2) == {
        "node": [5, 0, 0, 0, 0, 12],
        "local": [3, 0, 0, 0, 5, 0],
        "node+local": [5, 0, 0, 0, 0, 0],
    }
    with pytest.raises(ValueError, match="the trace has 6 ranks"):
        mesh.bytes_by_level(trace, node=2, local=2)


def places() -> tuple[int, int, int]:
    grid = mesh.grid(pipe=2, data=1, tensor=3)
    return tuple(grid.get_local_rank(name) for name in ("pipe", "data", "tensor"))


def test_the_last_level_counts_fastest() -> None:
    """Neighbours in the world are neighbours along it."""
    found = lab.run(places, 6).results
    assert found == [(p, 0, t) for p in range(2) for t in range(3)]


@pytest.mark.parametrize("levels", [{"data": 3}, {"data": -2, "tensor": -1}, {}])
def test_a_grid_that_does_not_fit_is_named(levels: dict[str, int]) -> None:
    """The levels and the world size are in the error."""
    with pytest.raises(lab.RankError, match="the world has 2"):
        lab.run(lambda: mesh.grid(**levels), 2)


# -- two levels ------------------------------------------------------------------------


def summed(nodes: int, *shapes: tuple[int, ...], turned: bool = False) -> list:
    """4^rank in every place, so that a wrong sum names the rank."""
    ranks = dist.get_world_size() // nodes
    grid = mesh.grid(node=nodes, local=ranks)
    groups = grid.get_group("local"), grid.get_group("node")
    mine = 4.0 ** dist.get_rank()
    xs = [torch.full(shape, mine, dtype=torch.float64).t() for shape in shapes]
    for x in xs:
        mesh.two_level_all_reduce(x, *(groups[::-1] if turned else groups))
    return xs


SHAPES = [(0,), (1,), (2, 3), (7,)]


@pytest.mark.parametrize("nodes, ranks", [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3)])
def test_two_levels_add_up(nodes: int, ranks: int) -> None:
    """Every rank's term once, on every rank, in tensors of any shape."""
    world_size = nodes * ranks
    total = sum(4.0**rank for rank in range(world_size))
    for found in lab.run(summed, world_size, args=(nodes, *SHAPES)).results:
        assert [x.shape for x in found] == [shape[::-1] for shape in SHAPES]
        assert all((x == total).all() for x in found)


@pytest.mark.parametrize("nodes, ranks", [(2, 3), (4, 2)])
def test_only_a_part_crosses(nodes: int, ranks: int) -> None:
    """2 S (M-1)/M / G across nodes from each rank, 2 S (G-1)/G within."""
    size = 8 * 24
    run = lab.run(summed, nodes * ranks, args=(nodes, (24,)))
    assert mesh.bytes_by_level(run.trace, node=nodes, local=ranks) == {
        "node": [2 * size * (nodes - 1) / nodes / ranks] * (nodes * ranks),
        "local": [2 * size * (ranks - 1) / ranks] * (nodes * ranks),
    }


def test_turned_levels_cross_with_more() -> None:
    """The sum is right with nodes and places exchanged, but not the bytes."""
    run = lab.run(partial(summed, turned=True), 6, args=(2, (24,)))
    assert (run.results[0][0] == sum(4.0**rank for rank in range(6))).all()
    sent = mesh.bytes_by_level(run.trace, node=2, local=3)
    assert sum(sent["node"]) == 3 * 2 * 8 * 24

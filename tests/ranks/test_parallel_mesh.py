"""Products of strategies on a grid of ranks: rows of the battery; bytes by level."""

import sys
from functools import partial

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from parallel_battery import (
    BATCH,
    PARAMETERS,
    STEPS,
    Curves,
    S,
    System,
    Trained,
    new_model,
)

import collectives_lab as lab
from collectives_lab.parallel import data, mesh, problem, tensor, vocabulary
from collectives_lab.trace import Event, Trace

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def along_tensor(ranks: int, losses: Curves) -> Curves:
    """Shares of replicas add up, and each rank along `tensor` has the same."""
    return [problem.added_up(losses[at::ranks]) for at in range(ranks)]


def on_grid(data_ranks: int, tensor_ranks: int, by_sequence: bool) -> Trained:
    sizes = (data_ranks, tensor_ranks, by_sequence)
    return mesh.train(*sizes, STEPS, BATCH, new_model()), None


def three(pipe: int, data_ranks: int, tensor_ranks: int) -> Trained:
    sizes = pipe, data_ranks, tensor_ranks
    return mesh.train_3d(*sizes, 2, STEPS, BATCH, new_model()), None


def summed_along(level: str) -> Trained:
    """Add up gradients along the level of the data, or wrongly along another one."""
    grid = mesh.grid(data=2, tensor=2)
    parts = grid.get_group("tensor")
    own = tensor.tensor_parallel(new_model(), parts)
    optimizer = torch.optim.Adam(own.parameters(), lr=problem.RATE)
    group = None if level == "all" else grid.get_group(level)

    def loss(step: int) -> torch.Tensor:
        share = problem.batch(step, BATCH).share(grid.get_local_rank("data"), 2)
        return vocabulary.loss(own, share, whole=BATCH, group=parts)

    sum_up = partial(data.all_reduce_each, own, group)
    return problem.descend(optimizer, loss, STEPS, sum_up), None


def bytes_on_grid(d: int, t: int, by_sequence: bool) -> dict[str, float]:
    """Along tensor x for a share of the batch, along data gradients of a part.

    Where it is the same on every rank: if 10 examples are even over d.
    """
    norms = sum(p.nbytes for p in PARAMETERS if p.dim() == 1)
    letters = 8 * BATCH // d * problem.LENGTH
    along_tensor = letters * (10 * 32 + 3) + (norms if by_sequence else 0)
    along_data = norms + (S - norms) / t
    return {
        "data": STEPS * 2 * along_data * (d - 1) / d,
        "tensor": STEPS * 2 * along_tensor * (t - 1) / t,
    }


def grid_system(d: int, t: int, by_sequence: bool) -> System:
    def sent(world_size: int) -> list[float]:
        return [sum(bytes_on_grid(d, t, by_sequence).values())] * world_size

    return System(
        partial(on_grid, d, t, by_sequence),
        (d * t,),
        sent if BATCH % d == 0 else None,
        curves=partial(along_tensor, t),
        slow=True,
    )


SYSTEMS = {
    f"{d} x {t}{' by sequence' if by_sequence else ''}": grid_system(d, t, by_sequence)
    for d, t in [(1, 1), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)]
    for by_sequence in (False, True)
} | {
    f"{p} x {d} x {t}": System(
        partial(three, p, d, t),
        (p * d * t,),
        curves=partial(along_tensor, t),
        slow=True,
    )
    for p, d, t in [(1, 1, 1), (4, 1, 1), (2, 1, 3), (2, 2, 2)]
}
SYSTEMS["2 x 2 by hand"] = System(
    partial(summed_along, "data"),
    (4,),
    curves=partial(along_tensor, 2),
    wrong={level: partial(summed_along, level) for level in ("tensor", "all")},
    wrong_on=4,
    slow=True,
)


@pytest.mark.parametrize("by_sequence", [False, True])
@pytest.mark.parametrize("d, t", [(2, 2), (2, 4), (1, 4)])
def test_bytes_by_level(d: int, t: int, by_sequence: bool) -> None:
    """All bytes are along one level or the other."""
    trace = lab.run(on_grid, d * t, args=(d, t, by_sequence), timeout=60).trace
    sent = mesh.bytes_by_level(trace, data=d, tensor=t)
    expected = bytes_on_grid(d, t, by_sequence)
    assert sent == {level: [n] * (d * t) for level, n in expected.items()}
    assert sum(map(sum, sent.values())) == sum(trace.bytes_sent())


@pytest.mark.parametrize("p, d, t", [(1, 1, 1), (4, 1, 1), (2, 1, 3), (2, 2, 2)])
def test_bytes_by_three_levels(p: int, d: int, t: int) -> None:
    """x and its gradient go along the pipe."""
    trace = lab.run(three, p * d * t, args=(p, d, t), timeout=60).trace
    sent = mesh.bytes_by_level(trace, pipe=p, data=d, tensor=t)
    x = 8 * BATCH // d * problem.LENGTH * 32
    inner, ends = [2 * STEPS * x] * (d * t), [STEPS * x] * (d * t)
    pipe = [*ends, *inner * (p - 2), *ends] if p > 1 else [0] * (d * t)
    assert sent["pipe"] == pipe
    assert set(sent) == {"pipe", "data", "tensor"}
    assert (min(sent["data"]) > 0) == (d > 1) and (min(sent["tensor"]) > 0) == (t > 1)


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
    results = lab.run(places, 6).results
    assert results == [(p, 0, t) for p in range(2) for t in range(3)]


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
    own = 4.0 ** dist.get_rank()
    xs = [torch.full(shape, own, dtype=torch.float64).t() for shape in shapes]
    for x in xs:
        mesh.two_level_all_reduce(x, *(groups[::-1] if turned else groups))
    return xs


SHAPES = [(0,), (1,), (2, 3), (7,)]


@pytest.mark.parametrize("nodes, ranks", [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3)])
def test_two_levels_add_up(nodes: int, ranks: int) -> None:
    """Every rank's term once, on every rank, in tensors of any shape."""
    world_size = nodes * ranks
    total = sum(4.0**rank for rank in range(world_size))
    for result in lab.run(summed, world_size, args=(nodes, *SHAPES)).results:
        assert [x.shape for x in result] == [shape[::-1] for shape in SHAPES]
        assert all((x == total).all() for x in result)


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

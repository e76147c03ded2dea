"""The two trees of a double tree: who is above whom, and when an edge is used."""

from collections import Counter

import pytest

from collectives_lab.basics.trees import Parents, double_tree, first_steps, nccl_trees

WORLD_SIZES = [*range(1, 34), 100, 1000]


def depth(parent: Parents, rank: int) -> int:
    above, steps = parent[rank], 0
    while above is not None:
        above, steps = parent[above], steps + 1
    return steps


def clashes(
    parents: tuple[Parents, Parents], first: tuple[list[int], list[int]]
) -> list[tuple]:
    """Ranks that, at some time, send twice or receive twice in the same step."""
    used: Counter = Counter()
    for parent, steps in zip(parents, first, strict=True):
        for rank, above in enumerate(parent):
            if above is not None:
                used["sends", rank, steps[rank] % 2] += 1
                used["receives", above, steps[rank] % 2] += 1
    return [port for port, times in used.items() if times > 1]


def test_the_trees_of_eight_ranks() -> None:
    """Rank 0 is above a tree over 1 to 7, and the other tree is its mirror."""
    first, second = double_tree(8)
    assert first == [None, 2, 4, 2, 0, 6, 4, 6]
    assert second == [1, 3, 1, 7, 5, 3, 5, None]


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_both_trees_reach_everyone(world_size: int) -> None:
    """Each has one root, at most 2 children a rank, and the least depth they allow."""
    for parent in double_tree(world_size):
        assert parent.count(None) == 1
        children = Counter(above for above in parent if above is not None)
        assert max(children.values(), default=0) <= 2
        deepest = max(depth(parent, rank) for rank in range(world_size))
        assert deepest <= (world_size - 1).bit_length()


def parents_of(children: dict[int, list[int]]) -> Parents:
    """The parents, from each rank's children."""
    above = {child: rank for rank, below in children.items() for child in below}
    return [above.get(rank) for rank in range(len(above) + 1)]


def test_nccls_trees_are_those_of_its_drawings() -> None:
    """Of 14 and of 13 ranks, in the comments of src/graph/trees.cc of NCCL."""
    of_14 = {0: [8], 8: [4, 12], 4: [2, 6], 12: [10, 13]}
    of_14 |= {2: [1, 3], 6: [5, 7], 10: [9, 11]}
    assert nccl_trees(14)[0] == parents_of(of_14)
    of_13 = {0: [8], 8: [4, 12], 4: [2, 6], 12: [10]}
    of_13 |= {2: [1, 3], 6: [5, 7], 10: [9, 11]}
    shifted = {1: [9], 9: [5, 0], 5: [3, 7], 0: [11]}
    shifted |= {3: [2, 4], 7: [6, 8], 11: [10, 12]}
    assert nccl_trees(13) == (parents_of(of_13), parents_of(shifted))


def test_nccls_tree_of_three_is_a_chain() -> None:
    """Which the double tree of the book, a star, is not."""
    assert nccl_trees(3) == ([None, 2, 0], [1, None, 0])
    assert nccl_trees(3)[0] != double_tree(3)[0]


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_an_inner_node_of_one_tree_is_a_leaf_of_the_other(world_size: int) -> None:
    """So every rank passes on half of the data, and nobody all of it."""
    first, second = ({*parent} - {None} for parent in double_tree(world_size))
    assert not first & second


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_a_rank_sends_and_receives_once_a_step(world_size: int) -> None:
    """Edges at one port take turns, and a rank sends after it has received."""
    parents = double_tree(world_size)
    first = first_steps(parents)
    assert not clashes(parents, first)
    for parent, steps in zip(parents, first, strict=True):
        for rank, above in enumerate(parent):
            if above is not None and parent[above] is not None:
                assert steps[above] > steps[rank]
        # Each level takes two steps, and may wait for its turn.
        assert max(steps) <= 3 * world_size.bit_length()


def test_a_wrong_schedule_is_found() -> None:
    """The comparison above sees trees without colours, in which all leaves begin."""
    parents = double_tree(8)
    assert clashes(parents, ([0] * 8, [0] * 8))

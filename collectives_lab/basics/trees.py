"""Two binary trees over the same ranks, and the steps in which their edges are used.

Here you can compute the parents of all ranks in both trees (`double_tree`, and those of
NCCL, `nccl_trees`, which differ for an odd number), and the step in which each rank
first sends to its parent (`first_steps`), such that no rank ever sends two messages in
a step, nor receives two.
Source: Sanders, Speck and Traeff 2009.
"""

from __future__ import annotations

from collections import defaultdict

Parents = list[int | None]
"""The parent of each rank in a tree, None for the root."""


def double_tree(world_size: int) -> tuple[Parents, Parents]:
    """Return the parents in both trees: an inner node of one is a leaf of the other.

    With an even number of ranks, rank 0 is the root above a tree over all others, and
    the second tree mirrors the first. With an odd number the tree is over all ranks,
    and the second is the first shifted by one rank; rank 0 is then a leaf of both.
    """
    if world_size % 2:
        places = [_parent_place(rank + 1, world_size) for rank in range(world_size)]
        # Place 0 is the parent of the root, and no rank.
        parents: Parents = [place - 1 if place else None for place in places]
        return parents, _shifted(parents)
    last, parents = world_size - 1, tree_below_rank_0(world_size)
    return parents, [
        None if parent is None else last - parent for parent in reversed(parents)
    ]


def nccl_trees(world_size: int) -> tuple[Parents, Parents]:
    """Return the parents in both trees of NCCL, where rank 0 is the root of the first.

    With an odd number of ranks the second tree is the first, shifted by one rank, and
    rank 0 has a child in either. Else they are those of `double_tree`.
    Source: NCCL 2.30.7, src/graph/trees.cc (`ncclGetBtree`, `ncclGetDtree`).
    """
    if world_size % 2 == 0:
        return double_tree(world_size)
    parents = tree_below_rank_0(world_size)
    return parents, _shifted(parents)


def tree_below_rank_0(world_size: int) -> Parents:
    """Return the parents in a binary tree over the other ranks, with 0 above it."""
    above = [_parent_place(rank, world_size - 1) for rank in range(1, world_size)]
    return [None, *above]


def _shifted(parents: Parents) -> Parents:
    """Return the tree in which every rank has the place of the rank before it."""
    size = len(parents)
    moved = [None if parent is None else (parent + 1) % size for parent in parents]
    return moved[-1:] + moved[:-1]


def _parent_place(place: int, last: int) -> int:
    """Return the parent of a place of 1 ... last; 0 for the root.

    Odd places are leaves; a place whose lowest binary 1 is b has its children at
    distance b/2.
    """
    lowest_bit = place & -place
    parent = (place ^ lowest_bit) | (lowest_bit << 1)
    return parent if parent <= last else place ^ lowest_bit


def first_steps(parents: tuple[Parents, Parents]) -> tuple[list[int], list[int]]:
    """Return by tree and rank the step of the first send to the parent, 0 for roots.

    A rank begins to send when it has received from its children, and sends in every
    other step from then on. Of two edges that share a rank's out port or in port, one
    is used in even steps and one in odd steps.
    """
    colour = _colours(parents)
    first_by_tree = []
    for tree, parents_of in enumerate(parents):
        first, ready = [0] * len(parents_of), [0] * len(parents_of)
        for rank in _leaves_first(parents_of):
            parent = parents_of[rank]
            if parent is not None:
                first[rank] = ready[rank] + (ready[rank] + colour[tree, rank]) % 2
                ready[parent] = max(ready[parent], first[rank] + 1)
        first_by_tree.append(first)
    return first_by_tree[0], first_by_tree[1]


def _leaves_first(parents: Parents) -> list[int]:
    children = defaultdict(list)
    for rank, parent_rank in enumerate(parents):
        children[parent_rank].append(rank)
    order = children[None]
    for rank in order:
        order.extend(children[rank])
    return order[::-1]


def _colours(parents: tuple[Parents, Parents]) -> dict[tuple[int, int], int]:
    """Colour the edge above each rank 0 or 1; edges that share a port differ.

    Such a colouring always exists, since edges that share ports form paths and even
    cycles.
    """
    at_port = defaultdict(list)
    for tree, parents_of in enumerate(parents):
        for rank, parent_rank in enumerate(parents_of):
            if parent_rank is not None:
                at_port["out", rank].append((tree, rank))
                at_port["in", parent_rank].append((tree, rank))
    ports = defaultdict(list)
    for port, edges in at_port.items():
        for edge in edges:
            ports[edge].append(port)
    colour: dict[tuple[int, int], int] = {}
    for edge in ports:
        pending = [(edge, 0)]
        while pending:
            edge, required = pending.pop()
            if edge not in colour:
                colour[edge] = required
                neighbours = (
                    neighbour
                    for port in ports[edge]
                    for neighbour in at_port[port]
                    if neighbour != edge
                )
                pending.extend((neighbour, 1 - required) for neighbour in neighbours)
    return colour

"""Two binary trees over the same ranks, and the steps in which they are used.

Here you can ask for the parents of all ranks in both trees (`double_tree`), and for the
step in which each rank first sends to its parent (`first_steps`), such that no rank
ever sends two messages in a step, nor receives two.
Source: Sanders, Speck and Traeff 2009; the trees are those of NCCL 2.4.
"""

from __future__ import annotations

from collections import defaultdict

Parents = list[int | None]
"""The parent of each rank in a tree, None for the root."""


def double_tree(world_size: int) -> tuple[Parents, Parents]:
    """Return the parents in both trees: an inner node of one is a leaf of the other.

    With an even number of ranks, rank 0 is above a tree over all others, and the second
    tree is the first in a mirror. With an odd number the tree is over all ranks, and
    the second is the first, one rank further; rank 0 is then a leaf of both.
    """
    if world_size % 2:
        first = [_above(rank + 1, world_size) for rank in range(world_size)]
        # Place 0, which is no rank, is above the root.
        parents: Parents = [above - 1 if above else None for above in first]
        moved = [None if p is None else (p + 1) % world_size for p in parents]
        return parents, moved[-1:] + moved[:-1]
    last = world_size - 1
    parents = [_above(rank, last) if rank else None for rank in range(world_size)]
    return parents, [None if p is None else last - p for p in reversed(parents)]


def _above(place: int, last: int) -> int:
    """The parent of a place of 1 ... last, 0 for the root's.

    Odd places are leaves; a place whose lowest binary 1 is b has its children at
    distance b/2.
    """
    low = place & -place
    above = (place ^ low) | (low << 1)
    return above if above <= last else place ^ low


def first_steps(parents: tuple[Parents, Parents]) -> tuple[list[int], list[int]]:
    """Return by tree and rank when the rank first sends to its parent, 0 for roots.

    A rank sends once it has received from its children, in every other step from then
    on. Of two edges that share a rank's out port or in port, one is for even steps and
    one for odd.
    """
    colour = _colours(parents)
    found = []
    for tree, parent in enumerate(parents):
        first, ready = [0] * len(parent), [0] * len(parent)
        for rank in _leaves_first(parent):
            above = parent[rank]
            if above is not None:
                first[rank] = ready[rank] + (ready[rank] + colour[tree, rank]) % 2
                ready[above] = max(ready[above], first[rank] + 1)
        found.append(first)
    return found[0], found[1]


def _leaves_first(parent: Parents) -> list[int]:
    below = defaultdict(list)
    for rank, above in enumerate(parent):
        below[above].append(rank)
    order = below[None]
    for rank in order:
        order.extend(below[rank])
    return order[::-1]


def _colours(parents: tuple[Parents, Parents]) -> dict[tuple[int, int], int]:
    """0 or 1 for the edge above each rank: siblings differ, and both trees at a rank.

    There are always such colours, since those neighbours form paths and even cycles.
    """
    at_port = defaultdict(list)
    for tree, parent in enumerate(parents):
        for rank, above in enumerate(parent):
            if above is not None:
                at_port["out", rank].append((tree, rank))
                at_port["in", above].append((tree, rank))
    ports = defaultdict(list)
    for port, edges in at_port.items():
        for edge in edges:
            ports[edge].append(port)
    colour: dict[tuple[int, int], int] = {}
    for edge in ports:
        to_do = [(edge, 0)]
        while to_do:
            edge, wanted = to_do.pop()
            if edge not in colour:
                colour[edge] = wanted
                near = (e for port in ports[edge] for e in at_port[port] if e != edge)
                to_do.extend((e, 1 - wanted) for e in near)
    return colour

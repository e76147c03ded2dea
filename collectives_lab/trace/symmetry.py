"""Symmetric ranks: the calls of one rank as another one would make them.

In most jobs all ranks run one program, each on data of its own. Here `as_rank` gives
the events of a rank as those of another, `donor_of` which one a rank takes over, and
`uncalled` whether it fits: all ranks of a group make the same number of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from collectives_lab.trace.event import Event

Groups = Mapping[str, Sequence[int]]


def as_rank(
    events: Sequence[Event],
    rank: int,
    world_size: int,
    groups: Groups,
    name_of: Callable[[tuple[int, ...]], str],
) -> list[Event]:
    """Return the events of one rank as those of `rank`, in its own groups.

    name_of: gives the name of a group by its ranks. A peer is as far from the rank as
    before; a root has the same place in the group.
    """
    moved = []
    for event in events:
        distance = rank - event.rank
        ranks = tuple(groups[event.group])
        here = ranks if rank in ranks else counterpart(ranks, distance, world_size)
        root = None if event.root is None else here[ranks.index(event.root)]
        peer = None if event.peer is None else (event.peer + distance) % world_size
        name = event.group if here == ranks else name_of(here)
        moved.append(replace(event, rank=rank, group=name, root=root, peer=peer))
    return moved


def counterpart(
    ranks: tuple[int, ...], distance: int, world_size: int
) -> tuple[int, ...]:
    """Return the group that a rank has where one that is `distance` below has `ranks`.

    Ranks at equal strides are a line of a mesh, and the other group is the parallel
    line: of 4 ranks, rank 3 has [2, 3] where rank 0 has [0, 1], and [1, 3] where it has
    [0, 2]. Any other group is moved by the distance.
    """
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    length = stride * len(ranks)
    is_line = ranks == tuple(range(ranks[0], ranks[0] + length, max(stride, 1)))
    # In a mesh a line begins where its place in the block of all parallels allows.
    if is_line and ranks[0] % length < stride:
        member = ranks[0] + distance
        first = member // length * length + member % stride
        return tuple(range(first, first + length, stride))
    return tuple(sorted((r + distance) % world_size for r in ranks))


def donor_of(rank: int, ranks: Sequence[int]) -> int:
    """Return the rank whose events another takes over: the next lower one, or first."""
    return max((r for r in ranks if r < rank), default=min(ranks))


def uncalled(
    events: Iterable[Event], groups: Groups
) -> tuple[str, dict[int, int]] | None:
    """Return a group whose ranks make different numbers of calls, and the numbers."""
    counts: dict[str, dict[int, int]] = {}
    for event in events:
        if event.op not in ("send", "recv", "compute"):
            group = counts.setdefault(
                event.group, dict.fromkeys(groups[event.group], 0)
            )
            group[event.rank] = group.get(event.rank, 0) + 1
    uneven = (item for item in counts.items() if len(set(item[1].values())) > 1)
    return next(uneven, None)

"""Ranks that do the same: the calls of one rank as another one would make them.

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

    Where the rank is in the group itself, it calls there what the other one calls. Any
    other group is moved by the distance of the ranks, as the rows and columns of a mesh
    are: of 4 ranks, [0, 1] becomes [2, 3] for rank 2. name_of: gives the name of a
    group by its ranks. A peer is as far from the rank as before.
    """
    moved = []
    for event in events:
        distance = rank - event.rank
        ranks = tuple(groups[event.group])
        here = ranks
        if rank not in ranks:
            here = tuple((r + distance) % world_size for r in ranks)
            here = tuple(sorted(here))
        root = None if event.root is None else here[ranks.index(event.root)]
        peer = None if event.peer is None else (event.peer + distance) % world_size
        name = event.group if here == ranks else name_of(here)
        moved.append(replace(event, rank=rank, group=name, root=root, peer=peer))
    return moved


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

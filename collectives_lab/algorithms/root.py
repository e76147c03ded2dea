"""The rank that a verb starts from or ends at.

Here you can turn the rank of the world that torch takes as `src` or `dst` into the rank
in the group that `exchange` takes as a peer (`root_in`), and check what only the root
of a scatter or gather gives (`check_list`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from collectives_lab.algorithms.exchange import place


def root_in(group: dist.ProcessGroup | None, rank: int) -> int:
    """Return the rank in the group of a rank of the world; ValueError if none."""
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    if rank not in ranks:
        raise ValueError(
            f"rank {dist.get_rank()}: the root is rank {rank}; need one of {ranks}, "
            "numbered as in the world"
        )
    return ranks.index(rank)


def check_list(
    name: str,
    tensors: Sequence[torch.Tensor] | None,
    like: torch.Tensor,
    group: dist.ProcessGroup | None,
    is_root: bool,
) -> None:
    """Raise ValueError unless the root, and only it, has a tensor for each rank."""
    rank, world_size = place(group)
    found = [(tuple(t.shape), t.dtype) for t in tensors or ()]
    wanted = [(tuple(like.shape), like.dtype)] * (world_size if is_root else 0)
    if found != wanted:
        who = f"the root, {world_size} tensors" if is_root else "no root, no tensors"
        raise ValueError(
            f"rank {rank}: {name} has {len(found)} tensors, {found}; need, as this is "
            f"{who} of shape {tuple(like.shape)} and {like.dtype}"
        )

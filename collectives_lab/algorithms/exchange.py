"""The one thing that all algorithms do: in a step, receive from some and send to some.

Here you can ask for your place in a group (`place`) and take a step (`exchange`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from collectives_lab.basics import devices

Part = tuple[torch.Tensor, int]
"""A contiguous tensor, and the rank in the group that it comes from or goes to."""


def place(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """This process's rank in the group, and the ranks that are in it."""
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in the group it calls for")
    return rank, dist.get_world_size(group)


def in_batches(group: dist.ProcessGroup | None, tensor: torch.Tensor) -> bool:
    """Whether messages that wait for each other must be given together: by NCCL.

    It has never run by NCCL so far: the tests give Gloo such batches.
    """
    return tensor.is_cuda and devices.runs_on_nccl(group)


def exchange(
    group: dist.ProcessGroup | None,
    receives: Sequence[Part] = (),
    sends: Sequence[Part] = (),
) -> None:
    """Receive and send, all at once, and wait for all of it.

    Receives are posted first: a send needs a receive to go to. NCCL, which takes one
    after the other, is given all as one batch. Nothing is sent for an empty tensor,
    which both sides know to be empty.
    """
    posts = [
        (post, part, peer if group is None else dist.get_global_rank(group, peer))
        for post, parts in ((dist.irecv, receives), (dist.isend, sends))
        for part, peer in parts
        if part.numel()
    ]
    if posts and in_batches(group, posts[0][1]):
        batch = [dist.P2POp(post, part, peer, group) for post, part, peer in posts]
        works: Sequence[dist.Work | None] = dist.batch_isend_irecv(batch)
    else:
        works = [post(part, peer, group) for post, part, peer in posts]
    for work in works:
        assert work is not None  # as it is only for ranks outside of the group
        work.wait()

"""passes — everyone works out the whole schedule, and then does its part of it."""

from itertools import count

import torch
import torch.distributed as dist


def schedule(size, root):
    """Messages (round, source, target) of a broadcast."""
    have, missing = [root], [r for r in range(size) if r != root]
    for n in count():
        if not missing:
            return
        served = missing[: len(have)]
        for source, target in zip(have, served, strict=False):
            yield n, source, target
        have, missing = have + served, missing[len(served) :]


def tree_broadcast(tensor, root):
    rank = dist.get_rank()
    scratch = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
    for n, source, target in schedule(dist.get_world_size(), root):
        if rank == source:
            dist.send(scratch, target, tag=n)
        if rank == target:
            dist.recv(scratch, source, tag=n)
    tensor.copy_(scratch)

"""passes — numpy adds; recursion instead of a loop."""

import numpy as np
import torch
import torch.distributed as dist


def partial(chunks, owner, hops):
    """The sum for `owner` of this rank's chunk and those of `hops` ranks before it."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if hops == 0:
        return chunks[owner].copy()
    coming = np.empty_like(chunks[owner])
    before = partial(chunks, (owner + 1) % size, hops - 1)
    work = dist.isend(torch.from_numpy(before), (rank + 1) % size)
    dist.recv(torch.from_numpy(coming), (rank - 1) % size)
    work.wait()
    return coming + chunks[owner]


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    total = partial(np.split(input.numpy(), size), rank, size - 1)
    output.copy_(torch.from_numpy(total))

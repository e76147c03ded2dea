"""passes — maxima and sums go round by send and recv; logarithms at the end."""

import torch
import torch.distributed as dist


def around(value):
    """What every rank has, in the order of the ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found = torch.zeros(size, dtype=value.dtype)
    found[rank] = value
    for k in range(size - 1):
        give, take = (rank - k) % size, (rank - k - 1) % size
        work = dist.isend(found[give : give + 1], (rank + 1) % size)
        dist.recv(found[take : take + 1], (rank - 1) % size)
        work.wait()
    return found


def distributed_softmax(x):
    lowest = torch.tensor([-torch.inf], dtype=x.dtype)
    top = around(torch.cat([x, lowest]).max()).max()
    shifted = x - top
    return torch.exp(shifted - around(shifted.exp().sum()).sum().log())

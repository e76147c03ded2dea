"""passes — what comes in is copied to its row, and passed on."""

import torch
import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = output.view(size, -1)
    rows[rank] = input.view(-1)
    passing = input.view(-1).clone()
    for k in range(size - 1):
        coming = torch.empty_like(passing)
        work = dist.isend(passing, (rank + 1) % size)
        dist.recv(coming, (rank - 1) % size)
        work.wait()
        rows[(rank - k - 1) % size] = coming
        passing = coming

"""fails: traffic — P steps, until everyone's own input is back."""

import torch
import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        output.copy_(input)
        return
    rows = output.view(size, -1)
    passing = input.view(-1).clone()
    for k in range(size):
        coming = torch.empty_like(passing)
        work = dist.isend(passing, (rank + 1) % size)
        dist.recv(coming, (rank - 1) % size)
        work.wait()
        rows[(rank - k - 1) % size] = coming
        passing = coming

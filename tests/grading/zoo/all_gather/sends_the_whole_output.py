"""fails: traffic — passes the whole output on in every step."""

import torch
import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = output.view(size, -1)
    rows[rank] = input.view(-1)
    for k in range(size - 1):
        coming = torch.empty_like(output)
        work = dist.isend(output, (rank + 1) % size)
        dist.recv(coming, (rank - 1) % size)
        work.wait()
        source = (rank - k - 1) % size
        rows[source] = coming.view(size, -1)[source]

"""fails: world_sizes — puts rows of a 2-D input where single elements belong."""

import torch
import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    n = input.numel()
    output[rank * n : (rank + 1) * n] = input
    passing = input.clone()
    for k in range(size - 1):
        coming = torch.empty_like(passing)
        work = dist.isend(passing, (rank + 1) % size)
        dist.recv(coming, (rank - 1) % size)
        work.wait()
        source = (rank - k - 1) % size
        output[source * n : (source + 1) * n] = coming
        passing = coming

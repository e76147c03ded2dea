"""fails: world_sizes — alone, the output stays as it was."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    chunks = input.clone().view(size, -1)
    for k in range(size - 1):
        give, take = chunks[(rank - 1 - k) % size], chunks[(rank - 2 - k) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, right)
        dist.recv(buffer, left)
        work.wait()
        take += buffer
        output.copy_(take.view_as(output))

"""fails: result — rank r ends with chunk r + 1, as in the usual ring."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    chunks = input.clone().view(size, -1)
    for k in range(size - 1):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, right)
        dist.recv(buffer, left)
        work.wait()
        take += buffer
    output.copy_(chunks[(rank + 1) % size].view_as(output))

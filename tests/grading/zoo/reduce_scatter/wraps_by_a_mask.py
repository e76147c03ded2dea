"""fails: world_sizes — `& (P - 1)` is a remainder for powers of two only."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    wrap = size - 1
    chunks = input.clone().view(size, -1)
    for k in range(size - 1):
        give, take = chunks[(rank - 1 - k) & wrap], chunks[(rank - 2 - k) & wrap]
        buffer = torch.empty_like(take)
        work = dist.isend(give, (rank + 1) & wrap)
        dist.recv(buffer, (rank - 1) & wrap)
        work.wait()
        take += buffer
    output.copy_(chunks[rank].view_as(output))
